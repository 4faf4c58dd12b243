"""The solvers that are compared, in one list."""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import bed
from bed.cli._peers import Numpy
from bed.engines import engines
from bed.engines.reference import eigh as reference_eigh


class Solver(NamedTuple):
    """One way to decompose a batch.

    Attributes
    ----------
    name : str
    ready : callable
        Makes a call without arguments for an array and a device.
    pairs : callable
        Eigenvalues and eigenvectors in what the call returns, as arrays in any order.
    """

    name: str
    ready: Callable
    pairs: Callable

    def decomposed(self, result) -> tuple[np.ndarray, np.ndarray]:
        """Ascending eigenvalues ``(batch, n)`` and their eigenvectors, on the host."""
        w, v = (np.real(host(x)) for x in self.pairs(result))
        order = np.argsort(w, axis=-1)
        return (
            np.take_along_axis(w, order, axis=-1),
            np.take_along_axis(v, order[..., None, :], axis=-1),
        )


def solvers(options, names: Iterable[str]) -> list[Solver]:
    """Those of the names that are here and run on the device."""
    found = [SOLVERS[name] for name in names if _present(name, options.device)]
    if options.public_code:
        found.append(public_code(options.public_code))
    return found


def _present(name: str, device: str) -> bool:
    library = name.partition("_")[0]
    if library in ("numpy", "cupy"):
        return device == ("cpu" if library == "numpy" else "cuda")
    engine = {engine.name: engine for engine in engines()}.get(name.partition(":")[2])
    if engine:
        return device in engine.devices and engine.missing() is None
    return library not in ("torch", "jax") or find_spec(library) is not None


def host(x) -> np.ndarray:
    """An array of any library, or a list of such, as one of NumPy."""
    if isinstance(x, list):
        return np.stack([host(one) for one in x])
    x = x.get() if hasattr(x, "get") else x
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)


def placed(a: np.ndarray, device: str):
    """Where bed and the reference read it: NumPy's array, or a tensor on the device."""
    return a if device == "cpu" else _tensor(a, device)


def _tensor(a, device):
    import torch

    return torch.from_numpy(a).to(device)


def _torch(function: str, loop: bool) -> Solver:
    def ready(a, device):
        import torch

        solve, x = getattr(torch.linalg, function), _tensor(a, device)
        return (lambda: [solve(one) for one in x]) if loop else lambda: solve(x)

    def pairs(result):
        if loop:
            result = [list(parts) for parts in zip(*result, strict=True)]
        return (result[1], result[0]) if function == "svd" else result

    return Solver(f"torch_{function}{'_loop' * loop}", ready, pairs)


def _numpy(a, device):
    return Numpy().ready("eigh", a)


def _cupy(a, device):
    import cupy

    x = cupy.asarray(a)
    return lambda: cupy.linalg.eigh(x)


def _jax(a, device):
    import jax

    solve = jax.jit(jax.numpy.linalg.eigh)
    x = jax.device_put(a, jax.devices("gpu" if device == "cuda" else "cpu")[0])
    return lambda: jax.block_until_ready(solve(x))


def _reference(a, device):
    x = placed(a, device)
    return lambda: reference_eigh(x)


def _bed(driver: str = "auto") -> Callable:
    def ready(a, device):
        x = placed(a, device)
        return lambda: bed.eigh(x, driver=driver)

    return ready


def public_code(folder) -> Solver:
    """The authors' code, unmodified; it runs on CUDA devices alone."""

    def ready(a, device):
        sys.path.insert(0, str(folder))
        solve, x = import_module("utils_ed").Batched_ED.apply, _tensor(a, device)
        return lambda: solve(x)

    def pairs(result):
        v, w = result
        return w.diagonal(dim1=-2, dim2=-1), v

    return Solver("public_code", ready, pairs)


def _first_two(result) -> Any:
    return result[0], result[1]


SOLVERS = {
    solver.name: solver
    for solver in (
        *(_torch(f, loop) for f in ("svd", "eigh", "eig") for loop in (False, True)),
        Solver("numpy_eigh", _numpy, _first_two),
        Solver("cupy_eigh", _cupy, _first_two),
        Solver("jax_eigh", _jax, _first_two),
        Solver("reference", _reference, _first_two),
        Solver("bed", _bed(), _first_two),
        *(
            Solver(f"bed:{engine.name}", _bed(engine.name), _first_two)
            for engine in engines()
            if engine.name != "reference"
        ),
    )
}
