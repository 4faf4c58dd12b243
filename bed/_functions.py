"""Functions of matrices by name: f(A) = V diag(f(w)) Vᴴ, from the eigenvalues of A.

What an eigenvalue λ stands for, in every engine and in every derivative. Let s be the
largest |λ| of the matrix, n its size, and eps that of the dtype.

- With a `floor`, f is taken of max(λ, c) with c = floor·n·eps·s. c counts as a constant
  in derivatives: that of max is 1 from c on, and 0 below.
- A function with a domain (`has_domain`) takes λ in [−8·n·eps·s, 0] as zero. These are
  zeros as far as is known.
- What is below that, and zero itself where `is_singular`, is outside of the domain: all
  of f(A) is NaN then, with `Status.DOMAIN`.

Divided differences are f[a, b] = (f(a) − f(b))/(a − b), and f′(a) where a = b. With a
floor they are f[max(a, c), max(b, c)] times that of max. Where f′ has no value they
are:

- of sqrt and of powers p > 0 zero at (0, 0), unless p is a whole number;
- of abs and sign zero at (0, 0);
- of clamp 1 at both ends, as of max at the floor.
"""

from enum import IntEnum
from typing import NamedTuple

# Of eigenvalues, in n·eps of the largest: what is promised of them.
BAND = 8


class Function(IntEnum):
    """What engines tell a function by; numbers may be part of compiled programs."""

    IDENTITY = 0
    SQRT = 1
    INVSQRT = 2
    LOG = 3
    EXP = 4
    POWER = 5  # first: the exponent
    ABS = 6
    SIGN = 7
    CLAMP = 8  # first, second: the smallest and the largest value


class Spectral(NamedTuple):
    """A function, its parameters, and a floor, which is negative if there is none."""

    function: Function
    first: float = 0.0
    second: float = 0.0
    floor: float = -1.0

    @property
    def has_domain(self) -> bool:
        """Whether f has no value at negative numbers."""
        if self.function == Function.POWER:
            return self.first % 1 != 0
        return self.function in (Function.SQRT, Function.INVSQRT, Function.LOG)

    @property
    def is_singular(self) -> bool:
        """Whether f has no value at zero."""
        if self.function == Function.POWER:
            return self.first < 0
        return self.function in (Function.INVSQRT, Function.LOG)


# It has neither domain nor floor: for what is no function, but goes the same way.
IDENTITY = Spectral(Function.IDENTITY)
