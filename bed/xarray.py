"""`bed.eigh` and the functions of matrices by names of axes; needs xarray.

    import bed.xarray

    w, v = bed.xarray.eigh(covariance, dims=("channel", "channel_"))
    root = bed.xarray.sqrtm(covariance, dims=("channel", "channel_"))

Coordinates are kept wherever their axes are. Arrays of Dask inside are solved as by
`bed.dask`, not before they are asked for. `import bed` alone does not load this.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

import bed

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
    "sqrtm",
    "sqrtm_invsqrtm",
]

# The axis of the eigenvalues, and of the eigenvectors that belong to them.
EIGENVALUE = "eigenvalue"


def eigh(
    a: xr.DataArray,
    *arguments: Any,
    dims: Sequence[str] | None = None,
    along: str = EIGENVALUE,
    **options: Any,
) -> Any:
    """Eigenvalues and eigenvectors of matrices whose axes have names.

    Parameters
    ----------
    a : xarray.DataArray
    *arguments, **options
        As for `bed.eigh`, or for `bed.dask.eigh` if `a` holds an array of Dask.
    dims : pair of str, optional
        The axes of rows and of columns; by default the last two. All others are the
        batch.
    along : str, optional
        Name of the new axis, along which eigenvalues and their eigenvectors lie.

    Returns
    -------
    EighResult or EighInfoResult
        Of arrays with the axes ``(..., along)``, ``(..., dims[0], along)`` and, for the
        status, ``(...)``.

    Raises
    ------
    numpy.linalg.LinAlgError
        There are more rows than columns, or fewer.
    TypeError
        `a` is no DataArray.
    ValueError
        Axes are not there, or are cut by chunks of Dask.

    Examples
    --------
    >>> import bed.xarray, xarray as xr
    >>> names = ["x", "y"]
    >>> a = xr.DataArray([[2.0, 1.0], [1.0, 2.0]], {"i": names, "j": names})
    >>> w, v = bed.xarray.eigh(a, dims=("i", "j"))
    >>> w.values
    array([1., 3.])
    >>> v.dims, v.i.values.tolist()
    (('i', 'eigenvalue'), ['x', 'y'])
    """
    rows, columns = _dims(a, dims)
    axes = [[_new(a, along)], [rows, along]]
    return _apply("eigh", a, arguments, (rows, columns), axes, options)


def eigvalsh(
    a: xr.DataArray,
    *arguments: Any,
    dims: Sequence[str] | None = None,
    along: str = EIGENVALUE,
    **options: Any,
) -> Any:
    """Eigenvalues alone, as by `bed.eigvalsh`; see `eigh`."""
    pair = _dims(a, dims)
    return _apply("eigvalsh", a, arguments, pair, [[_new(a, along)]], options)


def _function(name: str, results: int = 1) -> Callable:
    def function(
        a: xr.DataArray,
        *arguments: Any,
        dims: Sequence[str] | None = None,
        **options: Any,
    ) -> Any:
        pair = _dims(a, dims)
        return _apply(name, a, arguments, pair, [[*pair]] * results, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`bed.{name}` of matrices whose axes have names; see `eigh`."
    return function


absm = _function("absm")
clampm = _function("clampm")
expm = _function("expm")
invsqrtm = _function("invsqrtm")
logm = _function("logm")
powm = _function("powm")
signm = _function("signm")
sqrtm = _function("sqrtm")
sqrtm_invsqrtm = _function("sqrtm_invsqrtm", 2)


def _dims(a: xr.DataArray, dims: Sequence[str] | None) -> tuple:
    """The axes of rows and columns of what is an array of matrices.

    Raises
    ------
    numpy.linalg.LinAlgError, TypeError, ValueError
        As `eigh` says.
    """
    if not isinstance(a, xr.DataArray):
        raise TypeError(f"expected an xarray.DataArray, got {type(a).__name__}")
    pair = a.dims[-2:] if dims is None else tuple(dims)
    if len(pair) != 2 or len(set(pair)) != 2 or not set(pair) <= set(a.dims):
        raise ValueError(f"dims must be two of the axes {a.dims}, got {pair}")
    rows, columns = (a.sizes[dim] for dim in pair)
    if rows != columns:
        raise np.linalg.LinAlgError(
            f"expected square matrices, got {rows} along {pair[0]} and {columns} along "
            f"{pair[1]}"
        )
    if cut := [dim for dim in pair if len(a.chunksizes.get(dim, ())) > 1]:
        whole = ", ".join(f"{dim!r}: -1" for dim in cut)
        raise ValueError(
            f"matrices are cut by chunks: a.chunk({{{whole}}}) leaves them whole"
        )
    return pair


def _new(a: xr.DataArray, along: str) -> str:
    """The name of an axis that is not there yet."""
    if along in a.dims or along in a.coords:
        raise ValueError(f"there is an axis or coordinate {along!r}: choose along=")
    return along


def _apply(
    name: str,
    a: xr.DataArray,
    arguments: tuple,
    pair: tuple,
    axes: list[list],
    options: dict,
) -> Any:
    """Results of bed's function, with these axes behind those of the batch."""
    if options.get("return_info"):
        axes = [*axes, []]
    kind: list[type] = []

    def function(x):
        found = getattr(_module_for(x), name)(x, *arguments, **options)
        kind.append(type(found))
        return found

    found = xr.apply_ufunc(
        function,
        a,
        input_core_dims=[pair],
        output_core_dims=axes,
        dask="allowed",
        keep_attrs=False,
    )
    if not issubclass(kind[0], tuple):
        return _in_order(found, a).rename(name)
    names = kind[0]._fields  # type: ignore[attr-defined]
    return kind[0](
        *(_in_order(x, a).rename(y) for x, y in zip(found, names, strict=True))
    )


def _module_for(x: Any) -> ModuleType:
    """What solves such an array: an array of Dask can only be where that is loaded."""
    if type(x).__module__.partition(".")[0] == "dask":
        from . import dask

        return dask
    return bed


def _in_order(found: xr.DataArray, a: xr.DataArray) -> xr.DataArray:
    """With its axes in the order that they have in `a`, if they are the same."""
    if set(found.dims) == set(a.dims):
        return found.transpose(*a.dims)
    return found
