"""Two workers of dask.distributed, one of which is killed in the midst of its work.

Prints what came of it as JSON. A script of its own, as workers begin by importing it.
"""

import json
import os
import signal
import time

import dask
import dask.array as da
import distributed
import numpy as np

import bed
import bed.dask

CHUNKS, EACH = 24, 500


def matrices(block_info=None):
    """A chunk, made on a worker; it takes a moment."""
    time.sleep(0.1)
    number = block_info[None]["chunk-location"][0]
    x = np.random.default_rng(number).standard_normal((EACH, 4, 4))
    return x + x.swapaxes(1, 2)


def pids(w):
    """For each chunk of eigenvalues, the process that has it."""
    return np.full(w.shape[:1], os.getpid())


def not_here(*arguments, **options):
    raise AssertionError("a chunk was solved in the process of the scheduler")


def main():
    chunks = ((EACH,) * CHUNKS, (4,), (4,))
    a = da.map_blocks(matrices, chunks=chunks, dtype="f8", meta=np.empty((0, 0, 0)))
    w, v = bed.dask.eigh(a)
    where = w.map_blocks(pids, drop_axis=1, dtype=int, meta=np.empty(0, int))
    expected = [bed.eigh(matrices({None: {"chunk-location": (i,)}})) for i in range(3)]
    bed.eigh = not_here
    settings = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.worker.daemon": False,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = set(client.run(os.getpid).values())
        results = client.persist([w, v, where])
        futures = distributed.futures_of(results)
        while sum(future.done() for future in futures) < 6:
            time.sleep(0.01)
        left = sum(not future.done() for future in futures)
        os.kill(min(workers), signal.SIGKILL)
        w, v, where = client.gather(client.compute(results))
    print(
        json.dumps(
            {
                "left": left,
                "killed": min(workers),
                "workers": sorted(workers),
                "here": os.getpid(),
                "where": sorted(set(where.tolist())),
                "shapes": [w.shape, v.shape],
                "equal": all(
                    w[i * EACH : (i + 1) * EACH].tobytes() == x.eigenvalues.tobytes()
                    and v[i * EACH : (i + 1) * EACH].tobytes()
                    == x.eigenvectors.tobytes()
                    for i, x in enumerate(expected)
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
