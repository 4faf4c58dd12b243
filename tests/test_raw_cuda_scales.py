"""The fused kernels at every scale, where float32 is flushed to zero and above."""

import numpy as np
import pytest

import emulated
from bed import Status
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian, zoo

pytestmark = emulated.needs_emulator

layouts = emulated.engine_module("_layouts")
launcher = emulated.engine_module("eigh")

# Of the largest entry; the last ones leave room for the eigenvalues.
EXPONENTS = {
    4: (-149, -148, -140, -130, -127, -126, -125, -102, -64, 0, 64, 120, 123),
    8: (-1074, -1040, -1023, -1022, -1021, -960, -500, 0, 500, 1019),
}
# Sizes of every kind of kernel, and a few beside them.
SIZES = (1, 2, 3, 4, 8, 9, 12, 17, 24, 33, 50)


def _scaled(rng, n, dtype, exponent):
    """Random matrices with entries up to 2^exponent, rounded to the dtype."""
    wide = random_hermitian(rng, (3, n, n), "c16" if dtype[0] == "c" else "f8")
    largest = np.maximum(abs(wide.real), abs(wide.imag)).max(axis=(1, 2), keepdims=True)
    with np.errstate(under="ignore"):
        a = (wide / largest * np.ldexp(1.0, exponent)).astype(dtype)
    return a


