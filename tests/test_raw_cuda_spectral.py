"""Functions of matrices in the fused CUDA engine, by the emulator."""

import re
from functools import partial

import numpy as np
import pytest

import cuda_emulator
import emulated
from bed import Status
from bed._derivative import gaps
from bed._functions import BAND, Function, Spectral
from bed.testing.checks import assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from cuda_emulator import EmulatorError
from matrix_functions import (
    FUNCTIONS,
    adjoint,
    assert_gradients_of_the_decomposition,
    assert_near,
    assert_values_and_gradients,
    decomposed,
    differences,
    drawn,
    general,
)

pytestmark = pytest.mark.skipif(
    cuda_emulator.missing() is not None,
    reason=f"the CUDA emulator {cuda_emulator.missing()}",
)
layouts = emulated.engine_module("_spectral_layouts")
gradients = emulated.engine_module("spectral_vjp")
module = emulated.engine_module("_module")

IDENTITY, SQRT = Spectral(Function.IDENTITY), Spectral(Function.SQRT)
INVSQRT, EXP = Spectral(Function.INVSQRT), Spectral(Function.EXP)
# A layout ends, or a kernel of another shape begins, at these.
BORDERS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 44, 45, 55, 56, 64)
PRODUCTS, GRADIENTS = "spectral_product", "spectral_vjp"


def run(name, *arguments, **options):
    """A function of the engine, on the host."""
    return getattr(emulated.functions(), name)(*arguments, **options)


# --- values -----------------------------------------------------------------


@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", BORDERS)
def test_values_and_gradients(rng, n, dtype):
    """Of every function, for batches that end within a block."""
    batch = 2 * layouts.product(n, np.dtype(dtype)).matrices + 1
    batch = min(batch, 5 if n > 8 else 40)
    for name, function in FUNCTIONS.items():
        if n > 9 and name not in ("sqrt", "exp", "clamp"):
            continue  # the scalar maths is tested elsewhere
        w, v = drawn(rng, batch, n, dtype, function)
        product, vjp = partial(run, PRODUCTS), partial(run, GRADIENTS)
        assert_values_and_gradients(rng, product, vjp, w, v, function)


@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", BORDERS)
def test_gradients_of_the_decomposition(rng, n, dtype):
    eigh_vjp = partial(run, "eigh_vjp")
    assert_gradients_of_the_decomposition(rng, eigh_vjp, 3, n, dtype)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 6, 20])
