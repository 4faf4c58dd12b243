"""Derivatives of functions of matrices f(A) = V diag(f(w)) Vᴴ, for array namespaces.

With Ẑ = Vᴴ Z V and f[·] the divided differences of f,

    D f(A)[Z]     = V (L ∘ Ẑ) Vᴴ,   Lᵢⱼ = f[wᵢ, wⱼ],
    D²f(A)[Z, G]  = V M Vᴴ,         Mᵢⱼ = Σₖ f[wᵢ, wₖ, wⱼ] (Ẑᵢₖ Ĝₖⱼ + Ĝᵢₖ Ẑₖⱼ)

(Daleckii and Krein, 1951, English in AMS Translations 47, 1965; N. J. Higham, Functions
of Matrices, SIAM 2008, theorem 3.11). Neither V nor w is differentiated, so both are
right where eigenvalues coincide. L is real and symmetric, and the first one is its own
adjoint: ⟨G, Df(A)[Z]⟩ = ⟨Df(A)[G], Z⟩. So it is the differential as well as the
gradient, the second one is the derivative of both, and D²f(A)[Z, G] is the gradient of
⟨G, Df(A)[Z]⟩ with respect to A.

Third derivatives are those of the operations below, through w and V: right where
eigenvalues are apart, as `bed._derivative.eigh` has it.

Of sqrt and 1/sqrt the second differences factor. With x = √w, X = diag(x),
p_ij = 1/(xᵢ + xⱼ), P = Ẑ∘p and Q = Ĝ∘p,

    M = −p ∘ (PQ + QP),   and   Mᵢⱼ = [P X⁻¹ Q + Q X⁻¹ P + p ∘ (PQ + QP)]ᵢⱼ/(xᵢ xⱼ),

since (x + y + z)/(x y z (x + y)(y + z)(z + x)) with y = xₖ is
[1/y + 1/(x + z)]/((x + y)(y + z))/(x z).
"""

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from .._functions import Function, Spectral
from . import divided_differences, first_differences
from .eigh import _conjugate_transpose as adjoint
from .eigh import _hermitian_part as hermitian_part


def spectral_jvp(w: Any, v: Any, g: Any, function: Spectral) -> Any:
    """D f(A)[G], and the gradient of a loss whose gradient with respect to f(A) is G.

    Parameters
    ----------
    w : (..., n) real array
        Eigenvalues.
    v : (..., n, n) array
        Eigenvectors.
    g : (..., n, n) array
        Its Hermitian part counts.
    function : Spectral

    Returns
    -------
    (..., n, n) array, Hermitian
        NaN where w has NaN or is outside of the domain; linear in g.
    """
    return product_jvp(v, g, divided_differences.first(function, w))


def product_jvp(v: Any, g: Any, differences: Any) -> Any:
    """The same from first differences (..., n, n), real and symmetric."""
    g = _turned(v, g)
    return _turned_back(v, _as_of(differences, g) * g)


def spectral_second(w: Any, v: Any, z: Any, g: Any, function: Spectral) -> Any:
    """D²f(A)[Z, G], parameters as for `spectral_jvp`; no array is larger than theirs.

    Linear in z and in g, whose Hermitian parts count, and symmetric in them.
    """
    z, g = _turned(v, z), _turned(v, g)
    if function.function in (Function.SQRT, Function.INVSQRT):
        inner = _second_of_roots(w, z, g, function)
    else:
        inner = summed_seconds(
            z, g, lambda k: divided_differences.second(function, w, k)
        )
    return _turned_back(v, inner)


def product_second(v: Any, z: Any, g: Any, second: Callable) -> Any:
    """The same from second differences: ``second(k)`` is f[wᵢ, wₖ, wⱼ], (..., n, n)."""
    return _turned_back(v, summed_seconds(_turned(v, z), _turned(v, g), second))


def summed_seconds(z: Any, g: Any, second: Callable) -> Any:
    """Σₖ second(k)ᵢⱼ (Ẑᵢₖ Ĝₖⱼ + Ĝᵢₖ Ẑₖⱼ)."""
    total = 0 * z
    for k in range(z.shape[-1]):
        zg = z[..., :, k, None] * g[..., None, k, :]
        gz = g[..., :, k, None] * z[..., None, k, :]
        total = total + _as_of(second(k), z) * (zg + gz)
    return total


def _second_of_roots(w, z, g, function):
    """M of sqrt and 1/sqrt by two products."""
    xp = array_namespace(w)
    lifted, floor = divided_differences.arguments(function, w)
    if floor is not None:  # the rule of the composition has a term more
        return summed_seconds(
            z, g, lambda k: divided_differences.second(function, w, k)
        )
    p = first_differences.sqrt(xp, lifted[..., :, None], lifted[..., None, :])
    p = xp.where(xp.isnan(lifted[..., None]), lifted[..., None], p)
    p = _as_of(p, z)
    z, g = z * p, g * p
    both = p * (z @ g + g @ z)
    if function.function == Function.SQRT:
        return -both
    inverse = 1 / xp.sqrt(lifted)
    rows, columns = (
        _as_of(inverse[..., :, None], z),
        _as_of(inverse[..., None, :], z),
    )
    both = both + (z * columns) @ g + (g * columns) @ z
    return rows * both * columns


def _turned(v, g):
    """Vᴴ herm(G) V, Hermitian to the last bit."""
    return hermitian_part(adjoint(v) @ hermitian_part(g) @ v)


def _turned_back(v, inner):
    """V M Vᴴ, Hermitian to the last bit."""
    return hermitian_part(v @ inner @ adjoint(v))


def _as_of(x, other):
    """A real array in the dtype of another: said in words, for JAX's strict mode."""
    xp = array_namespace(x, other)
    return x if x.dtype == other.dtype else xp.astype(x, other.dtype)
