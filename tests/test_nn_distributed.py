"""Whitening over processes equals whitening of the whole batch in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import bed.nn  # noqa: E402

SCRIPT = Path(__file__).with_name("nn_two_processes.py")
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}
# What of 12 each process has: alike, not alike, and one nothing, or both.
BOUNDS = {"even": (0, 6, 12), "uneven": (0, 2, 12), "empty": (0, 0, 12)}


def _cases(rng):
    """By name what two processes are given, in one start of them."""
    cases = {}
    for dtype in TOLERANCES:
        for track in ("whitening", "covariance"):
            for name, bounds in BOUNDS.items():
                cases[dtype, track, name] = _case(rng, dtype, track, bounds)
    cases[torch.float32, "whitening", "nothing"] = _case(
        rng, torch.float32, "whitening", (0, 0, 0)
    )
    cases[torch.float64, "covariance", "mean 300"] = _case(
        rng, torch.float64, "covariance", (0, 5, 12), mean=300
    )
    cases[torch.float64, "whitening", "compiled"] = {
        **_case(rng, torch.float64, "whitening", BOUNDS["uneven"]),
        "compiled": True,
    }
    return cases


def _case(rng, dtype, track, bounds, mean=0.5):
    options = {"num_features": 6, "group_size": 3, "track": track, "dtype": dtype}
    layer = bed.nn.ZCAWhitening1d(**options)
    with torch.no_grad():
        layer.weight.uniform_(0.5, 2)
        layer.bias.normal_()
    x, g = torch.from_numpy(rng.standard_normal((2, bounds[-1], 6, 5))).to(dtype)
    x = x + mean  # and the second half differs, which a mean of covariances misses
    x[bounds[-1] // 2 :] += 2
    state = layer.state_dict()
    given = {"options": options, "state": state, "x": x, "g": g, "bounds": bounds}
    return {**given, "compiled": False}


@pytest.mark.slow
def test_two_processes_are_one(rng, tmp_path):
    cases = _cases(rng)
    torch.save(list(cases.values()), tmp_path / "given.pt")
    paths = [str(Path(bed.__file__).parents[1]), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), tmp_path],
            env={**environment, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for (name, case), *parts in zip(cases.items(), *found, strict=True):
        _compare(name, case, parts)


def _compare(name, case, parts):
    tolerance = TOLERANCES[name[0]]
    layer = bed.nn.ZCAWhitening1d(**case["options"])
    layer.load_state_dict(case["state"])
    x = case["x"].clone().requires_grad_()
    y = layer(x)
    y.backward(case["g"])
    # Gradients of parameters belong to each process; DDP sums them.
    together = {
        "y": torch.cat([part["y"] for part in parts]),
        "x": torch.cat([part["x"] for part in parts]),
        "weight": parts[0]["weight"] + parts[1]["weight"],
        "bias": parts[0]["bias"] + parts[1]["bias"],
    }
    whole = {"y": y, "x": x.grad, "weight": layer.weight.grad, "bias": layer.bias.grad}
    for key, expected in whole.items():
        close(together[key], expected, tolerance, (*name, key))
    for part in parts:
        # Those inside a program are not counted.
        assert part["sums"] == ((0, 0) if case["compiled"] else (1, 1)), name
        for key, expected in layer.state_dict().items():
            close(part["state"][key], expected, tolerance, (*name, key))
    assert layer.num_batches_tracked == int(len(x) > 0)


def close(got, expected, tolerance, name):
    assert got.shape == expected.shape and got.dtype == expected.dtype, name
    if expected.numel():
        scale = expected.detach().abs().max().clamp(min=1)
        assert (got - expected).abs().max() <= tolerance * scale, name


def test_the_default_group_has_to_be_there(rng):
    layer = bed.nn.ZCAWhitening1d(4, group_size=2, process_group="world")
    with pytest.raises(RuntimeError, match="init_process_group"):
        layer(torch.ones(3, 4))
    assert layer.eval()(torch.ones(3, 4)).shape == (3, 4)
