"""The derivative of the generalised problem A V = B V diag(w), Vᴴ B V = I.

With M = Vᴴ dA V, N = Vᴴ dB V and dV = V Ω, the differentials of both equations are

    M + diag(w) Ω = N diag(w) + Ω diag(w) + diag(dw),        Ω + Ωᴴ + N = 0.

The second fixes the Hermitian part of Ω, for a pair of equal eigenvalues too. What is
left, K = Ω + N/2, is anti-Hermitian, and with the Hermitian

    P = M − (diag(w) N + N diag(w))/2

the first becomes that of `bed._derivative.eigh` beside this file, with P in place of M:

    dw = diag(P),        Kᵢⱼ = Fᵢⱼ Pᵢⱼ,  Fᵢⱼ = 1/(wⱼ − wᵢ),        dV = V (K − N/2).

What is said there holds here: of phases, of equal eigenvalues, of second derivatives,
and of the approximations of F. For the gradient, X = Vᴴ V̄ and Y = diag(w̄) + herm(F ∘ X)
give

    Ā = V Y Vᴴ,        B̄ = −V [(diag(w) Y + Y diag(w))/2 + herm(X)/2] Vᴴ.

F is s·F divided by s, the largest |w|; so is w where it stands beside F, and nothing is
too large or too small.
"""

from typing import Any

from array_api_compat import array_namespace

from .eigh import _conjugate_transpose as adjoint
from .eigh import _hermitian_part as hermitian_part
from .eigh import _is_complex as is_complex
from .eigh import _real as real
from .eigh import without_unused
from .gaps import inverse_gaps
from .method import normalize_method


def eigh_generalized_jvp(
    w: Any,
    v: Any,
    da: Any,
    db: Any,
    *,
    gradient: str = "exact",
    degree: int = 9,
) -> tuple[Any, Any]:
    """Differentials of eigenvalues and eigenvectors.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues.
    v : (..., n, n) array
        Eigenvectors.
    da, db : (..., n, n) array
        Differentials of A and B; their Hermitian parts count.
    gradient, degree
        As for `bed._derivative.eigh.eigh_jvp`.

    Returns
    -------
    dw : (..., n) real array
    dv : (..., n, n) array
    """
    xp = array_namespace(w, v, da, db)
    vh = adjoint(v)
    da_v, db_v = hermitian_part(da) @ v, hermitian_part(db) @ v
    m, n = hermitian_part(vh @ da_v), hermitian_part(vh @ db_v)
    diagonal = xp.sum(real(xp, xp.conj(v) * da_v), axis=-2)
    dw = diagonal - w * xp.sum(real(xp, xp.conj(v) * db_v), axis=-2)
    f, s = inverse_gaps(w, gradient, degree)
    # (wᵢ + wⱼ)/(2s)
    mean = (w[..., :, None] / s + w[..., None, :] / s) / 2
    if is_complex(xp, m):  # said in words, for JAX's strict promotion
        f, s, mean = (xp.astype(x, m.dtype) for x in (f, s, mean))
    k = f * (m / s) - f * mean * n
    return dw, v @ (k - n / 2)


def eigh_generalized_vjp(
    w: Any,
    v: Any,
    grad_w: Any = None,
    grad_v: Any = None,
    *,
    gradient: str = "exact",
    degree: int = 9,
) -> tuple[Any, Any]:
    """Gradients with respect to A and B of a loss with the given gradients.

    Parameters are those of `bed._derivative.eigh.eigh_vjp`.

    Returns
    -------
    grad_a, grad_b : (..., n, n) array, Hermitian
    """
    normalize_method(gradient, degree, False)
    w, v = without_unused(w, v, grad_w, grad_v)
    vh = adjoint(v)
    if grad_v is None:
        grad_w = 0 * w if grad_w is None else grad_w
        grad_a = (v * grad_w[..., None, :]) @ vh
        grad_b = -(v * (w * grad_w)[..., None, :]) @ vh
        return hermitian_part(grad_a), hermitian_part(grad_b)
    f, s = inverse_gaps(w, gradient, degree)
    x = vh @ grad_v  # (..., n, n)
    y = hermitian_part(f * x)  # s times that of the text
    mean = (w[..., :, None] / s + w[..., None, :] / s) / 2
    grad_a = v @ y @ vh / s
    grad_b = -(v @ (mean * y + hermitian_part(x) / 2) @ vh)
    if grad_w is not None:
        grad_a = grad_a + (v * grad_w[..., None, :]) @ vh
        grad_b = grad_b - (v * (w * grad_w)[..., None, :]) @ vh
    return hermitian_part(grad_a), hermitian_part(grad_b)
