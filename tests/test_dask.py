"""Dask arrays: chunks of the batch, nothing before it is asked for, the same bits."""

import functools
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bed
from interpreter import run_python

dask = pytest.importorskip("dask", reason="needs dask: pip install 'batched-ed[dask]'")
import dask.array as da  # noqa: E402

import bed.dask  # noqa: E402

ARGUMENTS = {"powm": (-0.5,), "clampm": (1, 2)}
SCRIPT = Path(__file__).with_name("dask_two_workers.py")


@pytest.fixture
def chunked(rng):
    """A Dask array of positive definite matrices, one of them NaN, and the array."""
    x = rng.standard_normal((10, 4, 3, 7)).astype("f4")
    a = x @ x.swapaxes(-1, -2)
    a[3, 2, 1, 1] = np.nan
    return da.from_array(a, chunks=(3, 2, 3, 3)), a


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        z = x.compute(scheduler="threads")
        assert (z.dtype, z.shape) == (y.dtype, y.shape)
        assert z.tobytes() == y.tobytes()


@pytest.mark.parametrize("info", [False, True])
@pytest.mark.parametrize("name", sorted(set(bed.dask.__all__) - {"solve"}))
def test_results_are_those_of_arrays(chunked, name, info):
    x, a = chunked
    arguments = ARGUMENTS.get(name, ())
    found = getattr(bed.dask, name)(x, *arguments, UPLO="U", return_info=info)
    expected = getattr(bed, name)(a, *arguments, UPLO="U", return_info=info)
    assert type(found) is (type(expected) if isinstance(expected, tuple) else da.Array)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    assert_same(found, expected)
    for each in found:
        assert each.chunks[:2] == x.chunks[:2]


def test_nothing_is_solved_before_it_is_asked_for(chunked, monkeypatch):
    solved = []

    def eigh(a, **options):
        solved.append(len(a))
        return original(a, **options)

    original = bed.eigh
    monkeypatch.setattr(bed, "eigh", eigh)
    w, v = bed.dask.eigh(chunked[0])
    assert not any(solved)
    solved.clear()
    dask.compute(w, v, scheduler="sync")
    assert sorted(solved) == [1, 1, 3, 3, 3, 3, 3, 3]  # once for both


def test_the_graph_is_linear_in_chunks():
    def tasks(chunks):
        a = da.ones((chunks, 2, 2), chunks=(1, 2, 2))
        w, v = bed.dask.eigh(a)
        return sum(len(dict(x.__dask_graph__())) for x in (w, v))

    few, twice, more = (tasks(n) for n in (10, 20, 40))
    assert more - twice == 2 * (twice - few)
    assert more < 12 * 40


@pytest.mark.parametrize("chunks", [(5, 2, 3), (5, 3, 1), (5, (1, 2), (2, 1))])
def test_matrices_that_are_cut(chunks):
    x = da.ones((5, 3, 3), chunks=chunks)
    with pytest.raises(ValueError, match=r"matrices are cut by chunks, of .* rows and"):
        bed.dask.eigh(x)
    w, _ = bed.dask.eigh(x.rechunk({-2: -1, -1: -1}))
    np.testing.assert_allclose(w.compute()[:, -1], 3, rtol=1e-12)


@pytest.mark.parametrize(
    "shape, options, said",
    [
        ((4, 2, 3), {}, "expected square matrices"),
        ((4, 2, 2), {"UPLO": "x"}, "UPLO must be"),
        ((4, 2, 2), {"driver": "none"}, "none"),
        ((4, 2, 2), {"check": True}, "check: not for Dask arrays"),
    ],
)
def test_errors_come_at_once(shape, options, said):
    with pytest.raises(ValueError, match=said):
        bed.dask.eigh(da.ones(shape), **options)


def test_other_arrays_and_dtypes(rng):
    a = rng.integers(-9, 9, (4, 2, 2))
    a += a.swapaxes(1, 2)
    assert_same(bed.dask.eigh(a), bed.eigh(a))
    assert_same([bed.dask.expm(a[:0])], [bed.expm(a[:0])])
    unknown = da.from_array(a, chunks=(2, 2, 2))[da.from_array(np.arange(4) > 1)]
    assert bed.dask.eigvalsh(unknown).compute().tolist() == bed.eigvalsh(a[2:]).tolist()


def test_threads_are_those_of_dask(chunked, monkeypatch):
    from bed.engines._threads import thread_count

    counts = []
    monkeypatch.setattr(bed, "expm", lambda a, **_: counts.append(thread_count()) or a)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "7")
    bed.dask.expm(chunked[0]).compute(scheduler="sync")
    assert set(counts) == {1}
    counts.clear()
    bed.dask.expm(chunked[0], threads=3).compute(scheduler="sync")
    assert set(counts) == {3}


def test_what_chunks_are_given_to_is_a_gufunc(rng):
    solve = functools.partial(bed.dask.solve, name="powm", arguments=(2,), threads=2)
    a = rng.standard_normal((5, 3, 3))
    found = pickle.loads(pickle.dumps(solve))(a)
    assert found.tobytes() == bed.powm(a, 2).tobytes()


ON_THE_STAND_IN = """
import cuda_stand_in
cuda_stand_in.install()
import cupy, dask.array as da, numpy as np
import bed, bed.dask

a = np.diag([3.0, 1.0, 2.0]) + np.arange(6.0)[:, None, None]
x = da.from_array(cupy.asarray(a), chunks=(2, 3, 3), asarray=False)
w, v = bed.dask.eigh(x)
assert type(w._meta) is type(v._meta) is cupy.ndarray
w = w.compute(scheduler="sync")
assert type(w) is cupy.ndarray
assert w.get().tobytes() == bed.eigvalsh(a).tobytes()
"""


def test_chunks_of_cupy():
    """On the stand-in: results are of CuPy, and so is what describes them."""
    run_python(ON_THE_STAND_IN)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="needs distributed"
)
def test_a_worker_is_killed():
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["left"] > 10
    assert found["equal"]
    assert found["shapes"] == [[12000, 4], [12000, 4, 4]]
    # Chunks of the killed one were solved anew, by the other or the one in its place.
    assert len(found["workers"]) == 2
    assert found["killed"] not in found["where"]
    assert found["here"] not in found["where"]


def test_example_of_the_page(capsys):
    """scripts/docs/clusters.md, where the other recipes need what is not here."""
    page = Path(__file__).parents[1] / "scripts" / "docs" / "clusters.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)
    exec(compile(code, page.name, "exec"), {})
    means = np.array(capsys.readouterr().out.strip("[]\n").split(), float)
    assert means.shape == (8,) and (np.diff(means) > 0).all()
