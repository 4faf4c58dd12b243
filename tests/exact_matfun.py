"""Functions of small matrices and their derivatives in a hundred digits."""

import mpmath
import numpy as np

DIGITS = 100
STEP = mpmath.mpf(10) ** -30  # leaves forty digits of a second derivative

# f and f′ of the functions of matrices by name, where the tests differentiate them.
SCALAR = {
    "sqrtm": (mpmath.sqrt, lambda x: 1 / (2 * mpmath.sqrt(x))),
    "invsqrtm": (lambda x: 1 / mpmath.sqrt(x), lambda x: -(x ** mpmath.mpf(-1.5)) / 2),
    "logm": (mpmath.log, lambda x: 1 / x),
    "expm": (mpmath.exp, mpmath.exp),
    "powm": (lambda x: x ** mpmath.mpf(2.5), lambda x: 2.5 * x ** mpmath.mpf(1.5)),
    "absm": (abs, mpmath.sign),
    "signm": (mpmath.sign, lambda x: mpmath.mpf(0)),
    "clampm": (
        lambda x: min(max(x, mpmath.mpf(0)), mpmath.mpf(1.5)),
        lambda x: mpmath.mpf(0 <= x <= 1.5),
    ),
}


def derivative(name, a, z) -> np.ndarray:
    """D f(A)[Z]."""
    with mpmath.workdps(DIGITS):
        return _rounded(_derivative(*SCALAR[name], *map(_matrix, (a, z))), a.dtype)


def second_derivative(name, a, z, g) -> np.ndarray:
    """D²f(A)[Z, G], by differences of the first one."""
    with mpmath.workdps(DIGITS):
        a_, z, g = map(_matrix, (a, z, g))
        one, other = (
            _derivative(*SCALAR[name], a_ + step * z, g) for step in (STEP, -STEP)
        )
        return _rounded((one - other) / (2 * STEP), a.dtype)


def _derivative(f, df, a, z):
    w, v = mpmath.eighe(a)
    inner = v.H * z * v
    values = [f(x) for x in w]
    for i in range(len(w)):
        for j in range(len(w)):
            gap = w[i] - w[j]
            equal = abs(gap) < mpmath.mpf(10) ** -80
            inner[i, j] *= df(w[i]) if equal else (values[i] - values[j]) / gap
    return v * inner * v.H


def _matrix(a):
    return mpmath.matrix(np.asarray(a).tolist())


def _rounded(x, dtype):
    x = np.array(x.tolist(), dtype=complex)
    return (x if np.dtype(dtype).kind == "c" else x.real).astype(dtype)
