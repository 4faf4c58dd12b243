"""What correct device code computes, in whatever order its lanes run."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from . import Buffer, EmulatorError, missing
from .kernels import compile_file

reason = missing()
pytestmark = pytest.mark.skipif(
    reason is not None, reason=f"the CUDA emulator {reason}"
)
TYPES = {
    "float": "f4",
    "double": "f8",
    "int": "i4",
    "unsigned": "u4",
    "long long": "i8",
    "unsigned long long": "u8",
}
SEEDS = range(8)
FULL = 2**32 - 1


@pytest.fixture(scope="module")
def collectives():
    sums = [f"group_sums<{t}, {n}>" for t in ("float", "int") for n in (2, 8, 32)]
    return compile_file("collectives.cu", [f"shuffles<{t}>" for t in TYPES] + sums)


@pytest.fixture(scope="module")
def scalars():
    return compile_file("scalars.cu")


def _numbers(rng, count, dtype="i4"):
    return rng.integers(0, 100, count).astype(dtype)


@pytest.mark.parametrize("amount", [0, 1, 5, 31, 33])
@pytest.mark.parametrize("width", [1, 4, 16, 32])
@pytest.mark.parametrize("name", TYPES)
def test_shuffles(collectives, rng, name, width, amount):
    dtype, threads = TYPES[name], 80  # the last warp is half a warp
    x, out = _numbers(rng, threads, dtype), Buffer((4, threads), dtype)
    args = [Buffer.of(x), out, width, amount, np.uint32(FULL)]
    collectives[f"shuffles<{name}>"](1, threads, 0, args, seed=amount)

    # From the definition of shfl.sync in the manual of PTX.
    lane, step = np.arange(threads) % 32, amount % 32
    first, last = lane & (32 - width), lane | (width - 1)
    sources = np.array([
        first | (step & (width - 1)),
        np.where(lane - step >= first, lane - step, lane),
        np.where(lane + step <= last, lane + step, lane),
        np.where(lane ^ step <= last, lane ^ step, lane),
    ])  # fmt: skip
    sources += np.arange(threads) // 32 * 32
    exists = sources < threads
    expected = x[np.where(exists, sources, 0)]
    np.testing.assert_array_equal(out.array[exists], expected[exists])
    # A lane that takes no part gives what no computation gives.
    nothing = np.full(1, 0xFF, "u1").repeat(8).view(dtype)[0]
    np.testing.assert_array_equal(out.array[~exists], nothing)


@pytest.mark.parametrize("others_exit", [False, True])
@pytest.mark.parametrize("mask", [1, 0x8000F00F, FULL])
def test_votes(collectives, rng, mask, others_exit):
    x = rng.integers(0, 3, 64, dtype="i4")
    x[:32] = x[0]  # for once they agree
    for seed in SEEDS:
        out = Buffer((4, 64), "u4", fill=7)
        args = [Buffer.of(x), out, np.uint32(mask), others_exit]
        collectives["votes"](1, 64, 0, args, seed=seed)
        for i in range(64):
            if others_exit and not mask >> i % 32 & 1:
                assert (out.array[:, i] == 7).all()
                continue
            lanes = [j for j in range(32) if (mask >> j & 1) == (mask >> i % 32 & 1)]
            y = x[i // 32 * 32 :][:32]
            ballot = sum(1 << j for j in lanes if y[j] > 0)
            match = sum(1 << j for j in lanes if y[j] == x[i])
            everyone = all(y[j] > 0 for j in lanes)
            assert out.array[:, i].tolist() == [ballot, everyone, ballot > 0, match]


@pytest.mark.parametrize("lanes", [2, 8, 32])
@pytest.mark.parametrize("name", ["float", "int"])
def test_groups_of_lanes_work_on_their_own(collectives, rng, name, lanes):
    x = _numbers(rng, 64, TYPES[name])
    for seed in SEEDS:
        out = Buffer(64, TYPES[name])
        args = [Buffer.of(x), out]
        collectives[f"group_sums<{name}, {lanes}>"](1, 64, 0, args, seed=seed)
        expected = x.reshape(-1, lanes).sum(1).repeat(lanes)
        np.testing.assert_array_equal(out.array, expected)


def test_block_barriers_and_shared_memory(collectives, rng):
    x = rng.uniform(size=(5, 100))
    for seed in SEEDS:
        out = Buffer(x.shape, "f8")
        args = [Buffer.of(x), out]
        collectives["running_maximum"](5, 100, 800, args, seed=seed)
        np.testing.assert_array_equal(out.array, np.maximum.accumulate(x, axis=1))


@pytest.mark.parametrize("stay", [1, 40, 64, 100])
def test_block_votes(collectives, rng, stay):
    x = rng.integers(0, 2, 100, dtype="i4")
    count = int(x[:stay].sum())
    for seed in SEEDS:
        out = Buffer((3, 100), "i4")
        collectives["block_votes"](1, 100, 0, [Buffer.of(x), out, stay], seed=seed)
        expected = np.array([[count > 0], [count == stay], [count]]).repeat(stay, 1)
        np.testing.assert_array_equal(out.array[:, :stay], expected)
        assert out.unwritten()[:, stay:].all()


@pytest.mark.parametrize("threads", [64, 160])
def test_named_barriers_between_producer_and_consumers(collectives, rng, threads):
    x = _numbers(rng, (7, 32), "f4")
    for seed in SEEDS:
        out = Buffer(threads, "f4")
        collectives["pipeline"](1, threads, 256, [Buffer.of(x), out, 7], seed=seed)
        assert (out.array[32:] == (x**2).sum()).all()


def test_a_warp_that_is_held_back_comes_last(collectives):
    """Between two barriers, and the seed decides when nobody holds one."""
    rounds, warps = 4, 3
    orders = set()

    def run(**options):
        out, count = Buffer((rounds, 3 * warps), "i4"), Buffer(1, "i4", fill=0)
        collectives["order"](1, 32 * warps, 0, [out, count, rounds], **options)
        return out.array.copy()

    for seed in SEEDS:
        for held in range(warps):
            assert (run(seed=seed, held=held)[:, -3:] == held).all()
        found = run(seed=seed)
        np.testing.assert_array_equal(np.sort(found), [[0, 0, 0, 1, 1, 1, 2, 2, 2]] * 4)
        orders.update(map(tuple, found))
    assert len(orders) > len(SEEDS)
    firsts, lasts = ({order[i] for order in orders} for i in (0, -1))
    assert firsts == lasts == set(range(warps))


def test_indices_in_three_dimensions(collectives):
    out = Buffer((4, 3, 2, 3, 5, 2), "i4")
    collectives["indices"]((2, 3, 4), (2, 5, 3), 0, [out], seed=1)
    assert out.array.ravel().tolist() == list(range(out.array.size))


def test_16_bit_types_are_exact(scalars):
    bits = np.arange(2**16, dtype="u2")
    h, b = bits.view("f2"), bits.view(ml_dtypes.bfloat16)
    out = Buffer(2**16, "f4"), Buffer(2**16, "f4")
    scalars["widen"](256, 256, 0, [Buffer.of(h), Buffer.of(b), *out])
    for result, expected in zip(out, (h, b), strict=True):
        expected = expected.astype("f4")
        same = result.array.view("u4") == expected.view("u4")
        assert (same | (np.isnan(result.array) & np.isnan(expected))).all()


def test_bits(scalars, rng):
    x = np.array([0, 1, 2**31, FULL, *rng.integers(0, 2**32, 60)], "u4")
    out = Buffer((8, 64), "i4")
    scalars["count_bits"](1, 64, 0, [Buffer.of(x), out])
    for i, n in enumerate(map(int, x)):
        low = (n & -n).bit_length()
        length, ones = n.bit_length(), n.bit_count()
        mirrored = np.uint32(int(f"{n:032b}"[::-1], 2)).view("i4")
        wide = [32 - length, 48 - length if n else 64, low, low + 16 if n else 0]
        assert out.array[:, i].tolist() == [*wide, ones, ones, mirrored, min(i, 3)]


def test_maths(scalars, rng):
    x = np.exp(rng.uniform(-80, 80, 4096)).astype("f4")
    out = Buffer((8, 4096), "f4")
    scalars["maths"](32, 128, 0, [Buffer.of(x), out])
    wide = x.astype("f8")
    exact = np.array([1 / np.sqrt(wide), 1 / np.sqrt(wide), 1 / wide, 1 / wide])
    errors = abs(out.array[:4] - exact) / np.spacing(exact.astype("f4"))
    assert errors[[1, 3]].max() <= 0.5  # rounded
    assert 1 < errors[[0, 2]].max() < 3  # approximated
    near = out.array[4] - exact[0].astype("f4")
    np.testing.assert_array_less(abs(near), np.spacing(out.array[4]) * 1.5)
    np.testing.assert_array_equal(out.array[6:], [x, x])


@pytest.mark.parametrize("flush", [False, True])
def test_subnormals_are_flushed_on_request(scalars, flush):
    x, out = Buffer.of(np.array([2**-100, 2**-30, 2**-140, 1], "f4")), Buffer(4, "f4")
    scalars["products"](1, 1, 0, [x, out], flush_subnormals=flush)
    kept = [2**-130, 2**-130, 2**-140, 2**-140]
    flushed = [0, 2**-130, 0, 2**-140]
    assert out.array.tolist() == (flushed if flush else kept)


def test_arguments_of_every_form(scalars):
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))

    out = Buffer(1, "c8")
    any_, n = Buffer.of(np.array([9], "i8")), ctypes.c_longlong(-(2**40))
    args = [Pair(0.5, -7), True, np.uint8(200), n, 0.25, any_, out]
    scalars["arguments"](1, 1, 0, args)
    assert out.array[0] == 194.5 + 1j * np.float32(9.25 - 2**40)
    other = Buffer(1, "f4")
    for i, wrong in [(0, 1), (1, 2), (2, 256), (3, np.int32(1)), (5, 0), (6, other)]:
        with pytest.raises(EmulatorError, match=f"as argument {i}, not"):
            scalars["arguments"](1, 1, 0, [*args[:i], wrong, *args[i + 1 :]])
    with pytest.raises(EmulatorError, match="takes 7 arguments, not 6"):
        scalars["arguments"](1, 1, 0, args[:6])


def test_pointers_to_views_and_to_nothing(scalars):
    a, out = Buffer.of(np.arange(12, dtype="f4").reshape(4, 3)), Buffer(4, "f4")
    for seed in (0, 1):
        for view in (a.array[:, 1], a.array[::-1, 2]):
            stride = view.strides[0] // 4
            scalars["column"](1, 4, 0, [a.pointer(view), stride, out], seed=seed)
            np.testing.assert_array_equal(out.array, view)
    scalars["column"](1, 4, 0, [None, 0, out])
    assert (out.array == -1).all()
    with pytest.raises(ValueError, match="not a view"):
        a.pointer(out.array)
