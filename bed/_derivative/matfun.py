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

from array_api_compat import array_namespace, device

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


def without_failed(
    w: Any, v: Any, function: Spectral, *tangents: Any
) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors to differentiate with, in the domain where they can.

    Matrices that failed, or are outside of the domain, have NaN for derivatives, and
    NaN times zero is NaN. Where one of the tangents is zero, as for a matrix that a
    loss leaves out, they are replaced by ones and the identity: what is linear in the
    tangent is zero then.
    """
    xp = array_namespace(w, v)
    lifted, _ = divided_differences.arguments(function, w)
    failed = xp.any(xp.isnan(lifted), axis=-1)
    left_out = failed & False
    for x in tangents:
        left_out = left_out | (failed & ~xp.any(xp.any(x != 0, axis=-1), axis=-1))
    w = xp.where(left_out[..., None], xp.ones_like(w), w)
    identity = xp.eye(v.shape[-1], dtype=v.dtype, device=device(v))
    return w, xp.where(left_out[..., None, None], identity, v)


def product_jvp(v: Any, g: Any, differences: Any) -> Any:
    """The same from first differences (..., n, n), real and symmetric."""
    g = _turned(v, g)
    return _turned_back(v, _as_of(differences, g) * g)


def added_up(add: Callable, total: Any, n: int) -> Any:
    """``add(total, k)`` for k from 0 to n − 1, each with what the last one returned."""
    for k in range(n):
        total = add(total, k)
    return total


def spectral_second(
    w: Any,
    v: Any,
    z: Any,
    g: Any,
    function: Spectral,
    loop: Callable = added_up,
) -> Any:
    """D²f(A)[Z, G], parameters as for `spectral_jvp`; no array is larger than theirs.

    Linear in z and in g, whose Hermitian parts count, and symmetric in them. `loop` is
    what stands in for `added_up`, where a library has one of its own.
    """

    def second(k):
        return divided_differences.second(function, w, k)

    # With a floor the rule of the composition has a term more.
    if function.function in (Function.SQRT, Function.INVSQRT) and function.floor < 0:
        z, g = _turned(v, z), _turned(v, g)
        return _turned_back(v, _second_of_roots(w, z, g, function))
    return product_second(v, z, g, second, loop)


def product_second(
    v: Any, z: Any, g: Any, second: Callable, loop: Callable = added_up
) -> Any:
    """The same from second differences: ``second(k)`` is f[wᵢ, wₖ, wⱼ], (..., n, n)."""
    z, g = _turned(v, z), _turned(v, g)

    def add(total, k):
        """second(k)ᵢⱼ (Ẑᵢₖ Ĝₖⱼ + Ĝᵢₖ Ẑₖⱼ)"""
        zg = z[..., :, k, None] * g[..., None, k, :]
        gz = g[..., :, k, None] * z[..., None, k, :]
        return total + _as_of(second(k), z) * (zg + gz)

    return _turned_back(v, loop(add, 0 * z, z.shape[-1]))


def _second_of_roots(w, z, g, function):
    """M of sqrt and 1/sqrt by two products."""
    xp = array_namespace(w)
    lifted, _ = divided_differences.arguments(function, w)
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
