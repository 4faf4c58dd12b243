"""From a caller's array to results in the caller's library, whatever is solved.

`eigh`, `eigh_extremal` and the stages are for arrays of any library, without
derivatives. Each opens its arrays, checks them, chooses an engine and allocates; what
all have in common after that stands once, in `run`.
"""

import functools
import sys
from collections.abc import Callable

import numpy as np

from .._status import raise_on_failure
from ..engines import (
    Engine,
    allocate,
    allocate_extremal,
    allocate_reduced,
    ends_at,
    forgive_overflow,
    known,
)
from ..engines._float_mode import default_float_mode
from . import again, interop
from .arrange import Arrangement, arrange
from .interop import Library, Received
from .normalize import (
    array_for,
    converted,
    is_flag,
    normalize,
    normalize_extremal,
    normalize_pair,
    normalize_tridiagonal,
    normalize_uplo,
    raise_unless_check,
)
from .policy import AUTO, choose_stage, loaded
from .symmetry import raise_on_asymmetry, raise_unless_hermitian


def opaque(function: Callable) -> Callable:
    """Keep torch's compiler, where it is at work, out of engines and their imports.

    It would compile what they do to NumPy arrays, and break what compiles by itself.
    """

    @functools.wraps(function)
    def call(*arguments):
        # Only after a first use of torch.compile, which is when this is loaded.
        if "torch._dynamo" in sys.modules and _compiled():
            return sys.modules["torch._dynamo"].disable(function)(*arguments)
        return function(*arguments)

    return call


def _compiled() -> bool:
    """Whether torch's compiler takes what is called, in this thread."""
    torch = sys.modules.get("torch")
    if torch is None:  # taken away by whoever tests what is done without it
        return False
    if torch.compiler.is_compiling():
        return True
    # A function that it gave up on runs as it stands, and what that calls is taken.
    compiler = torch._C._dynamo.eval_frame
    if not hasattr(compiler, "get_eval_frame_callback"):
        return True  # before torch 2.6 there was no way to ask
    return bool(compiler.get_eval_frame_callback())


@opaque
def eigh(library: Library, a, uplo, check, driver, eigenvectors=True):
    """The triple ``(w, v, status)`` of `bed.eigh`; `v` is None if not wanted."""
    usual = driver is AUTO and type(uplo) is str
    if usual and type(a) is np.ndarray and (check is False or check is True):
        results = again.solve(a, uplo, eigenvectors)
        if results is not None:
            if check:
                raise_on_failure(results[2])
            return results
    upper = normalize_uplo(uplo)
    raise_unless_check(check)
    received = library.receive(a)
    usual = usual and received.repeats
    if usual and not check:
        results = again.solve(received.array, uplo, eigenvectors, received)
        if results is not None:
            return results
    with received.running():
        results = eigh_received(received, upper, check, driver, eigenvectors)
    if usual:
        again.remember(received.array, uplo, eigenvectors)
    return results


@opaque
def eigh_arranged(library: Library, a, uplo, check, driver, arrangement, eigenvectors):
    """The same in another order, or with other signs."""
    uplo = normalize_uplo(uplo)
    raise_unless_check(check)
    received = library.receive(a)
    with received.running():
        options = uplo, check, driver, eigenvectors, arrangement
        return eigh_received(received, *options)


def eigh_received(
    received: Received,
    uplo,
    check,
    driver,
    eigenvectors=True,
    arrangement: Arrangement | None = None,
):
    """The same for an open array, on its device and stream."""
    a, leading, dtype = normalize(received)
    n = a.shape[-1]
    engine, solve = loaded(n, dtype, received.device, eigenvectors, driver)
    if check == "hermitian":
        raise_unless_hermitian(received, a, uplo, leading, dtype)
    # With the caller's axes from the beginning: to torch, a view is not a new tensor.
    outputs = allocate(received.empty, (*leading, n), dtype, eigenvectors=eigenvectors)
    a = array_for(engine, a, dtype)

    def solver(out):
        solve(a, uplo, eigenvectors=eigenvectors, out=out)
        if arrangement is not None:
            _rearrange(out, arrangement)

    return run(solver, a, outputs, received, leading, check=bool(check))


@opaque
def eigh_extremal(library: Library, a, k, which, uplo, check, driver):
    """The triple ``(w, v, status)`` of `bed.eigh_extremal`."""
    uplo = normalize_uplo(uplo)
    raise_unless_check(check)
    received = library.receive(a)
    with received.running():
        a, leading, dtype = normalize(received)
        n = a.shape[-1]
        k = normalize_extremal(k, which, n)
        engine, solve = loaded(n, dtype, received.device, True, driver)
        if check == "hermitian":
            raise_unless_hermitian(received, a, uplo, leading, dtype)
        pays, own = _extremal_functions(engine)
        if own is not None and pays(n, k, dtype):
            outputs = allocate_extremal(received.empty, (*leading, n), k, dtype)
            a = array_for(engine, a, dtype)

            def solver(out):
                own(a, uplo, k, which, out=out)

            return run(solver, a, outputs, received, leading, check=bool(check))
        part = ends_at(n, k, which)
        usual = driver is AUTO and received.repeats and not check
        results = again.solve(received.array, uplo, True, received) if usual else None
        # An overflow may be of an eigenvalue that is not asked for.
        if results is None or results[2].any():
            outputs = allocate(received.empty, (*leading, n), dtype)
            a = array_for(engine, a, dtype)

            def solver(out):
                solve(a, uplo, out=out)
                forgive_overflow(out, k, which)

            results = run(solver, a, outputs, received, leading, check=bool(check))
            if usual:
                again.remember(received.array, uplo, True)
        w, v, status = results
        return w[..., part], v[..., part], status