def test_from_matrices(rng, n, dtype):
    """The decomposition first; of one triangle, kept or not."""
    a = random_hermitian(rng, (4, n, n), dtype)
    a = a @ adjoint(a) + np.eye(n, dtype=dtype)
    i, j = np.indices((n, n))
    for uplo in "LU":
        hidden = np.where(i < j if uplo == "L" else i > j, np.nan, a).astype(dtype)
        f, w, v, status = run("spectral", hidden, uplo, SQRT)
        assert not status.any()
        assert_same_bits((w, v), emulated.eigh(hidden, uplo)[:2])
        assert_near(f @ f, a, abs(a).max(axis=(-2, -1)), n, 24)
        assert_same_bits(f, run(PRODUCTS, w, v, SQRT)[0])
        for kept in ((None, None), (np.empty_like(w), None), (None, np.empty_like(v))):
            out = (np.empty_like(f), *kept, np.empty_like(status))
            result = run("spectral", hidden, uplo, SQRT, out=out)
            assert all(x is y for x, y in zip(result, out, strict=True))
            assert_same_bits((result[0], result[3]), (f, status))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_read_as_they_are(rng, name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 of its own")
    a = random_hermitian(rng, (3, 6, 6), "f4").astype(name)
    expected = run("spectral", a.astype("f4"), "L", EXP)
    assert_same_bits(run("spectral", a, "L", EXP), expected)


# --- floors, domains, failures -----------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_what_eigenvalues_stand_for(rng, dtype, scale):
    """A floor, the band of zeros, and what is below it."""
    n = 5
    unit = n * float(np.finfo(dtype).eps)
    relative = np.array([-0.9 * BAND * unit, 0, 0.5 * unit, 40 * unit, 1])
    w, v = relative[None] * scale, decomposed(rng, 1, n, dtype)[1]
    w = w.astype(dtype)
    g = general(rng, v.shape, dtype)

    f, status = run(PRODUCTS, w, v, SQRT)
    exact = (v * np.sqrt(np.maximum(w.astype("f8"), 0))[:, None, :]) @ adjoint(v)
    assert not status.any()
    assert_near(f, exact, scale**0.5, n)
    assert np.isfinite(run(GRADIENTS, w, v, g, SQRT)).all()

    for function in (INVSQRT, Spectral(Function.POWER, -1)):
        f, status = run(PRODUCTS, w, v, function)
        assert status.tolist() == [Status.DOMAIN]
        assert np.isnan(f).all()
        assert np.isnan(run(GRADIENTS, w, v, g, function)).all()

    below = w.copy()
    below[0, 0] = -1.1 * BAND * unit * scale
    for function in (SQRT, Spectral(Function.LOG), Spectral(Function.POWER, 0.5)):
        assert run(PRODUCTS, below, v, function)[1].tolist() == [Status.DOMAIN]
    for function in (EXP, Spectral(Function.POWER, 2), IDENTITY):
        assert run(PRODUCTS, below, v, function)[1] != Status.DOMAIN

    floor = 10.0
    c = floor * unit * scale
    f, status = run(PRODUCTS, below, v, SQRT._replace(floor=floor))
    lifted = np.maximum(below.astype("f8"), c)
    assert not status.any()
    assert_near(f, (v * np.sqrt(lifted)[:, None, :]) @ adjoint(v), scale**0.5, n)
    gradient = run(GRADIENTS, below, v, g, SQRT._replace(floor=floor))
    slopes = differences(SQRT, lifted)
    x, y = below.astype("f8")[:, :, None], below.astype("f8")[:, None, :]
    with np.errstate(invalid="ignore"):
        share = (np.maximum(x, c) - np.maximum(y, c)) / (x - y)
    slopes = slopes * np.where(x == y, x >= c, share)
    exact = v @ (slopes * (adjoint(v) @ ((g + adjoint(g)) / 2) @ v)) @ adjoint(v)
    assert_near(gradient, exact, abs(slopes).max() * np.linalg.norm(g), n, 32)


def test_an_infinite_slope_below_the_floor_does_not_count(rng):
    w, v = decomposed(rng, 1, 4, "f4")
    w[:] = np.array([1e-36, 1e-36, 1e-20, 2e-20])
    function = INVSQRT._replace(floor=1.0)  # 1e-26, of which the slope is 5e38
    gradient = run(GRADIENTS, w, v, v, function)
    assert np.isfinite(gradient).all()


def test_float32_that_is_subnormal_counts(rng):
    """The root of a matrix of subnormal numbers is no subnormal number."""
    n = 4
    w, v = decomposed(rng, 2, n, "f4")
    tiny = (w * np.float32(1e-41)).astype("f4")
    f, status = run(PRODUCTS, tiny, v, SQRT)
    exact = (v * np.sqrt(tiny.astype("f8"))[:, None, :]) @ adjoint(v)
    assert not status.any()
    assert_near(f, exact, abs(exact).max(), n)
    large = (w * np.float32(1e38)).astype("f4")
    f, status = run(PRODUCTS, large, v, Spectral(Function.POWER, -1.1))
    exact = (v * (large.astype("f8") ** -1.1)[:, None, :]) @ adjoint(v)
    assert f.any()
    assert abs(f - exact).max() <= 8 * n * np.finfo("f4").smallest_subnormal


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 7, 19])
def test_failures_stay_alone(rng, n, dtype):
    a = random_hermitian(rng, (6, n, n), dtype)
    a = a @ adjoint(a) / n + np.eye(n, dtype=dtype)
    expected = run("spectral", a, "L", SQRT)
    g = general(rng, a.shape, dtype)
    gradient = run(GRADIENTS, *expected[1:3], g, SQRT)
    a[1, -1, 0], a[3] = np.nan, -a[3]
    f, w, v, status = run("spectral", a, "L", SQRT)
    assert status.tolist() == [0, Status.NOT_FINITE, 0, Status.DOMAIN, 0, 0]
    assert np.isnan(f[[1, 3]]).all()
    good = [0, 2, 4, 5]
    assert_same_bits((f[good], w[good]), (expected[0][good], expected[1][good]))
    g[5] = 0
    again = run(GRADIENTS, w, v, g, SQRT)
    assert np.isnan(again[[1, 3]]).all()
    assert_same_bits(again[[0, 2, 4]], gradient[[0, 2, 4]])
    assert not again[5].any()
    g[:] = 0
    assert not run(GRADIENTS, w, v, g, SQRT).any()
    for by_w, by_v in ((0 * w[:1], g[:1]), (None, g[:1]), (0 * w[:1], None)):
        lost = np.full_like(w[:1], np.nan), np.full_like(v[:1], np.nan)
        zero = None if by_w is None else np.zeros_like(by_w)
        assert not run("eigh_vjp", *lost, zero, by_v).any()
        some = None if by_w is None else zero + 1
        nan = run("eigh_vjp", *lost, some, None if by_v is None else by_v + 1)
        assert np.isnan(nan).all()


def test_no_convergence_is_kept(rng, monkeypatch):
    """What the decomposition says of a matrix stays, and what the product says."""

    def failing(a, uplo, *, out):
        result = emulated.eigh(a, uplo, out=out)
        out[0][1], out[1][1], out[2][1] = np.nan, np.nan, Status.NO_CONVERGENCE
        return result

    monkeypatch.setattr(emulated.functions_module("spectral"), "eigh", failing)
    a = random_hermitian(rng, (3, 3, 3), "f8")
    a[2] *= 1e4
    f, _, _, status = run("spectral", a @ a, "L", EXP)
    assert status.tolist() == [0, Status.NO_CONVERGENCE, Status.OVERFLOW]
    assert np.isnan(f[1]).all()
    lost = run(PRODUCTS, np.full((1, 3), np.nan), np.ones((1, 3, 3)), EXP)
    assert lost[1].tolist() == [Status.NOT_FINITE]


