"""`bed.eigh` and the functions of matrices for Dask arrays; needs dask.

Nothing is computed before it is asked for: every chunk of the batch is a task, and
results have the chunks of the input. Each matrix has to lie in one chunk. Chunks may be
of NumPy or of CuPy, and results are of the same. `import bed` alone does not load this.

    import bed.dask, dask.array as da

    a = da.random.standard_normal((10**7, 8, 8), chunks=(10**5, 8, 8))
    w, v = bed.dask.eigh(a + a.swapaxes(1, 2))
    w.mean(axis=0).compute()

Dask counts one core for each task, and so do functions here: chunks are solved side by
side, each by one thread, unless ``threads`` says otherwise. With one chunk at a time on
a worker, make that the number of its cores.

`solve` is what each chunk is given to. It has the shape of a generalised ufunc,
``(i,j)->(i),(i,j)`` for `bed.eigh`, and can be pickled: `xarray.apply_ufunc` takes it,
and so does ``cubed.apply_gufunc`` where there is one result.
"""

import functools
from collections.abc import Callable
from typing import Any

import dask.array as da

import bed

from ._dispatch.normalize import raise_unless_square
from .engines._threads import limited_to

__all__ = [
    "absm",
    "clampm",
    "eigh",
    "eigvalsh",
    "expm",
    "invsqrtm",
    "logm",
    "powm",
    "signm",
    "solve",
    "sqrtm",
    "sqrtm_invsqrtm",
]


def eigh(a: Any, *arguments: Any, threads: int = 1, **options: Any) -> Any:
    """Eigenvalues and eigenvectors of the matrices in a Dask array.

    Parameters
    ----------
    a : dask.array.Array, shape (..., n, n)
        Chunked along the batch alone. What is no Dask array becomes one.
    *arguments, **options
        As for `bed.eigh`, but for `b` and `check`: whether matrices failed is seen from
        the status, with ``return_info=True``.
    threads : int, optional
        That work on a chunk.

    Returns
    -------
    EighResult or EighInfoResult
        Of Dask arrays, not yet computed. Each of them alone computes all; together, by
        ``dask.compute(w, v)``, they do so once.

    Raises
    ------
    numpy.linalg.LinAlgError
        `a` is not a stack of square matrices.
    ValueError
        Matrices are cut by chunks, or an option is wrong. This is found at once.

    Examples
    --------
    >>> import bed.dask, dask.array as da
    >>> w, v = bed.dask.eigh(da.ones((6, 2, 2), chunks=(3, 2, 2)))
    >>> w  # doctest: +ELLIPSIS
    dask.array<..., shape=(6, 2), dtype=float64, chunksize=(3, 2), ...>
    >>> w[0].compute().round(12) + 0.0
    array([0., 2.])
    """
    return _lazy("eigh", a, arguments, threads, options)


def eigvalsh(a: Any, *arguments: Any, threads: int = 1, **options: Any) -> Any:
    """Eigenvalues alone, as by `bed.eigvalsh`; see `eigh`."""
    return _lazy("eigvalsh", a, arguments, threads, options)


def solve(
    a: Any, name: str, arguments: tuple = (), *, threads: int = 1, **options: Any
) -> Any:
    """What `bed`'s function of this name makes of the matrices of a chunk."""
    with limited_to(threads):
        return getattr(bed, name)(a, *arguments, **options)


def _function(name: str) -> Callable:
    def function(a: Any, *arguments: Any, threads: int = 1, **options: Any) -> Any:
        return _lazy(name, a, arguments, threads, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`bed.{name}` of the matrices in a Dask array; see `eigh`."
    return function


absm = _function("absm")
clampm = _function("clampm")
expm = _function("expm")
invsqrtm = _function("invsqrtm")
logm = _function("logm")
powm = _function("powm")
signm = _function("signm")
sqrtm = _function("sqrtm")
sqrtm_invsqrtm = _function("sqrtm_invsqrtm")


def _lazy(name: str, a: Any, arguments: tuple, threads: int, options: dict) -> Any:
    """The results, as Dask arrays."""
    a = da.asanyarray(a)
    raise_unless_square(a.shape)
    _check_chunks(a)
    if taken := options.keys() & {"b", "check"}:
        raise ValueError(
            f"{', '.join(sorted(taken))}: not for Dask arrays; the status of every "
            "matrix comes with return_info=True"
        )
    keywords = {"name": name, "arguments": arguments, "threads": threads, **options}
    of_chunk: Callable = functools.partial(solve, **keywords)
    # What comes of no matrices: it tells library and dtypes, and finds wrong options.
    meta = of_chunk(a._meta)
    several = isinstance(meta, tuple)
    core = [_AXES[x.ndim - a.ndim] for x in (meta if several else (meta,))]
    found = da.apply_gufunc(of_chunk, f"(i,j)->{','.join(core)}", a, meta=meta)
    return type(meta)(*found) if several else found


# The axes of a result behind those of the batch, by how many it lacks.
_AXES = {0: "(i,j)", -1: "(i)", -2: "()"}


def _check_chunks(a: Any) -> None:
    """Raise ValueError unless each matrix lies in one chunk."""
    if any(len(chunks) > 1 for chunks in a.chunks[-2:]):
        rows, columns = a.chunks[-2:]
        raise ValueError(
            f"matrices are cut by chunks, of {rows} rows and {columns} columns: "
            "a.rechunk({-2: -1, -1: -1}) leaves them whole"
        )