@functools.cache
def _extremal_functions(engine: Engine) -> tuple:
    """An engine's `extremal_pays` and `eigh_extremal`, if it has them."""
    if not engine.extremal:
        return None, None
    return engine.load("extremal_pays"), engine.load("eigh_extremal")


@opaque
def eigh_generalized(
    libraries: tuple[Library, Library],
    a,
    b,
    uplo,
    check,
    driver,
    eigenvectors=True,
    arrangement: Arrangement | None = None,
):
    """The same for pairs, in the library of a."""
    uplo = normalize_uplo(uplo)
    raise_unless_check(check)
    received, others = (
        library.receive(x) for library, x in zip(libraries, (a, b), strict=True)
    )
    with received.running():
        options = uplo, check, driver, eigenvectors, arrangement
        return eigh_generalized_received(received, others, *options)


def eigh_generalized_received(
    received: Received,
    others: Received,
    uplo,
    check,
    driver,
    eigenvectors=True,
    arrangement: Arrangement | None = None,
):
    """The same for open arrays, on their device and stream."""
    a, b, leading, dtype = normalize_pair(received, others)
    n = a.shape[-1]
    engine, solve = loaded(n, dtype, received.device, eigenvectors, driver)
    a, b = converted(a, dtype), converted(b, dtype)
    if check == "hermitian":
        error = received.error
        raise_on_asymmetry(a, uplo, leading, received.dtype, error, "matrices a")
        raise_on_asymmetry(b, uplo, leading, others.dtype, error, "matrices b")
    outputs = allocate(received.empty, (*leading, n), dtype, eigenvectors=eigenvectors)
    solve_pairs = _of_pairs(engine, solve)

    def solver(out):
        solve_pairs(a, b, uplo, eigenvectors=eigenvectors, out=out)
        if arrangement is not None:
            _rearrange(out, arrangement)

    return run(solver, a, outputs, received, leading, check=bool(check))


def _of_pairs(engine: Engine, solve: Callable) -> Callable:
    """An engine's `eigh_generalized`, or one around its `eigh`."""
    if engine.generalized:
        return engine.load("eigh_generalized")
    around = known("reference").load("eigh_generalized")
    return functools.partial(around, solve=solve)


def _rearrange(out, arrangement) -> None:
    """`arrange` in place, in a batch of outputs."""
    w, v, _ = out
    # Matrices that failed are NaN, and subnormal entries stay what they are.
    with np.errstate(all="ignore"), default_float_mode():
        found = arrange(w, v, arrangement)
    for x, arranged in zip((w, v), found, strict=True):
        if x is not None:
            x[...] = arranged


@opaque
def tridiagonalize(library: Library, a, uplo, driver):
    """The triple ``(d, e, q)`` of `bed.tridiagonalize`."""
    uplo = normalize_uplo(uplo)
    received = library.receive(a)
    with received.running():
        a, leading, dtype = normalize(received)
        n = a.shape[-1]
        stage = choose_stage("tridiagonalize", n, dtype, received.device, driver)
        outputs = allocate_reduced(received.empty, (*leading, n), dtype)
        a = array_for(stage.engine, a, dtype)
        solver = functools.partial(stage.function, a, uplo)
        return run(solver, a, outputs, received, leading)


@opaque
def eigh_tridiagonal(
    libraries: tuple[Library, Library], d, e, check, driver, eigenvectors=True
):
    """The triple ``(w, v, status)`` of `bed.eigh_tridiagonal`, in the library of d."""
    if not is_flag(check):
        raise ValueError(f"check must be False or True, got {check!r}")
    received, others = (
        library.receive(x) for library, x in zip(libraries, (d, e), strict=True)
    )
    with received.running():
        d, e, leading = normalize_tridiagonal(received, others)
        n, dtype = d.shape[1], d.dtype
        stage = choose_stage("eigh_tridiagonal", n, dtype, received.device, driver)
        outputs = allocate(
            received.empty, (*leading, n), dtype, eigenvectors=eigenvectors
        )
        solver = functools.partial(stage.function, d, e, eigenvectors=eigenvectors)
        return run(solver, d, outputs, received, leading, check=check)


def run(solver, a, outputs, received, leading, *, check=False) -> tuple:
    """Fill outputs that the caller's library allocated, and give them back.

    `solver` fills its `out` from the input `a`. With `check` the last of the outputs is
    the status, which is looked at.
    """
    opened = received.open_batch(outputs, leading)
    if a.size:
        solver(out=opened)
    else:
        # Nothing to solve, and nothing but a status has entries: `Status.OK`.
        for x in opened:
            if x is not None:
                x[...] = 0
    if check:
        status = interop.to_host(opened[-1])
        raise_on_failure(status.reshape(leading), received.error)
    return received.close(outputs, leading)
