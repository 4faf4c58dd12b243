"""The derivative of the eigendecomposition, once, for any array namespace.

Let A = V diag(w) Vᴴ with Vᴴ V = I, and let dA be Hermitian. With M = Vᴴ dA V, the
differential of A V = V diag(w), multiplied by Vᴴ from the left, is

    M + diag(w) Ω = Ω diag(w) + diag(dw),        Ω = Vᴴ dV,

where Ω is anti-Hermitian because V stays unitary. Its diagonal and the rest give

    dw = diag(M),        Ωᵢⱼ = Fᵢⱼ Mᵢⱼ,  Fᵢⱼ = 1/(wⱼ − wᵢ) for i ≠ j.

The diagonal of Ω is imaginary and free: it is the phase of each eigenvector. It is
taken as zero, so a loss that depends on phases has no derivative to speak of, and one
that does not has this one.

For the gradient, ⟨G, dA⟩ = Re Σ w̄ᵢ dwᵢ + Re tr(V̄ᴴ dV) with X = Vᴴ V̄ gives

    G = V [diag(w̄) + herm(F ∘ X)] Vᴴ,        herm(Y) = (Y + Yᴴ)/2.

F is antisymmetric, so that herm(F ∘ X) = F ∘ (X − Xᴴ)/2. (Of the approximations in
`bed._derivative.gaps` one is not, and the general form holds for it too.)

Where eigenvalues coincide, V is any basis of their space and F has no value; F is zero
for gaps below the rounding of the eigenvalues. The result is then

- finite, always;
- exact for a loss of the eigenvalues alone: it uses no F;
- exact for a loss of the vectors alone that does not depend on the basis of the space,
  such as one of its projector: there Xᵢⱼ = conj(Xⱼᵢ), and every finite F is right;
- without the part inside the space, but for its diagonal, for a loss that mixes both,
  such as ⟨C, V f(w) Vᴴ⟩: that part is f′(w) Cᵢⱼ, of which w̄ and V̄ hold the diagonal
  only, so no formula in w̄ and V̄ has it;
- meaningless for a loss that depends on the basis: it has no derivative.

Second derivatives are derivatives of such a mixture, G itself, whatever the loss: those
inside the space are lost there too, also for a loss of the eigenvalues alone. A
function of A that has them is differentiated as a whole, not through w and V.

Where they nearly coincide, the rounding of X, at least eps·|V̄|, is divided by the gap:
that is the error to expect of a loss of the last but one kind.

(M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", 2008, section 3.1; complex case and gauge: the same
argument with Hermitian transposes.)
"""

import math
from typing import Any

from array_api_compat import array_namespace, device

from .gaps import inverse_gaps
from .method import normalize_method


def eigh_jvp(
    w: Any, v: Any, da: Any, *, gradient: str = "exact", degree: int = 9
) -> tuple[Any, Any]:
    """Differentials of eigenvalues and eigenvectors.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues.
    v : (..., n, n) array
        Eigenvectors.
    da : (..., n, n) array
        Differential of A; its Hermitian part counts.
    gradient : str, optional
        What stands for F: "exact", "taylor", "pade", "power_iteration" or "truncated",
        as `bed._derivative.gaps` describes them.
    degree : int, optional
        Degree of "taylor" and "power_iteration".

    Returns
    -------
    dw : (..., n) real array
    dv : (..., n, n) array
    """
    xp = array_namespace(w, v, da)
    # Hermitian again to the last bit, so that the transpose, JAX's reverse mode, takes
    # X − Xᴴ before it multiplies: rounding over a gap then stays where the gap is.
    da_v = _hermitian_part(da) @ v
    m = _hermitian_part(_conjugate_transpose(v) @ da_v)
    # The diagonal of M by itself: torch has no rule for `linalg.diagonal` under vmap.
    dw = xp.sum(_real(xp, xp.conj(v) * da_v), axis=-2)
    f, s = inverse_gaps(w, gradient, degree)
    if _is_complex(xp, m):  # said in words, for JAX's strict promotion
        f, s = xp.astype(f, m.dtype), xp.astype(s, m.dtype)
    return dw, v @ (f * m) / s