def _assert_right(a, uplo):
    """Within 8·n·eps of the largest entry, and one of the smallest numbers.

    The matrix is scaled by a power of two to where double precision is exact enough.
    """
    n, limits = a.shape[-1], np.finfo(a.dtype)
    # By two factors, of which each is a number.
    lift = np.ldexp(1.0, -int(np.frexp(abs(a).max() or 1)[1]) // 2)
    w, v, status = emulated.eigh(a, uplo)
    assert not status.any()
    assert np.all(np.diff(w) >= 0)
    wide, v = a.astype("c16") * lift * lift, v.astype("c16")
    w = w.astype("f8") * lift * lift
    smallest = float(limits.smallest_subnormal) * lift * lift
    unit = n * float(limits.eps) * abs(wide).max(axis=(1, 2))[:, None]
    bound = 8 * unit + smallest
    assert (abs(w - np.linalg.eigvalsh(wide)) <= bound).all()
    residual = abs(wide @ v - v * w[:, None]).max(axis=(1, 2))[:, None]
    assert (residual <= bound + smallest * n).all()
    orthogonality = abs(v.conj().swapaxes(1, 2) @ v - np.eye(n)).max()
    assert orthogonality <= 8 * n * float(limits.eps)


@pytest.mark.sweep(10)
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_every_scale(rng, n, dtype, uplo):
    real = np.dtype(dtype).type(0).real.itemsize
    exponents = EXPONENTS[real]
    if n > 12:  # what takes long is what is subnormal, and one at each end
        exponents = [e for e in exponents if e < -100] if real == 4 else exponents[::4]
    for exponent in exponents:
        _assert_right(_scaled(rng, n, dtype, exponent), uplo)


@pytest.mark.slow
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", sorted(set(range(1, 65)) - set(SIZES)))
def test_tiny_numbers_of_every_size(rng, n, dtype, uplo):
    real = np.dtype(dtype).type(0).real.itemsize
    for exponent in EXPONENTS[real][1::4]:
        _assert_right(_scaled(rng, n, dtype, exponent), uplo)


@pytest.mark.parametrize("n", [3, 9, 20, 40])
def test_a_subnormal_eigenvalue_is_in_its_place(n):
    """As comparisons flush, 2⁻¹²⁸ counts as zero, and is one."""
    d = np.zeros(n, "f4")
    d[0], d[2] = 2.0**-128, 2
    w, _, status = emulated.eigh(np.diag(d)[None])
    assert not status.any()
    assert w[0].tolist() == [*[0.0] * (n - 1), 2.0]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("n", [4, 9, 20, 40, 64])
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_graded_matrices_converge(dtype, n):
    """The bulge that a sweep chases gets as small as the product of many entries."""
    i = np.arange(n)
    d, e = 10.0 ** (i / 2 - n), 10.0 ** (i[1:] / 2 - n)
    a = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    for each in (a / a.max(), a[::-1, ::-1] / a.max()):
        rounded = each.astype(dtype)
        w, _, status = emulated.eigh(rounded[None])
        assert status.tolist() == [Status.OK]
        exact = np.linalg.eigvalsh(rounded.astype("c16"))
        assert abs(w[0] - exact).max() <= 8 * n * np.finfo(dtype).eps


# --- the zoo on several devices ---------------------------------------------

# Of the largest eigenvalue, as frexp has it, for float32 and float64; the difference of
# two of them still is a number.
TOPS = {4: (-148, -140, -125, -102, 0, 126), 8: (-1073, -1060, -1021, -960, 0, 1022)}
# Devices approximate differently; a warp is held back on each.
DEVICES = range(3)


def _zoo(n, dtype, rng, top):
    """Members whose largest eigenvalue is in [1/2, 1)·2^top, but for what is zero."""
    real = np.finfo(dtype).dtype
    for member in zoo(n, dtype, rng):
        by = top - int(np.frexp(abs(member.w).max())[1])
        parts = np.ldexp(member.a.view(real).astype("g"), by)
        yield member.name, parts.astype(real).view(dtype)


def _assert_zoo(rng, n, dtype, uplo, top, device):
    layout = layouts.choose(n, np.dtype(dtype), eigenvectors=True)
    with np.errstate(under="ignore"):
        names, members = zip(*_zoo(n, dtype, rng, top), strict=True)
    a = np.stack(members)
    with emulated.launches(device=device, held=device % (layout.threads // 32)):
        w, v, status = emulated.eigh(a, uplo)
    assert not status.any()
    assert_eigh(a, w, v, uplo=uplo, names=names)
    return a, (w, v, status)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 9, 17])
def test_the_zoo_at_every_scale(rng, n, dtype):
    for top in TOPS[np.finfo(dtype).dtype.itemsize]:
        for device in DEVICES:
            a, found = _assert_zoo(rng, n, dtype, "LU"[n % 2], top, device)
        with emulated.launches(device=device):
            assert_same_bits(emulated.eigh(a, "LU"[n % 2]), found)


@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [9, 17, 33])
def test_eigenvalues_alone_of_the_zoo(monkeypatch, rng, n, dtype):
    """In as few blocks as can be, of several rounds, and on several devices."""
    monkeypatch.setattr(launcher, "FILLING", 1)
    layout = layouts.choose(n, np.dtype(dtype), eigenvectors=False)
    tops = TOPS[np.finfo(dtype).dtype.itemsize]
    for device, top in zip(DEVICES, tops[1::2], strict=True):
        with np.errstate(under="ignore"):
            names, members = zip(*_zoo(n, dtype, rng, top), strict=True)
        a = np.stack(members)
        held = device % (layout.threads // 32)
        with emulated.launches(device=device, held=held):
            w, v, status = emulated.eigh(a, eigenvectors=False)
        assert v is None and not status.any()
        numbers = np.ldexp(a.view(w.dtype).astype("g"), -top).astype("f8")
        unit = numbers.view("c16" if dtype[0] == "c" else "f8")
        exact = np.ldexp(np.linalg.eigvalsh(unit).astype("g"), top)
        assert_eigh(a, w, exact=exact, names=names)


@pytest.mark.parametrize("n, dtype", [(20, "f4"), (30, "f8"), (40, "c8")])
def test_eigenvalues_do_not_depend_on_the_round(monkeypatch, rng, n, dtype):
    """Nor on whether a matrix beside it converges or is one at all."""
    layout = layouts.choose(n, np.dtype(dtype), eigenvectors=False)
    assert layout.rounds > 1
    a = random_hermitian(rng, (layout.matrices + 3, n, n), dtype)
    a[1] = np.nan

    def solve(x, filling):
        monkeypatch.setattr(launcher, "FILLING", filling)
        w, _, status = emulated.eigh(x, eigenvectors=False)
        return w, status

    w, status = solve(a, filling=1)
    assert_same_bits(solve(a, filling=512), (w, status))
    assert_same_bits(solve(a[-2:], filling=1), (w[-2:], status[-2:]))
    assert status.tolist() == [
        Status.NOT_FINITE if i == 1 else 0 for i in range(len(a))
    ]
    a, w = np.delete(a, 1, 0), np.delete(w, 1, 0)
    assert_eigh(a, w, exact=np.linalg.eigvalsh(a.astype("c16")))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 5, 18, 35])
def test_a_block_for_each_matrix(monkeypatch, rng, n, dtype):
    """Where matrices are smaller than the warps, and where these go round."""
    monkeypatch.setattr(layouts, "_fastest", layouts.block_layout)
    monkeypatch.setattr(launcher, "plan", launcher.plan.__wrapped__)
    tops = TOPS[np.finfo(dtype).dtype.itemsize]
    for device, top in zip(DEVICES, tops[::2], strict=True):
        a, (w, _, _) = _assert_zoo(rng, n, dtype, "LU"[device % 2], top, device)
        with emulated.launches(device=device):
            alone = emulated.eigh(a, "LU"[device % 2], eigenvectors=False)[0]
        assert_same_bits(alone, w)


@pytest.mark.slow
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", range(1, 65))
def test_the_zoo_of_all_sizes(rng, n, dtype, uplo):
    """At one scale and on one device each: neighbouring n have others."""
    tops = TOPS[np.finfo(dtype).dtype.itemsize]
    which = n + DTYPES.index(dtype) + 3 * "LU".index(uplo)
    device = DEVICES[(which + "LU".index(uplo)) % len(DEVICES)]
    _assert_zoo(rng, n, dtype, uplo, tops[which % len(tops)], device)
