"""Eigenvectors in several launches: right, with the bits that one launch gives."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import cuda_emulator
import emulated
from bed import Status
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import random_hermitian, zoo
from interpreter import run_python

pytestmark = emulated.needs_emulator

layouts = emulated.engine_module("_layouts")
split_layouts = emulated.engine_module("_split_layouts")

# The ends of what they are for, and the largest of every instantiation.
SIZES = [(33, "f8"), (40, "f8"), (48, "f8"), (49, "f8"), (64, "f8"), (49, "c8")]
SIZES += [(64, "c8"), (33, "c16"), (40, "c16"), (48, "c16"), (64, "c16")]
SOME = [(45, "f8"), (50, "f8"), (60, "c8"), (40, "c16")]  # of every kernel
DEVICES = range(3)


def solve(a, uplo="L", *, room=None, rounds=None, chunk=None):
    """In several launches; `chunk` is how many matrices the scratch memory is for."""
    split = split_layouts.split(a.shape[-1], a.dtype, room)
    split = replace(split, rounds=split.rounds if rounds is None else rounds)
    scratch = split_layouts.SCRATCH if chunk is None else chunk * split.each
    with mock.patch.object(split_layouts, "SCRATCH", scratch):
        return emulated.eigh_split(split, a, uplo)


# --- results ----------------------------------------------------------------


# Powers of two of the largest eigenvalue: subnormal, usual, and hardly a number.
TOPS = {4: (-146, 0, 126), 8: (-1071, 0, 1022)}


@pytest.mark.share(2)
@pytest.mark.sweep(12)
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("n, dtype", SIZES)
def test_the_zoo(rng, n, dtype, uplo):
    """On several devices: each approximates otherwise and holds another warp back."""
    real = np.finfo(dtype).dtype
    names, members = zip(*((x.name, x.a) for x in zoo(n, dtype, rng)), strict=True)
    for device, top in zip(DEVICES, TOPS[real.itemsize], strict=True):
        a = np.stack([_scaled(x, top) for x in members])
        with emulated.launches(device=device, held=device):
            w, v, status = solve(a, uplo)
        assert not status.any()
        assert_eigh(a, w, v, uplo=uplo, names=names)
        with emulated.launches(device=device):
            assert_same_bits((w, v, status), emulated.eigh(a, uplo))


def _scaled(a, top):
    """By a power of two, to a norm of about 2^top."""
    by = top - int(np.frexp(np.linalg.norm(a.astype("c16"), 2))[1])
    with np.errstate(under="ignore"):
        parts = np.ldexp(a.view(np.finfo(a.dtype).dtype).astype("g"), by)
        return parts.astype(np.finfo(a.dtype).dtype).view(a.dtype)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("n, dtype", SIZES)
def test_chunks_and_rounds_do_not_change_a_bit(rng, n, dtype):
    """Whatever there is room for: the last launch does what the rounds have left."""
    a = random_hermitian(rng, (7, n, n), dtype)
    a[2] = np.nan
    a[4] = np.diag(np.arange(n))
    expected = emulated.eigh(a)
    assert_eigh(a[:2], *(x[:2] for x in expected[:2]))
    assert expected[2].tolist() == [0, 0, Status.NOT_FINITE, 0, 0, 0, 0]
    least = 1 + n - 1  # entries of the longest sweep
    for options in (
        {},
        {"chunk": 3},
        {"chunk": 1, "room": 4 * n},
        {"chunk": 2, "room": least, "rounds": 5},
        {"room": least - 1, "rounds": 2},  # for short sweeps alone
        {"room": 1, "rounds": 1},
        {"rounds": 0},
    ):
        assert_same_bits(solve(a, **options), expected)


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Replace text of the sources, for the kernels of this test."""

    def change(old, new):
        found = 0
        for path in emulated.SOURCES.iterdir():
            text = path.read_text()
            found += text.count(old)
            (tmp_path / path.name).write_text(text.replace(old, new))
        assert found == 1
        monkeypatch.setattr(
            emulated,
            "kernel",
            lambda source, name: cuda_emulator.load(
                tmp_path / source, name, (tmp_path,)
            ),
        )

    return change


