"""How the eigenvectors of a call are differentiated."""

import operator
from typing import Any, NamedTuple

# Exactly repeated eigenvalues come out of LAPACK and of the engines up to 4.6·√n·eps of
# the largest |w| apart (n = 2 … 64, both precisions, 200 matrices each): what is closer
# than about twice that counts as equal.
CUTOFF = 8.0

METHODS = ("exact", "taylor", "pade", "power_iteration", "truncated")


class Method(NamedTuple):
    """The gradient method of a call; `bed._derivative.gaps` describes them."""

    gradient: str = "exact"
    degree: int = 9
    check_phase: bool = False


EXACT = Method()


def normalize_method(gradient: Any, degree: Any, check_phase: Any) -> Method:
    """The options of a derivative.

    Raises
    ------
    ValueError
        Unknown gradient, a degree that is no whole number from 0 on, or a check that is
        neither on nor off.
    """
    if gradient is EXACT.gradient and degree is EXACT.degree and check_phase is False:
        return EXACT  # what most calls say
    if not isinstance(gradient, str) or gradient not in METHODS:
        accepted = ", ".join(repr(name) for name in METHODS)
        raise ValueError(f"gradient must be one of {accepted}, got {gradient!r}")
    try:
        degree = operator.index(degree)
    except TypeError:
        raise ValueError(f"degree must be an integer, got {degree!r}") from None
    if degree < 0:
        raise ValueError(f"degree must not be negative, got {degree}")
    if check_phase not in (False, True):
        raise ValueError(f"check_phase must be False or True, got {check_phase!r}")
    return Method(gradient, degree, bool(check_phase))
