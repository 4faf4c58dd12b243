"""Whitening in two processes of torch.distributed, each with its share of a batch.

    python nn_two_processes.py RANK FOLDER

Reads ``given.pt`` from the folder and writes ``RANK.pt``.
"""

import sys

import torch
from torch import distributed

import bed.nn


def main(rank: int, folder: str) -> None:
    given = torch.load(f"{folder}/given.pt")
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    plain, sums = distributed.all_reduce, count_sums()
    results = []
    for case in given:
        layer = bed.nn.ZCAWhitening1d(**case["options"], process_group="world")
        layer.load_state_dict(case["state"])
        call = layer
        if case["compiled"]:  # the last one: a program takes no list of calls
            distributed.all_reduce = plain
            call = torch.compile(layer, fullgraph=True, backend="aot_eager")
        first, last = case["bounds"][rank : rank + 2]
        x = case["x"][first:last].clone().requires_grad_()
        before = len(sums)
        y = call(x)
        forward = len(sums) - before
        y.backward(case["g"][first:last])
        result = {
            "y": y.detach(),
            "x": x.grad,
            "weight": layer.weight.grad,
            "bias": layer.bias.grad,
            "sums": (forward, len(sums) - before - forward),
            "state": layer.state_dict(),
        }
        results.append(result)
        before = len(sums)
        layer.eval()(x)  # each for itself, as often as it likes
        assert len(sums) == before
    torch.save(results, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def count_sums() -> list:
    """A list that grows with every all_reduce."""
    called, plain = [], distributed.all_reduce

    def all_reduce(*arguments, **options):
        called.append(None)
        return plain(*arguments, **options)

    distributed.all_reduce = all_reduce
    return called


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
