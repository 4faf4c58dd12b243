"""The engine contract, and the list of engines.

An engine is a module with one function

    eigh(a, uplo="L", *, eigenvectors=True, out=None) -> (w, v, status)

where, for every engine alike,

- `a` is ``(batch, n, n)`` with n ≥ 1, in float32, float64, complex64 or complex128 and
  native byte order. Its strides are arbitrary (zero, negative, Fortran), it may be
  read-only, and it is never written.
- `uplo` is ``"L"`` or ``"U"``: the triangle that is read. The other triangle and the
  imaginary part of the diagonal do not enter the result, whatever they hold.
- `w` is ``(batch, n)`` in the real dtype, ascending; `v` is ``(batch, n, n)`` with the
  eigenvectors as columns, or None when `eigenvectors` is False; `status` is
  ``(batch,)`` int32 with the values of `bed._status.Status`.
- `out` is such a triple to fill, with C-contiguous arrays; nothing else that grows with
  the batch is allocated by engines that run in one pass. Others say what they allocate.
- Errors stay within tolerance for every finite matrix of any scale: residual,
  orthogonality and eigenvalues within 8·n·eps of max|a|, each matrix on its own.
- A matrix with NaN or Inf, or one that does not converge, has NaN in all of `w` and `v`
  and says so in `status`. No numerical trouble raises or warns, and no matrix changes
  the result of another.
- Where `same_bits` holds, the result for a matrix does not depend on the rest of the
  batch, on its position, on the number of threads or on earlier calls.

Some engines also have the two stages apart, with the same promises:

    tridiagonalize(a, uplo="L", *, out=None) -> (d, e, q)
    eigh_tridiagonal(d, e, *, eigenvectors=True, out=None) -> (w, v, status)

where `d` is ``(batch, n)`` and `e` is ``(batch, n - 1)``, both real, and `q` is of the
dtype of `a`. A matrix with NaN or Inf has NaN in `d`, `e` and `q`.

The generalised problem A x = λ B x some engines have of their own; that of the others
is made from their `eigh` by the reference's

    eigh_generalized(a, b, uplo="L", *, eigenvectors=True, out=None) -> (w, v, status)

where `b` is like `a`, of the same shape and dtype, and Vᴴ B V = I. The status is
NOT_DEFINITE, and `w` and `v` are NaN, where `b` is not positive definite to working
precision. Eigenvalues are within 8·n·eps·|A||B⁻¹|. With κ the condition of B, residuals
of vectors x are within 8·n·eps·κ·(|A| + |λ||B|)·|x|, and VᴴBV − I within 8·n·eps·κ.
Bits, strides, failures and neighbours are as for `eigh`.

Some have k pairs from an end of the spectrum, ascending, with the same promises for
these (no status tells of other eigenvalues), and say whether that takes less time:

    eigh_extremal(a, uplo="L", k=1, which="largest", *, out=None) -> (w, v, status)
    extremal_pays(n, k, dtype) -> bool

Functions of matrices, see `bed._functions`, some engines have of their own; those of
the others are made from their `eigh` and the reference's last three of

    spectral(a, uplo, function, *, out=None) -> (f, w, v, status)
    spectral_product(w, v, function, *, out=None) -> (f, status)
    spectral_vjp(w, v, g, function, differences=None, *, out=None) -> gradient
    eigh_vjp(w, v, grad_w, grad_v, *, out=None) -> gradient

- `function` is a `Spectral`, and f = V diag(f(w)) Vᴴ is ``(batch, n, n)``, Hermitian to
  the last bit. Where the status is NOT_FINITE, NO_CONVERGENCE or DOMAIN it is NaN; the
  status is OVERFLOW where a value of the function is infinite.
- `w` and `v` in `out` may be None, and are not kept then.
- `spectral_product` is the same from w and v. With the function IDENTITY it makes
  V diag(w) Vᴴ of any w; its status is OVERFLOW, DOMAIN, or NOT_FINITE where w is NaN.
- `spectral_vjp` is V (L ∘ (Vᴴ herm(g) V)) Vᴴ with L the first divided differences of
  the function, or `differences` ``(batch, n, n)``, real and symmetric. It is the
  derivative in the direction g as well as the gradient of ⟨g, f⟩, and Hermitian to the
  last bit. It is zero where all of g is zero, whatever w and v hold; else NaN where w
  has NaN or is outside of the domain.
- `eigh_vjp` is the gradient of `bed._derivative.eigh.eigh_vjp`, "exact"; either of
  `grad_w` and `grad_v` may be None. It is zero where all of them is zero.
- Errors stay within what the eigenvalues' and products' rounding makes of them; bits,
  strides of inputs and neighbours are as for `eigh`.

An engine may also have

    prepared(batch, n, dtype, uplo, eigenvectors) -> run or None

for calls that come again and again: ``run(a, w, v, status)`` solves C-contiguous and
aligned arrays of just these shapes as `eigh` does, and is None where that would take no
less time.

Engines know nothing of torch, JAX or DLPack: they get NumPy arrays on the host and CuPy
arrays on a GPU.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from ._outputs import (
    allocate,
    allocate_extremal,
    allocate_reduced,
    ends_at,
    forgive_overflow,
    real_dtype,
)

__all__ = [
    "DTYPES",
    "Engine",
    "allocate",
    "allocate_extremal",
    "allocate_reduced",
    "describe",
    "ends_at",
    "engines",
    "forgive_overflow",
    "get",
    "known",
    "real_dtype",
    "register",
    "registered",
]

DTYPES = tuple(np.dtype(c) for c in ("f4", "f8", "c8", "c16"))


@dataclass(frozen=True)
class Engine:
    """One entry of the registry; the module is imported at the first call.

    Attributes
    ----------
    name : str
        What `driver=` calls it, and its package under `bed.engines`.
    devices : tuple of str
        Kinds of memory its arrays may live in, of ``"cpu"`` and ``"cuda"``.
    summary : str
        One line for people.
    needs : tuple of (str, str)
        Modules it imports and what to install for each.
    max_n : int or None
        Largest matrix it takes.
    same_bits : bool
        Whether the result of a matrix is independent of its batch.
    reads : tuple of str
        Names of further dtypes that it reads as they are and computes in float32.
    stages : bool
        Whether it has the two stages apart.
    jit : bool
        Whether Numba compiles it for the CPU.
    prepares : bool
        Whether it has functions for small batches of one shape.
    functions : bool
        Whether it has functions of matrices of its own.
    generalized : bool
        Whether it has the generalised problem of its own.
    extremal : bool
        Whether it has `eigh_extremal`.
    """

    name: str
    devices: tuple[str, ...]
    summary: str
    needs: tuple[tuple[str, str], ...] = ()
    max_n: int | None = None
    same_bits: bool = True
    reads: tuple[str, ...] = ()
    stages: bool = False
    jit: bool = False
    prepares: bool = False
    functions: bool = False
    generalized: bool = False
    extremal: bool = False

    def takes(self, n: int) -> bool:
        """Whether matrices of size n are not too large."""
        return self.max_n is None or n <= self.max_n

    def missing(self) -> str | None:
        """What has to be installed or set before this engine runs, or None."""
        for module, package in self.needs:
            if find_spec(module) is None:
                return f"needs {module}: pip install '{package}'"
        return self.switched_off()

    def switched_off(self) -> str | None:
        """What has to be set otherwise before this engine runs, or None."""
        loaded = f"bed.engines.{self.name}" in sys.modules
        return _jit_off() if self.jit and not loaded else None

    def load(self, function: str = "eigh") -> Callable:
        """Import the engine and return its `eigh`, or another of its functions."""
        try:
            package = importlib.import_module(f"bed.engines.{self.name}")
        except ImportError as error:
            raise ImportError(
                f"engine {self.name!r} does not start: {error}; {describe()}"
            ) from error
        return getattr(package, function)


def _jit_off() -> str | None:
    """The variable that keeps Numba from compiling, if there is one."""
    config = getattr(sys.modules.get("numba"), "config", None)
    if config is not None:
        off = config.DISABLE_JIT
    else:  # as Numba is going to read it: what is no number, it ignores
        off = _number("NUMBA_DISABLE_JIT")
        if _number("NUMBA_NUM_THREADS", 1) < 1:
            return "needs Numba, which NUMBA_NUM_THREADS below 1 keeps from starting"
    return (
        "needs Numba's compiler, which NUMBA_DISABLE_JIT switches off" if off else None
    )


def _number(variable: str, default: int = 0) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default


_REGISTRY: dict[str, Engine] = {}

# Old names, which `driver=` still takes.
RENAMED = {"staged": "numba_cuda"}


def register(engine: Engine) -> None:
    """Add an engine; every test of the contract then runs on it."""
    if engine.name in _REGISTRY:
        raise ValueError(f"engine {engine.name!r} is registered already")
    _REGISTRY[engine.name] = engine


def engines() -> tuple[Engine, ...]:
    """All registered engines, the preferred ones first."""
    return tuple(_REGISTRY.values())


def registered(engine: Engine) -> bool:
    """Whether this very engine is what its name stands for."""
    return _REGISTRY.get(engine.name) is engine


def known(name: str) -> Engine:
    """Look a registered engine up, whether it runs here or not.

    Raises
    ------
    ValueError
        Unknown name; the message lists what exists here and what could be installed.
    """
    if not isinstance(name, str):
        raise ValueError(f"driver={name!r} is unknown; {describe()}")
    if name in RENAMED:
        warnings.warn(
            f"driver={name!r} is called {RENAMED[name]!r} now",
            DeprecationWarning,
            stacklevel=_level_of_the_caller(),
        )
        name = RENAMED[name]
    engine = _REGISTRY.get(name)
    if engine is None:
        raise ValueError(f"driver={name!r} is unknown; {describe()}")
    return engine


def _level_of_the_caller() -> int:
    """As a `stacklevel` of the function that asks: the first frame outside bed."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("bed."):
        frame, level = frame.f_back, level + 1
    return level