@pytest.mark.sweep(4)
@pytest.mark.parametrize("n, dtype", [(40, "f8"), (64, "f8"), (64, "c8"), (48, "c16")])
def test_random_matrices_are_done_in_the_rounds(changed, rng, n, dtype):
    """Where the last launch ends no chain, a round less leaves some."""
    a = random_hermitian(rng, (9, n, n), dtype)
    expected = emulated.eigh(a)
    changed("while (progress.hi > 0 && ", "while (false && ")
    assert_same_bits(solve(a), expected)
    assert Status.NO_CONVERGENCE in solve(a, rounds=1)[2]


@pytest.mark.parametrize("n, dtype", SOME)
def test_any_place_in_a_batch_and_any_strides(rng, n, dtype):
    whole = random_hermitian(rng, (5, n, n), dtype)
    expected = emulated.eigh(whole)
    frame = np.full((10, n + 3, n + 2), np.nan, dtype)
    frame[::-2, 3:, 1:-1] = whole
    views = [frame[::-2, 3:, 1:-1], np.asfortranarray(whole), whole.conj().mT]
    for a in views:
        assert_same_bits(solve(a, chunk=2), expected)
        assert_same_bits(solve(a.conj().mT, "U"), expected)
    for k in range(5):
        alone = tuple(x[k : k + 1] for x in expected)
        assert_same_bits(solve(whole[k : k + 1]), alone)
    last = tuple(x[2:] for x in expected)
    assert_same_bits(solve(whole[2:], chunk=2), last)
    nothing = solve(whole[:0])
    assert [x.shape for x in nothing] == [(0, n), (0, n, n), (0,)]


@pytest.mark.parametrize("n, dtype", SOME)
def test_one_triangle_is_read_and_the_input_is_left(rng, n, dtype):
    a = random_hermitian(rng, (3, n, n), dtype)
    i, j = np.indices((n, n))
    for uplo, other in ("L", i < j), ("U", i > j):
        hidden = np.where(other, np.nan, a).astype(dtype)
        before = hidden.copy()
        assert_same_bits(solve(hidden, uplo), emulated.eigh(a, uplo))
        assert_same_bits(hidden, before)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("n, dtype", SOME)
def test_no_convergence_is_flagged(changed, rng, n, dtype):
    """With no sweep allowed only the diagonal matrix is solved, in rounds and after."""
    changed("sweeps_per_eigenvalue = 30;", "sweeps_per_eigenvalue = 0;")
    a = random_hermitian(rng, (3, n, n), dtype)
    a[1] = np.diag(np.arange(n))
    for rounds in 1, 0:
        w, v, status = solve(a, rounds=rounds)
        assert status.tolist() == [Status.NO_CONVERGENCE, 0, Status.NO_CONVERGENCE]
        assert np.isnan(w[[0, 2]]).all() and np.isnan(v[[0, 2]]).all()
        assert_eigh(a[1], w[1], v[1])


# --- the choice, and the launches -------------------------------------------


def test_one_launch_is_taken_until_the_table_says_otherwise(monkeypatch):
    for name, least in split_layouts.CHOSEN.items():
        assert split_layouts.POSSIBLE[name] <= least <= layouts.MAX_N
    monkeypatch.setattr(split_layouts, "CHOSEN", {})
    assert split_layouts.chosen(64, np.dtype("f8")) is None
    monkeypatch.setitem(split_layouts.CHOSEN, "float64", 60)
    assert split_layouts.chosen(59, np.dtype("f8")) is None
    assert split_layouts.chosen(60, np.dtype("c16")) is None
    split = split_layouts.chosen(60, np.dtype("f8"))
    assert split is split_layouts.split(60, np.dtype("f8"))
    most = max(layout.shared for layout in split.layouts)
    assert split_layouts.chosen(60, np.dtype("f8"), most) is split
    assert split_layouts.chosen(60, np.dtype("f8"), most - 1) is None


