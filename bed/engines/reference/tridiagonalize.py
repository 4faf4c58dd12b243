"""Stage 1: reduce a batch of Hermitian matrices to real symmetric tridiagonal form.

A = P T Pᴴ with P = H₀ H₁ … H₍n₋₃₎ D. Each Hₖ is a Householder reflector that clears
column k below its first subdiagonal entry (section 3.1 of the paper), and D is a
diagonal of phases that makes every off-diagonal entry real and non-negative.

For the part x = (α, tail) of a column below the diagonal, with the phase φ = α/|α|,

    u = x + φ ‖x‖ e₁,    H = I − 2 u uᴴ/‖u‖²,    H x = −φ ‖x‖ e₁,

where φ ‖x‖ e₁ is added because subtracting it would cancel. H acts from both sides as a
symmetric rank-2 update, eqs. 5 and 6 of the paper:

    p = 2 A u/‖u‖²,    K = uᴴ p/‖u‖²,    q = p − K u,    H A H = A − q uᴴ − u qᴴ.

(The paper prints p uᵀ for the first product. With its own K and q that leaves K u uᵀ
over, so q is meant in both. It prints σ alone for the last entry of u, with the square
of the entry α missing under the root of σ: that clears nothing. α + σ is meant, which
is φ (|α| + ‖x‖) here. In its table a row of the tridiagonalisation is *one* reflection,
n³ + 2n²; as a rank-2 update one costs O(n²).)
"""

from array_api_compat import array_namespace, device

# Most terms of a running sum, see `_sum`.
TERMS = 16


def tridiagonalize(a, stats=None):
    """Reduce Hermitian matrices with entries of order one.

    Parameters
    ----------
    a : (batch, n, n) array
        Full Hermitian matrices, max|a| about 1 or all zero. Not written.
    stats : EighStats, optional
        Gets the number of operations.

    Returns
    -------
    d : (batch, n) real array
        Diagonal of T.
    e : (batch, n - 1) real array
        Off-diagonal entries of T, non-negative.
    u : (batch, n, max(n - 2, 0)) array
        Column k is the vector of reflector k, zero in rows 0 … k.
    weights : (batch, max(n - 2, 0)) real array
        1/‖u‖² of each, or 0 where column k needed no reflection: H = I.
    phases : (batch, n) array
        Diagonal of D, of unit modulus.
    """
    xp = array_namespace(a)
    batch, n, _ = a.shape
    a = xp.asarray(a, copy=True)
    d = xp.real(xp.zeros_like(a[:, 0, :]))  # (batch, n)
    e = xp.zeros_like(d[:, 1:])  # (batch, n - 1)
    phases = xp.ones_like(a[:, 0, :])  # (batch, n)
    reflectors = max(n - 2, 0)
    u = xp.zeros((batch, n, reflectors), dtype=a.dtype, device=device(a))
    weights = xp.zeros((batch, reflectors), dtype=d.dtype, device=device(a))

    for k in range(n - 1):
        x = a[:, k + 1 :, k]  # (batch, n - 1 - k)
        first = x[:, 0]  # (batch,)
        if k < reflectors:
            u_k, weight, first = reflector(x)
            _reflect(a[:, k + 1 :, k + 1 :], u_k, weight)
            u[:, k + 1 :, k], weights[:, k] = u_k, weight
            if stats is not None:
                # Three inner products, a matrix-vector product, two outer products.
                order = n - 1 - k
                stats.tridiagonalize += 3 * order + order**2 + 2 * order**2
        phase, e[:, k] = _polar(first)
        # To unit modulus again, or the errors of the product would add up.
        phases[:, k + 1], _ = _polar(phases[:, k] * phase)

    for k in range(n):
        d[:, k] = xp.real(a[:, k, k])
    return d, e, u, weights, phases


def reflector(x):
    """Reflectors that clear all but the first entry of x.

    Parameters
    ----------
    x : (batch, m) array

    Returns
    -------
    u : (batch, m) array
    weight : (batch,) array
        1/‖u‖²; 0 where the entries to be cleared are negligible already.
    first : (batch,) array
        First entry of the reflected x.
    """
    xp = array_namespace(x)
    tail_square = _sum(_square(x[:, 1:]))  # (batch,)
    needed = tail_square > negligible_square(xp, tail_square.dtype)
    phase, size = _polar(x[:, 0])
    norm = xp.sqrt(size**2 + tail_square)  # (batch,)
    u = xp.asarray(x, copy=True)
    u[:, 0] = phase * (size + norm)
    # From u as it was rounded: an error of ‖u‖² comes back fourfold in HᴴH.
    square = xp.where(needed, _sum(_square(u)), 1)
    return u, xp.where(needed, 1 / square, 0), xp.where(needed, -norm * phase, x[:, 0])


def negligible_square(xp, dtype):
    """Square below which a sum of squares is treated as zero.

    Next to entries of order one anything below √(tiny/eps) is far below rounding (3e-16
    in float32), and squares above tiny/eps have lost nothing to underflow.
    """
    info = xp.finfo(dtype)
    return float(info.smallest_normal) / float(info.eps)


def _reflect(a, u, weight):
    """Replace a by H a H in place; a is (batch, m, m), u is (batch, m)."""
    xp = array_namespace(a, u)
    p = 2 * weight[:, None] * _product(a, u)  # (batch, m)
    # uᴴ A u is real for Hermitian A.
    k = weight * _sum(xp.real(xp.conj(u) * p))  # (batch,)
    q = p - k[:, None] * u
    q_u = q[:, :, None] * xp.conj(u)[:, None, :]  # (batch, m, m)
    # Adding the transpose keeps a Hermitian to the last bit.
    a[...] = a - (q_u + xp.conj(xp.matrix_transpose(q_u)))


def _product(a, x):
    """A x of matrices (batch, m, m), from parts whose running sums are short."""
    xp = array_namespace(a, x)
    starts = range(0, a.shape[-1], TERMS)
    parts = [
        xp.matmul(a[..., i : i + TERMS], x[:, i : i + TERMS, None]) for i in starts
    ]
    return _sum(xp.concat(parts, axis=-1))


def _polar(z):
    """Phase (1 for zero) and modulus of z, with negligible z taken for zero."""
    xp = array_namespace(z)
    size = xp.abs(z)
    kept = size > negligible_square(xp, size.dtype) ** 0.5
    phase = xp.where(kept, z / xp.where(kept, size, 1), 1)
    return phase, xp.where(kept, size, 0)


def _square(z):
    """|z|² without the square root of abs."""
    xp = array_namespace(z)
    if xp.isdtype(z.dtype, "complex floating"):
        return xp.real(z) ** 2 + xp.imag(z) ** 2
    return z**2


def _sum(x):
    """Sum over the last axis in pairs, pairs of pairs and so on.

    Entries are often equal, and their roundings then all go the same way in a running
    sum: matrices of ones and minus ones lost three bits by it.
    """
    xp = array_namespace(x)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        odd = x[..., 2 * half :]
        x = xp.concat([x[..., :half] + x[..., half : 2 * half], odd], axis=-1)
    return xp.sum(x, axis=-1)