# --- bits, strides, layouts ---------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("n", [3, 6, 18, 56])
def test_same_bits_anywhere_and_for_any_strides(rng, n, dtype):
    batch = 5
    w, v = decomposed(rng, batch, n, dtype)
    g, by_w = general(rng, v.shape, dtype), rng.standard_normal(w.shape).astype(w.dtype)
    slopes = differences(SQRT, w).astype(w.dtype)
    calls = [
        lambda w, v, g, d, b: run(PRODUCTS, w, v, SQRT)[0],
        lambda w, v, g, d, b: run(GRADIENTS, w, v, g, SQRT),
        lambda w, v, g, d, b: run(GRADIENTS, w, v, g, SQRT, d),
        lambda w, v, g, d, b: run("eigh_vjp", w, v, b, g),
    ]
    whole = (w, v, g, slopes, by_w)
    order = rng.permutation(batch)
    for call in calls:
        expected = call(*whole)
        assert_same_bits(call(*(x[order] for x in whole)), expected[order])
        assert_same_bits(call(*(x[3:4] for x in whole)), expected[3:4])
        spread = []
        for x in whole:
            wide = np.full((batch, *(2 * k for k in x.shape[1:])), np.nan, x.dtype)
            view = wide[(slice(None), *(slice(None, None, 2),) * (x.ndim - 1))]
            view[...] = x
            spread.append(view)
        assert_same_bits(call(*spread), expected)
        columns = (np.asfortranarray(x[::-1])[::-1] for x in whole)
        assert_same_bits(call(*columns), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_fit(dtype):
    """Of every size, with few instantiations."""
    dtype = np.dtype(dtype)
    for n in range(1, layouts.MAX_N + 1):
        for choose in (layouts.product, layouts.vjp):
            layout = choose(n, dtype)
            assert layout.exact
            assert layout.shared <= layouts.MOST_BYTES
            assert layout.matrices <= layout.threads <= 256
            assert layout.threads % 32 == 0
    assert len(layouts.instantiations(dtype)) <= 16
    assert gradients.CUTOFF == gaps.CUTOFF


TURING = 64 * 1024  # what a block may have on compute capability 7.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_fit_a_device_with_little_shared_memory(dtype):
    dtype, refused = np.dtype(dtype), set()
    for n in range(1, layouts.MAX_N + 1):
        for choose in (layouts.product, layouts.vjp):
            try:
                assert choose(n, dtype, TURING).shared <= TURING
            except ValueError as error:
                refused.add(n)
                assert "bytes of shared memory" in str(error)
    assert refused == ({64} if dtype == "c16" else set())


def test_gradients_on_a_device_with_little_shared_memory(monkeypatch, rng):
    """Where V and what is worked on do not both fit."""
    n, dtype = 50, "c16"
    assert layouts.vjp(n, np.dtype(dtype)).shared > TURING
    monkeypatch.setattr(emulated, "SHARED", [TURING])
    assert_gradients_of_the_decomposition(rng, partial(run, "eigh_vjp"), 3, n, dtype)


def test_codes_are_those_of_the_kernel():
    text = (emulated.SOURCES / "gradient.cuh").read_text()
    body = re.search(r"enum Kind : int {(.*?)}", text, re.S)[1]
    names = {k.upper(): int(v) for k, v in re.findall(r"(\w+) = (\d+)", body)}
    assert names == {k: getattr(gradients, k) for k in names}
    assert len(names) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [PRODUCTS, GRADIENTS])
@pytest.mark.parametrize("n", [3, 6])
def test_a_race_in_the_kernels_is_seen(tmp_path, rng, name, n):
    """Without any one of the barriers, results are wrong or refused.

    By the floor all depends on the largest eigenvalue.
    """
    for file in emulated.SOURCES.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    choose = layouts.product if name == PRODUCTS else layouts.vjp
    layout = choose(n, np.dtype("f8"))
    w, v = decomposed(rng, 2 * layout.matrices, n, "f8")
    g = [] if name == PRODUCTS else [general(rng, v.shape, "f8")]
    function = SQRT._replace(floor=1e15 if name == PRODUCTS else 1e14)

    def result(seed):
        kernel = cuda_emulator.load(
            tmp_path / layout.source, layout.expression, (tmp_path,)
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(emulated, "kernel", lambda *_: kernel)
            patch.setattr(emulated, "_seeds", iter([seed]))
            found = run(name, w, v, *g, function)
        return found[0] if name == PRODUCTS else found

    def is_right():
        try:
            return all(np.array_equal(result(seed), expected) for seed in range(4))
        except (AssertionError, EmulatorError):
            return False

    expected = result(0)
    assert is_right()
    text = (tmp_path / layout.source).read_text()
    barriers = list(re.finditer(r"__syncthreads\(\);", text))
    assert len(barriers) >= 2
    for barrier in barriers:
        changed = text[: barrier.start()] + ";" + text[barrier.end() :]
        (tmp_path / layout.source).write_text(changed)
        line = text[: barrier.start()].count("\n") + 1
        assert not is_right(), f"barrier in line {line}"
