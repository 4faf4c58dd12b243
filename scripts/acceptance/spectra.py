"""Matrices whose eigenvalues are known: made for the purpose, and real ones."""

import numpy as np

from bed._data import real_matrices
from bed.testing.matrices import SIZES

from ._cases import ALL_DTYPES, hidden, known, parallel
from ._device import put, solve

SMOKE_SIZES = (1, 3, 6, 9, 17, 33)


def known_spectra(run, part) -> None:
    """The zoo, every n to 64, four dtypes, both triangles, with and without vectors."""
    sizes = SMOKE_SIZES if run.smoke else sorted({*range(1, 65), *SIZES})
    tasks = [(run.seed, n, dtype.name) for n in sizes for dtype in ALL_DTYPES]
    tasks.sort(key=lambda task: -task[1])  # the slow ones first
    built = parallel(known, tasks, smoke=run.smoke)[::-1]
    run.say(f"  {sum(len(names) for _, names, *_ in built)} matrices are ready")
    for _, names, a, exact in built:
        with part.attempt(f"n = {a.shape[-1]}, {a.dtype}"):
            one_size(part, names, a, exact)


def one_size(part, names, a, exact) -> None:
    """All that is checked for one n and dtype."""
    # A solver must not look at what is NaN here; LAPACK gets what it stands for.
    for uplo in "LU":
        there = put(hidden(a, uplo))
        w, v, status = solve(there, uplo)
        part.right(a, w, v, exact, uplo, what="eigh", names=names)
        part.expect((status == 0).all(), f"status {status} n = {a.shape[-1]}")
        w, status = solve(there, uplo, vectors=False)
        part.right(a, w, exact=exact, uplo=uplo, what="eigvalsh", names=names)
        part.expect((status == 0).all(), f"status {status} n = {a.shape[-1]}")
    agree_with_lapack(part, a, w, names)


def agree_with_lapack(part, a, w, names) -> None:
    """Eigenvalues against numpy.linalg in float64 or complex128."""
    double = np.result_type(a.dtype, np.float64)
    lapack = np.linalg.eigvalsh(a.astype(double))
    what = "against LAPACK:"
    part.right(a, w, exact=lapack.astype(np.longdouble), what=what, names=names)


def real(run, part) -> None:
    """Real matrices against their exact eigenvalues."""
    for name, (a, exact) in real_matrices().items():
        few = slice(None, 50 if run.smoke else None)
        with part.attempt(name):
            one_array(part, name, a[few], exact[few])


def one_array(part, name, a, exact) -> None:
    """All that is checked for one stack of real matrices."""
    for uplo in "LU":
        w, v, status = solve(put(a), uplo)
        part.right(a, w, v, exact, uplo, what=name)
        part.expect((status == 0).all(), f"{name}: a status is not 0")
        w, _ = solve(put(a), uplo, vectors=False)
        part.right(a, w, exact=exact, uplo=uplo, what=name)
    agree_with_lapack(part, a, w, None)
