"""The matrix F of the derivative, exact or by one of the published approximations.

`eigh.py` beside this file needs Fᵢⱼ = 1/(wⱼ − wᵢ). Of a pair of eigenvalues let λ be
the one of larger magnitude, x in [−1, 1] the other one divided by λ, and g = 1 − x.
Then

    1/(λ − xλ) = 1/λ · 1/(1 − x) = 1/λ · Σₖ xᵏ,

and the approximations replace 1/(1 − x), which has no bound, by what has one:

    name                    instead of 1/(1 − x)          largest |F|
    "exact"                 itself                        1/(c s)
    "taylor" [1]            Σ xᵏ, k = 0 … K               (K + 1)/|λ|
    "power_iteration" [2]   the same, and up to K − 1     (K + 1)/|λ|
    "pade" [1]              g/(g² + ε x)                  1/(2√ε |λ|)
    "truncated" [1]         1/max(g, √ε s/|λ|)            1/(√ε s)

K is the degree, ε the `eps` of the dtype, s the largest |w| of the matrix, and c s what
eigenvalues are known to, with c = 8 √n ε.

Signs. The series are for positive eigenvalues. A pair of negative ones is a pair of −A,
with F negated. In a pair of opposite signs, or with a zero, nothing cancels in wⱼ − wᵢ:
F is exact and at most 1/|λ|. The two rules meet at x = 0.

Rounding. "exact" gives zero to pairs that are closer than c s, the others to pairs that
are both smaller than c s: these are zeros, and their ratio is noise. At a gap of
exactly zero each gives zero, the mean of its limits from both sides. So every F is
finite, antisymmetric except for "power_iteration", and F/t for t A with t > 0.

Taylor. The error is x^(K+1) of the exact value.

Power iteration. K + 1 steps v ← Av/‖Av‖, differentiated at an eigenvector v of λ, give
Σ xᵏ up to K for the part of dv along the vector of xλ. The latter is found from
A − λ v vᴴ. Its own part along v depends on dv through that term: it is
(1 − Σₖ xᵏ)/(xλ) of M, which is minus the sum up to K − 1 over λ. The two sums differ by
xᴷ, so V + dV is not unitary, and even a loss that does not depend on the basis of a
nearly repeated space gets a wrong gradient, by xᴷ/(2λ) of (X + Xᴴ)/2. That is a
property of the method.

Padé. The approximant [m/n], n ≥ 1, of a series of ones is 1/(1 − x) itself; for n > 1
the equations for its coefficients are singular, and the published [50/50] has a value
because its series carries rounding errors. Here the perturbation is chosen: with
2 cos θ = 2 − ε, the coefficients cₖ = cos((k + ½)θ)/cos(θ/2) = 1 − (k² + k)ε/2 + … are
1 up to rounding for small k. As (1 − (2 − ε)x + x²) Σ cₖ xᵏ = 1 − x, all approximants
[K/K] with K ≥ 2 are

    (1 − x)/(1 − (2 − ε)x + x²) = g/(g² + εx),

in eigenvalues gap/(gap² + ε wᵢ wⱼ), without cases. The error is εx/(g² + εx) of the
exact value. `degree` does not count.

Truncated. No gap is smaller than √ε s. The published bound, |F| ≤ 1e10, depends on the
unit of A and is above 1/ε in single precision. With √ε, no rounding of X grows beyond
√ε/s. The gaps of small eigenvalues of ill-conditioned matrices are wrong.

What each makes of a gradient. Relative errors of that of ⟨C, √A⟩, n = 8, the mean over
50 random C and V (double precision, degree 9), printed by
``python tests/gradient_errors.py``. In "close pairs" the condition is 10 and the
relative gap of each of four pairs is 1/cond. There the approximations lose what F X is
worth inside a pair, and "exact" loses digits like ε/gap:

    spectrum     cond.    exact  taylor    pade   power  trunc.
    geometric    1e+02    4e-16   6e-04   5e-16   9e-04   4e-16
    geometric    1e+04    3e-16   1e-06   3e-16   2e-06   3e-16
    geometric    1e+06    3e-16   1e-09   3e-16   3e-09   3e-16
    geometric    1e+08    3e-16   2e-12   3e-16   6e-12   3e-16
    geometric    1e+10    3e-16   2e-15   3e-16   1e-14   3e-01
    geometric    1e+12    3e-16   3e-16   3e-16   3e-16   3e-01
    geometric    1e+14    3e-16   3e-16   3e-16   3e-16   3e-01
    geometric    1e+16    4e-16   4e-16   4e-16   4e-16   2e-01
    even         1e+02    6e-16   3e-02   1e-15   3e-02   6e-16
    even         1e+04    3e-16   6e-03   4e-16   7e-03   3e-16
    even         1e+06    5e-16   2e-03   5e-16   2e-03   5e-16
    even         1e+08    3e-16   9e-05   3e-16   9e-05   3e-16
    even         1e+10    3e-16   9e-06   3e-16   1e-05   3e-16
    even         1e+12    9e-16   4e-06   9e-16   5e-06   9e-16
    even         1e+14    4e-16   2e-07   4e-16   2e-07   4e-16
    even         1e+16    3e-16   8e-09   3e-16   9e-09   3e-16
    close pairs  1e+02    1e-14   3e-01   8e-13   3e-01   1e-14
    close pairs  1e+04    2e-12   3e-01   7e-09   3e-01   2e-12
    close pairs  1e+06    1e-10   4e-01   8e-05   4e-01   1e-10
    close pairs  1e+08    1e-08   3e-01   2e-01   3e-01   3e-01
    close pairs  1e+10    1e-06   3e-01   3e-01   3e-01   3e-01
    close pairs  1e+12    1e-04   3e-01   3e-01   3e-01   3e-01
    close pairs  1e+14    3e-01   4e-01   4e-01   4e-01   4e-01
    close pairs  1e+16    3e-01   3e-01   3e-01   3e-01   3e-01

References
----------
[1] Y. Song, N. Sebe, W. Wang, "Why Approximate Matrix Square Root Outperforms Accurate
    SVD in Global Covariance Pooling?", ICCV 2021.
[2] W. Wang, Z. Dang, Y. Hu, P. Fua, M. Salzmann, "Backpropagation-Friendly
    Eigendecomposition", NeurIPS 2019.
"""

