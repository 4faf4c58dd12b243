"""The paper's algorithm from beginning to end: what the other engines are read against.

Householder tridiagonalisation, WY accumulation, and explicit QR iteration with double
Wilkinson shifts and batch-wide shrinkage, after "Batch-efficient EigenDecomposition for
Small and Medium Matrices" (Song, Sebe, Wang; ECCV 2022), in array-namespace code:
NumPy, CuPy and torch arrays all work, on whatever device they are.

Where it departs from the paper and its published code, and why:

1. Every matrix is scaled by a power of two to max|a| near 1, so that no step can
   overflow and thresholds can be relative. (CuPy compiles with flush-to-zero: there,
   float32 entries below 1.2e-38 count as zero.)
2. An off-diagonal entry is negligible if |eᵢ| ≤ eps (|dᵢ| + |dᵢ₊₁|), up to a floor far
   below rounding, instead of 1e-5, and is set to zero at once. Results are accurate to
   working precision, for a few more iterations.
3. Input may be indefinite, and eigenvalues are not clamped to 1e-10.
4. Hermitian input: the reflectors are complex, and the phases that they leave on the
   off-diagonal entries are moved into P, so that the QR iteration is real.
5. The rank-2 update has q on both sides; eq. 5 as printed does not reflect.
6. A reflector, a rotation, the two shifts and a phase take their limit where the paper
   divides by zero: zero columns, zero off-diagonal entries, equal entries, sign(0). n =
   1 and 2 work.
7. Iteration goes on until all off-diagonal entries are negligible instead of for n
   passes. Only the first pass at each active size has the two shifts of the paper; see
   PAIRED_PASSES in `qr_iteration` for the later ones. A matrix that does not converge
   is reported.
8. The active part may lose several rows at once, or all before the first iteration.
9. Blocks of reflectors, T, and the rotations are kept in their thin form (W and Y, d
   and e, c and s) and never multiplied out to n × n matrices.
10. Two rows that are a block by themselves are diagonalised in closed form, without an
    iteration; n = 2 takes none at all.
11. A matrix with NaN or Inf is replaced by zero while the others are solved.
12. Eigenvalues come in ascending order, and eigenvectors with them.
13. The first column is reflected first, as in the published code; the paper begins with
    the last row.

What is printed and cannot be meant, besides eq. 5, each checked by a test: the vector u
of a reflector (see `tridiagonalize`) and the cosine of the shifts (see `qr_iteration`).
Theorem 1 gives W and Y n − 2 rows, where reflectors reach into n − 1.

The published code differs from the paper, too. Its threshold is 1e-3. Its second shift
is c − t where the eigenvalues are a + t and c − t. A rotation of (0, 0) is the zero
matrix, a reflector with a zero pivot reflects wrongly. It stops at two active rows and
leaves their off-diagonal entry. It has no WY representation, and Taylor's polynomial of
its gradient is of degree 100 instead of 9.

Batch-wide shrinkage is kept, because it is the point of the paper. It makes the number
of iterations that a matrix goes through a matter of its neighbours. So the last bits of
a result **do** depend on the batch, which no other engine allows. Accuracy does not.
"""

from math import log2

import numpy as np
from array_api_compat import array_namespace, device

from bed._status import Status
from bed.engines._float_mode import default_float_mode

from .back_transform import back_transform, conjugate_transpose
from .qr_iteration import qr_iteration
from .tridiagonalize import tridiagonalize