@pytest.mark.parametrize("limit", [layouts.MOST_BYTES, 64 * 1024, 48 * 1024])
def test_a_device_with_less_shared_memory_has_its_bits_too(monkeypatch, limit):
    """Of the kernel that is taken for a matrix a block, if that solves it alone."""
    monkeypatch.setattr(split_layouts, "CHOSEN", split_layouts.POSSIBLE)
    for dtype, first in split_layouts.POSSIBLE.items():
        for n in range(first, layouts.MAX_N + 1):
            dtype = np.dtype(dtype)
            split = split_layouts.chosen(n, dtype, limit)
            if split is None:
                assert limit < layouts.MOST_BYTES
                continue
            alone = layouts.choose(n, dtype, eigenvectors=True, limit=limit)
            by_lanes = split.reduce.source == "split_reduce_lanes.cu"
            assert by_lanes == (alone.source == "eigh_chase.cu")


@pytest.mark.parametrize("dtype, first", split_layouts.POSSIBLE.items())
def test_memory_is_bounded_whatever_the_batch(dtype, first):
    for n in range(first, layouts.MAX_N + 1):
        split = split_layouts.split(n, np.dtype(dtype))
        for batch in 1, 1000, 10**7:
            capacity = split.capacity(batch)
            assert 1 <= capacity <= batch
            assert capacity * split.each <= 64 * 2**20
        # A chunk has chains for nine of ten multiprocessors of the largest GPU.
        assert capacity >= 0.9 * 132 * split_layouts.CHAINS
        assert max(layout.shared for layout in split.layouts) <= layouts.MOST_BYTES
        launches = list(split.launches(2 * capacity + 1, capacity))
        assert len(launches) == 3 * (2 + 2 * split.rounds)
        counts = [count for layout, _, count in launches if layout is split.finish]
        assert counts == [capacity, capacity, 1]


ON_THE_STAND_IN = """
import importlib, os
os.environ["BED_STAND_IN_KERNELS"] = "emulated"
import cuda_stand_in
cuda_stand_in.install()
import cupy, numpy as np
import bed
from bed.engines.raw_cuda import _split_layouts
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import random_hermitian

launcher = importlib.import_module("bed.engines.raw_cuda.eigh")
launched, queue = [], launcher._queue

def remember(layout, *rest):
    launched.append(layout.source)
    queue(layout, *rest)

launcher._queue = remember
a = random_hermitian(np.random.default_rng(5), (5, 50, 50), "f8")
there = [cupy.asarray(x) for x in (a, a[::-1].copy())]

def fetch(result):
    return tuple(cupy.asnumpy(x) for x in result)

one = [fetch(bed.eigh(x, return_info=True)) for x in there]
assert set(launched) == {"eigh_block.cu"}, launched

_split_layouts.CHOSEN["float64"] = 49
split = _split_layouts.split(50, np.dtype("f8"))
launched.clear()
streams = [cupy.cuda.Stream(non_blocking=True) for _ in there]
results = []
for x, stream in zip(there, streams):
    with stream:
        results.append(bed.eigh(x, return_info=True))
for both in zip(*(stream.work for stream in streams), strict=True):
    for work in both:  # of one stream and of the other in turn
        work()
for stream in streams:
    stream.work.clear()
for found, expected in zip(results, one):
    assert_same_bits(fetch(found), expected)
steps = [layout.source for layout, _, _ in split.launches(5, 5)]
assert launched == steps * 2, launched
assert_same_bits(cupy.asnumpy(bed.eigvalsh(there[0])), one[0][0])
assert launched[-1] == "eigh_block.cu"

launched.clear()
stream = streams[0]
with stream:
    stream.begin_capture()
    result = bed.eigh(there[0], return_info=True)
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert_same_bits(fetch(result), one[0])
print(*launched)
"""


def test_calls_of_several_streams_and_graphs():
    """Arrays of the stand-in, bed's launches, the kernels themselves."""
    assert run_python(ON_THE_STAND_IN).split() == ["eigh_block.cu"]
