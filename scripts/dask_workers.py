"""Matrices a second by one and by two workers of dask.distributed, a thread each.

Every worker makes its share of random 8 × 8 matrices, chunk by chunk, solves them and
adds up the eigenvalues, so that little travels. Needs dask and distributed.
"""

import time

import dask.array as da
import distributed
import numpy as np

import bed.dask
from bed._console import ArgumentParser, show


def main() -> int:
    """Print both rates and their ratio; 1 if that is too small."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--matrices", type=int, default=10**7, help="for each worker")
    parser.add_argument("--chunk", type=int, default=10**5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=1.6, help="ratio")
    options = parser.parse_args()
    rates: dict[int, list[float]] = {1: [], 2: []}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        names = list(client.scheduler_info()["workers"])
        _seconds(client, names, 2 * options.chunk, options.chunk)  # compiles
        for _ in range(options.rounds):
            for workers, of_count in rates.items():
                count = workers * options.matrices
                seconds = _seconds(client, names[:workers], count, options.chunk)
                of_count.append(count / seconds)
    one, two = (float(np.median(of_count)) for of_count in rates.values())
    show(
        f"{options.matrices} 8 × 8 float32 a worker, {options.rounds} rounds in turns",
        f"one worker {one:.3g} matrices/s, two {two:.3g}, ratio {two / one:.2f}",
    )
    return 0 if two / one >= options.least else 1


def _seconds(client, workers: list[str], count: int, chunk: int) -> float:
    """To make, solve and add up so many matrices on these workers."""
    whole, rest = divmod(count, chunk)
    sizes = (chunk,) * whole + ((rest,) if rest else ())
    a = da.map_blocks(_matrices, chunks=(sizes, (8,), (8,)), dtype="f4")
    total = bed.dask.eigvalsh(a).sum()
    began = time.perf_counter()
    client.compute(total, workers=workers, allow_other_workers=False).result()
    return time.perf_counter() - began


def _matrices(block_info=None):
    if block_info is None:  # Dask looks at what comes of nothing
        return np.empty((0, 8, 8), "f4")
    place, shape = block_info[None]["chunk-location"], block_info[None]["chunk-shape"]
    rng = np.random.default_rng(place[0])
    x = rng.standard_normal(shape, "f4")
    return x + x.swapaxes(1, 2)


if __name__ == "__main__":
    raise SystemExit(main())