def eigh_vjp(
    w: Any,
    v: Any,
    grad_w: Any = None,
    grad_v: Any = None,
    *,
    gradient: str = "exact",
    degree: int = 9,
) -> Any:
    """Gradient with respect to A of a loss with the given gradients.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues.
    v : (..., n, n) array
        Eigenvectors.
    grad_w : (..., n) real array, optional
        Gradient with respect to the eigenvalues; None is zero.
    grad_v : (..., n, n) array, optional
        Gradient with respect to the eigenvectors; None is zero. Real and imaginary
        parts of a complex gradient are the derivatives with respect to those of V.
    gradient, degree
        As for `eigh_jvp`. The eigenvalues' part is always exact.

    Returns
    -------
    (..., n, n) array, Hermitian
        As for a matrix that is varied within the Hermitian ones: both triangles count.
    """
    normalize_method(gradient, degree, False)
    w, v = without_unused(w, v, grad_w, grad_v)
    vh = _conjugate_transpose(v)
    if grad_v is None:
        grad_w = 0 * w if grad_w is None else grad_w
        return _hermitian_part((v * grad_w[..., None, :]) @ vh)
    f, s = inverse_gaps(w, gradient, degree)
    x = vh @ grad_v  # (..., n, n)
    if gradient == "power_iteration":
        inner = _hermitian_part(f * x)
    else:
        inner = f * (x - _conjugate_transpose(x)) / 2
    g = v @ inner @ vh / s
    if grad_w is not None:
        g = g + (v * grad_w[..., None, :]) @ vh
    return _hermitian_part(g)  # it is, up to rounding


def without_unused(w: Any, v: Any, *differentials: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors to differentiate with.

    Those of a matrix that failed are NaN, and zero times NaN is NaN. Where all that is
    to be multiplied by them is zero, as for a matrix that a loss leaves out, they are
    replaced by zeros and the identity, and every derivative comes out as zero.

    Parameters
    ----------
    w : (..., n) real array
    v : (..., n, n) array
    *differentials : (..., n) or (..., n, n) array, or None for zero
        Of the loss, or of A.
    """
    xp = array_namespace(w, v)
    if w.shape[-1] == 0:
        return w, v
    unused = ~xp.all(xp.isfinite(w), axis=-1)  # (...)
    for x in differentials:
        if x is not None:
            nonzero = x != 0
            if x.ndim > w.ndim:
                nonzero = xp.any(nonzero, axis=-1)
            unused = unused & ~xp.any(nonzero, axis=-1)
    w = xp.where(unused[..., None], xp.zeros_like(w), w)
    identity = xp.eye(v.shape[-1], dtype=v.dtype, device=device(v))
    return w, xp.where(unused[..., None, None], identity, v)


def phase_dependence(v: Any, grad_v: Any) -> Any:
    """How much a loss changes with the phases of the eigenvectors, (..., n).

    The derivative of the loss with respect to the phase of each column; zero up to
    rounding for a loss that does not depend on phases, and for real eigenvectors.
    """
    xp = array_namespace(v, grad_v)
    if not _is_complex(xp, v):
        return xp.zeros_like(xp.sum(v, axis=-2))
    return xp.imag(xp.sum(xp.conj(v) * grad_v, axis=-2))


def depends_on_phase(v: Any, grad_v: Any) -> Any:
    """Whether a loss depends on the phases of the eigenvectors of each matrix, (...).

    `phase_dependence` is at most the norm of a column of the gradient. Above √eps of
    the largest of them it counts: losses with a gradient in rounded arithmetic stay
    some digits below, and one that depends on phases by less is still nearly right.
    """
    xp = array_namespace(v, grad_v)
    change = xp.abs(phase_dependence(v, grad_v))  # (..., n)
    if change.shape[-1] == 0:
        return xp.any(change > 0, axis=-1)
    # Of the entries, not their squares, which may underflow.
    size = xp.max(xp.sum(xp.abs(grad_v), axis=-2), axis=-1)  # (...)
    return xp.max(change, axis=-1) > math.sqrt(xp.finfo(v.dtype).eps) * size


def _is_complex(xp, x) -> bool:
    return xp.isdtype(x.dtype, "complex floating")


def _real(xp, x):
    return xp.real(x) if _is_complex(xp, x) else x


def _conjugate_transpose(x):
    xp = array_namespace(x)
    return xp.conj(x.mT) if _is_complex(xp, x) else x.mT


def _hermitian_part(x):
    return (x + _conjugate_transpose(x)) / 2