# What underflows here is meant to, and the status tells of all else: NumPy, where it is
# what computes, has nothing to warn of.
@np.errstate(all="ignore")
@default_float_mode()
def eigh(a, uplo="L", *, eigenvectors=True, out=None, stats=None):
    """Eigenvalues and eigenvectors of a batch of symmetric or Hermitian matrices.

    Parameters
    ----------
    a : (batch, n, n) array
        float32, float64, complex64 or complex128, any strides. Never written.
    uplo : {"L", "U"}
        Triangle that is read. The other one, and the imaginary part of the diagonal,
        may hold anything.
    eigenvectors : bool
        False leaves out the back transformation; `v` is None then.
    out : tuple of arrays, optional
        ``(w, v, status)`` to fill; `v` may be None without eigenvectors.
    stats : EighStats, optional
        An empty instance to fill.

    Returns
    -------
    w : (batch, n) real array
        Eigenvalues, ascending.
    v : (batch, n, n) array or None
        Eigenvectors as columns.
    status : (batch,) int32 array
        `Status` of every matrix. Where it is NOT_FINITE or NO_CONVERGENCE, `w` and `v`
        are NaN; where it is OVERFLOW, the eigenvalues that do not fit are infinite.
    """
    xp = array_namespace(a)
    batch, n, _ = a.shape
    if stats is not None:
        stats.n, stats.batch = n, batch
    full = hermitian(a, uplo)  # (batch, n, n)
    finite = xp.all(xp.isfinite(full), axis=(1, 2))  # (batch,)
    scaled, exponent = scale(xp.where(finite[:, None, None], full, 0))

    d, e, u, weights, phases = tridiagonalize(scaled, stats)
    v = None
    if eigenvectors:
        v = column_major(back_transform(u, weights, phases, stats=stats))
    w, converged = qr_iteration(d, e, v, stats)

    order = xp.argsort(w, axis=1, stable=True)  # (batch, n)
    index = xp.arange(batch, device=device(a))[:, None]
    w = unscale(w[index, order], exponent)
    failed = ~(finite & converged)
    status = xp.zeros(batch, dtype=xp.int32, device=device(a))
    overflow = xp.any(xp.isinf(w), axis=1)
    status = xp.where(overflow, int(Status.OVERFLOW), status)
    status = xp.where(converged, status, int(Status.NO_CONVERGENCE))
    status = xp.where(finite, status, int(Status.NOT_FINITE))

    if out is None:
        shape = (batch, n, n) if eigenvectors else (0,)
        new_v = xp.empty(shape, dtype=a.dtype, device=device(a))
        out = xp.empty_like(w), new_v, xp.empty_like(status)
    out[0][...] = xp.where(failed[:, None], xp.nan, w)
    out[2][...] = status
    if not eigenvectors:
        return out[0], None, out[2]
    v = xp.matrix_transpose(xp.matrix_transpose(v)[index, order])  # columns in order
    out[1][...] = xp.where(failed[:, None, None], xp.nan, v)
    return out


def hermitian(a, uplo="L"):
    """Full Hermitian matrices (batch, n, n) from one triangle of `a`."""
    xp = array_namespace(a)
    # tril and triu select; they do not multiply by a mask, which would keep NaN.
    half = xp.tril(a, k=-1) if uplo == "L" else xp.triu(a, k=1)
    # In C order whatever the strides of a, or they would decide about the last bits.
    full = xp.empty(a.shape, dtype=a.dtype, device=device(a))
    full[...] = half + conjugate_transpose(half)
    for i in range(a.shape[1]):
        full[:, i, i] = xp.real(a[:, i, i])
    return full


def scale(a):
    """Bring every matrix to max|a| near 1 by a power of two.

    Returns
    -------
    scaled : (batch, n, n) array
    exponent : (batch,) integer array
        a = scaled · 2**exponent, but for entries that underflow next to the largest.
    """
    xp = array_namespace(a)
    largest = xp.max(xp.abs(xp.real(a)), axis=(1, 2))  # (batch,)
    if xp.isdtype(a.dtype, "complex floating"):
        # Not the modulus, which may overflow.
        largest = xp.maximum(largest, xp.max(xp.abs(xp.imag(a)), axis=(1, 2)))
    exponent = xp.floor(xp.log2(xp.where(largest == 0, 1, largest)))
    exponent = xp.astype(exponent, xp.int64)
    first, second = halves(-exponent, largest.dtype)
    return a * first[:, None, None] * second[:, None, None], exponent


def unscale(w, exponent):
    """w · 2**exponent for (batch, n) eigenvalues, infinite where that overflows."""
    xp = array_namespace(w, exponent)
    first, second = halves(exponent, w.dtype)
    w, second = w * first[:, None], second[:, None]
    # Not multiplied where that would overflow, because NumPy warns about it.
    limit = float(xp.finfo(w.dtype).max) / xp.where(second > 1, second, 1)
    overflow = (second > 1) & (xp.abs(w) > limit)
    scaled = xp.where(overflow, 0, w) * second
    scaled = xp.where(overflow & (w > 0), xp.inf, scaled)
    return xp.where(overflow & (w < 0), -xp.inf, scaled)


def halves(exponent, dtype):
    """Two powers of two (batch,), in `dtype`, whose product is 2**exponent.

    The product itself may overflow or underflow where scaling by it does not. Powers
    are looked up, since libraries do not promise to compute them exactly.
    """
    xp = array_namespace(exponent)
    info = xp.finfo(dtype)
    # The smallest subnormal number is the one farthest from 1: 2**-149 or 2**-1074.
    farthest = -round(log2(info.smallest_normal) + log2(info.eps))
    reach = farthest // 2 + 1
    powers = [2.0**k for k in range(-reach, reach + 1)]
    powers = xp.asarray(powers, dtype=dtype, device=device(exponent))
    half = exponent // 2
    return powers[half + reach], powers[exponent - half + reach]


def column_major(v):
    """Copy v so that each of its columns is contiguous: a rotation touches two."""
    xp = array_namespace(v)
    transposed = xp.empty(v.shape, dtype=v.dtype, device=device(v))
    transposed[...] = xp.matrix_transpose(v)
    return xp.matrix_transpose(transposed)
