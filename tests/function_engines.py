"""Engines that have functions of matrices of their own, and what is exact of these.

In extended precision, from the engine's own eigenvalues and eigenvectors.
"""

import numpy as np

from bed import engines
from bed._derivative import divided_differences
from bed._functions import BAND, Function, Spectral
from bed.testing.checks import assert_same_bits, tolerance
from bed.testing.matrices import planted, random_hermitian
from drivers import fetch, parameters, put

# Parameters are exact in both precisions.
FUNCTIONS = (
    Spectral(Function.IDENTITY),
    Spectral(Function.SQRT),
    Spectral(Function.INVSQRT),
    Spectral(Function.LOG),
    Spectral(Function.EXP),
    Spectral(Function.POWER, 0.75),
    Spectral(Function.POWER, -1.5),
    Spectral(Function.POWER, 3),
    Spectral(Function.POWER, -2),
    Spectral(Function.ABS),
    Spectral(Function.SIGN),
    Spectral(Function.CLAMP, -0.5, 0.625),
    Spectral(Function.CLAMP, 0, np.inf),
)
SQRT, INVSQRT, LOG = FUNCTIONS[1:4]
LABELS = [f"{f.function.name.lower()} {f.first:g}" for f in FUNCTIONS]


def with_functions(same_bits_only=False):
    """Parameters of a fixture: these engines, on every device."""
    for device in ("cpu", "cuda"):
        for parameter in parameters(device, same_bits_only):
            (name,) = parameter.values
            if name == "any" or engines.known(str(name)).functions:
                yield parameter


def call(driver, name, *arguments, out=None):
    """A function of an engine; arrays go there, and results come back."""
    arrays = [put(x, driver) if isinstance(x, np.ndarray) else x for x in arguments]
    return fetch(engines.get(driver).load(name)(*arrays, out=out))


def adjoint(x):
    """xᴴ."""
    return x.conj().swapaxes(-1, -2)


def extended(x):
    """In the highest precision that NumPy has."""
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def _exact_arguments(function, w):
    """Function and eigenvalues in extended precision, with the floor and the zeros."""
    eps = np.finfo(w.dtype).eps
    w, n = w.astype(np.longdouble), w.shape[-1]
    size = abs(w).max(axis=-1, keepdims=True)
    if function.has_domain and function.floor < 0:
        w = np.where((w <= 0) & (w >= -BAND * n * eps * size), 0, w)
    ratio = float(eps) / float(np.finfo(np.longdouble).eps)
    if function.floor > 0:
        function = function._replace(floor=function.floor * ratio)
    return function, w


@np.errstate(all="ignore")
def exact_of(function, w, v):
    """f and the first differences in extended precision."""
    function, x = _exact_arguments(function, w)
    values = divided_differences.values(function, x)
    v = extended(v)
    differences = divided_differences.first(function, x)
    return (v * values[..., None, :]) @ adjoint(v), values, differences


def assert_close(x, exact, size, what):
    """Within 8·n·eps of a size, entry by entry; Hermitian to the last bit."""
    assert_same_bits(x + 0, adjoint(x) + 0)  # + 0: no sign of zero
    n = x.shape[-1]
    limits = np.finfo(x.dtype)
    worst = abs(extended(x) - exact).max(axis=(-2, -1))
    allowed = tolerance(n, x.dtype) * size + limits.smallest_subnormal
    # A kernel may take subnormal numbers as zero.
    allowed = allowed + (n * limits.smallest_normal if x.dtype.itemsize < 16 else 0)
    bad = ~(worst <= allowed)
    assert not bad.any(), f"{what}, n = {n}, {x.dtype}: {(worst / allowed)[bad]}"


def matrices(rng, n, dtype, function, scale=1.0):
    """Matrices with planted spectra that the function is defined on."""
    spectra = [rng.uniform(0.1, 2, n), np.resize([1.0, 2.0], n), np.ones(n)]
    spectra += [np.geomspace(0.01, 1, n), 1 + np.arange(n) * 1e-3]
    w = np.array(spectra) * scale
    if not (function.has_domain or function.is_singular):
        w = w * rng.choice([-1, 1], w.shape)
    return planted(rng, w, dtype)


def diagonal(rng, w, dtype):
    """Eigenvalues, and some basis."""
    w = np.asarray(w, np.dtype(dtype).type(0).real.dtype)
    v = np.linalg.eigh(random_hermitian(rng, (*w.shape, w.shape[-1]), dtype))[1]
    return w, np.ascontiguousarray(v.astype(dtype))
