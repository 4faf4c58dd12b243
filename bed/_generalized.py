"""`bed.eigh` and `bed.eigvalsh` with `b`: one call to what solves pairs of matrices."""

from typing import Any

from ._derivative.method import EXACT, Method
from ._dispatch import solve
from ._dispatch.arrange import Arrangement, arrange
from ._dispatch.interop import Library, library_of


def generalized(
    library: Library,
    a: Any,
    b: Any,
    uplo: str,
    check: bool | str,
    driver: str,
    arrangement: Arrangement | None,
    eigenvectors: bool,
    method: Method = EXACT,
) -> tuple[Any, Any, Any]:
    """The triple ``(w, v, status)`` of A x = λ B x, in the library of a.

    Of JAX, if only b is, and traced.

    Raises
    ------
    TypeError
        A library differentiates, or writes down, what is done to one of two arrays of
        different libraries.
    """
    libraries = library, library_of(b)
    traced = any(
        each.traces(x) or each.spreads(x)
        for each, x in zip(libraries, (a, b), strict=True)
    )
    if not traced:
        options = uplo, check, driver, eigenvectors, arrangement
        return solve.eigh_generalized(libraries, a, b, *options)
    names = {each.name for each in libraries}
    if names == {"torch"}:
        from .autograd.torch import generalized as autograd
    elif names <= {"jax", "numpy"}:  # NumPy arrays are constants there
        from .autograd.jax import generalized as autograd  # type: ignore[no-redef]
    else:
        raise TypeError(
            "a and b must be arrays of one library where it differentiates one of "
            f"them, got one of {library.name} and one of {libraries[1].name}"
        )
    w, v, status = autograd.eigh(a, b, uplo, check, driver, method, eigenvectors)
    if arrangement is not None:
        w, v = arrange(w, v, arrangement)
    return w, v, status