import math
from typing import Any

from array_api_compat import array_namespace

from .method import CUTOFF, normalize_method


def inverse_gaps(w: Any, gradient: str = "exact", degree: int = 9) -> tuple[Any, Any]:
    """F of the module's text, as s·F and s, so that neither is too large or too small.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues, in any order.
    gradient : str, optional
        One of `bed._derivative.method.METHODS`.
    degree : int, optional
        K of "taylor" and "power_iteration".

    Returns
    -------
    f : (..., n, n) real array
        ``f[i, j] / s`` stands for ``1 / (w[j] - w[i])``; zero on the diagonal.
    s : (..., 1, 1) real array
        The largest magnitude of `w`, or 1 if all are zero.
    """
    gradient, degree, _ = normalize_method(gradient, degree, False)
    xp = array_namespace(w)
    n = w.shape[-1]
    wi, wj = w[..., :, None], w[..., None, :]
    gap = wj - wi  # (..., n, n)
    if n == 0:
        return gap, xp.sum(gap, axis=(-2, -1), keepdims=True) + 1
    s = xp.max(xp.abs(w), axis=-1)[..., None, None]
    s = xp.where(s > 0, s, xp.ones_like(s))
    gap, wi, wj = gap / s, wi / s, wj / s
    eps = float(xp.finfo(w.dtype).eps)
    cutoff = CUTOFF * math.sqrt(n) * eps
    if gradient == "exact":
        return _where(xp, xp.abs(gap) > cutoff, lambda x: 1 / x, gap), s

    larger = xp.where(xp.abs(wj) > xp.abs(wi), xp.abs(wj), xp.abs(wi))
    smaller = xp.where(xp.abs(wj) > xp.abs(wi), xp.abs(wi), xp.abs(wj))
    # The diagonal is left out here, because 0/0 would spoil the second derivative.
    known = (larger > cutoff) & (gap != 0)
    # Not xp.sign: that of array-api-compat for torch does not go through vmap.
    sign = xp.where(gap > 0, xp.ones_like(gap), -xp.ones_like(gap))
    if gradient == "truncated":
        root = math.sqrt(eps)
        clamped = xp.where(xp.abs(gap) > root, gap, sign * root)
        return _where(xp, known, lambda x: 1 / x, clamped), s

    product = wi * wj
    same_sign = known & (product > 0)
    plain = _where(xp, known & ~same_sign, lambda x: 1 / x, gap)
    if gradient == "pade":
        inverse = _where(xp, same_sign, lambda x: 1 / x, gap * gap + eps * product)
        return plain + gap * inverse, s

    inverse = _where(xp, same_sign, lambda x: 1 / x, larger)
    x = smaller * inverse
    total = before = xp.zeros_like(x)
    for _ in range(degree + 1):
        total, before = 1 + x * total, total  # Horner: the sums up to xᴷ and x^(K−1)
    if gradient == "power_iteration":
        total = xp.where(xp.abs(wj) > xp.abs(wi), total, before)
    return plain + sign * total * inverse, s


def _where(xp, condition, function, x):
    """``function(x)`` where the condition holds, else zero, in every derivative too."""
    # The inner selection keeps 1/0 out of the graph that is differentiated again.
    y = function(xp.where(condition, x, xp.ones_like(x)))
    return xp.where(condition, y, xp.zeros_like(y))