def get(name: str) -> Engine:
    """Look an engine up by the name that `driver=` takes.

    Raises
    ------
    ValueError
        Unknown name; the message lists what exists here and what could be installed.
    ImportError
        The engine is known and something it needs is not installed, or switched off.
    """
    engine = known(name)
    if missing := engine.missing():
        raise ImportError(f"engine {engine.name!r} {missing}; {describe()}")
    return engine


def describe() -> str:
    """List the engines that run here and those that miss something."""
    here = [repr(e.name) for e in engines() if e.missing() is None]
    absent = [f"{e.name!r} ({e.missing()})" for e in engines() if e.missing()]
    text = "engines here: " + ", ".join(here)
    return text + ("; not here: " + ", ".join(absent) if absent else "")


_CUDA_EXTRAS = "batched-ed[cuda12]' or 'batched-ed[cuda13]"
_CUPY = ("cupy", _CUDA_EXTRAS)

register(
    Engine(
        "numba_cpu",
        ("cpu",),
        "Householder and implicit QR, a matrix in each SIMD lane, threads",
        needs=(("numba", "numba"),),
        stages=True,
        jit=True,
        prepares=True,
        functions=True,
        generalized=True,
        extremal=True,
    )
)
register(
    Engine(
        "lapack",
        ("cpu",),
        "numpy.linalg.eigh, threads over the batch, one BLAS thread each",
        needs=(("threadpoolctl", "threadpoolctl"),),
    )
)
register(
    Engine(
        "raw_cuda",
        ("cuda",),
        "one fused CUDA kernel for the whole batch, no workspace",
        needs=(_CUPY,),
        max_n=64,
        reads=("float16", "bfloat16"),
        functions=True,
    )
)
register(
    Engine(
        "cusolver",
        ("cuda",),
        "cupy.linalg.eigh in chunks of the batch",
        needs=(_CUPY,),
    )
)
register(
    Engine(
        "numba_cuda",
        ("cuda",),
        "a Numba kernel for each stage, in Python to be read and changed",
        needs=(_CUPY, ("numba_cuda", _CUDA_EXTRAS)),
        max_n=128,
        stages=True,
        functions=True,
    )
)
register(
    Engine(
        "reference",
        ("cpu", "cuda"),
        "the paper's batched QR iteration, to be read; bits depend on the batch",
        needs=(("array_api_compat", "array-api-compat"),),
        same_bits=False,
        functions=True,
        extremal=True,
    )
)
