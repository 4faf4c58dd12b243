"""Arrays whose axes have names: same bits, and coordinates stay where they belong."""

import numpy as np
import pytest

import bed

xr = pytest.importorskip("xarray", reason="needs xarray: pip install xarray")
import bed.xarray  # noqa: E402

ARGUMENTS = {"powm": (-0.5,), "clampm": (1, 2)}
LAST = "t", "s", "i", "j"


@pytest.fixture
def named(rng):
    """Matrices with rows i and columns j among other axes, and coordinates of all."""
    x = rng.standard_normal((4, 5, 3, 7))
    a = xr.DataArray(
        x @ x.swapaxes(-1, -2),
        dims=LAST,
        coords={
            "i": list("xyz"),
            "j": list("uvw"),
            "t": [0.5, 1, 2, 4],
            "place": ("s", list("abcde")),
            "of_row": (("i", "t"), np.ones((3, 4))),
            "of_column": ("j", [1, 2, 3]),
        },
        name="covariance",
        attrs={"units": "mV"},
    )
    return a.transpose("i", "t", "j", "s")


def chunked(a):
    pytest.importorskip("dask", reason="needs dask")
    return a.chunk({"t": 2, "s": 3})


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", bed.xarray.__all__)
def test_results_are_those_of_arrays(named, name, lazy):
    arguments = ARGUMENTS.get(name, ())
    given = chunked(named) if lazy else named
    function = getattr(bed.xarray, name)
    found = function(given, *arguments, dims=("i", "j"), return_info=True)
    expected = getattr(bed, name)(
        named.transpose(*LAST).values, *arguments, return_info=True
    )
    assert type(found) is type(expected)
    for each, x, y in zip(found._fields, found, expected, strict=True):
        assert (x.name, x.attrs, x.chunks is not None) == (each, {}, lazy)
        behind = [dim for dim in x.dims if dim not in ("t", "s")]
        x = x.compute().transpose("t", "s", *behind)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.values.tobytes() == y.tobytes()


def test_axes_and_coordinates(named):
    w, v, status = bed.xarray.eigh(named, dims=("i", "j"), return_info=True)
    assert w.dims == ("t", "s", "eigenvalue")
    assert v.dims == ("t", "s", "i", "eigenvalue")
    assert status.dims == ("t", "s")
    assert set(w.coords) == set(status.coords) == {"t", "place"}
    assert set(v.coords) == {"t", "place", "i", "of_row"}
    root = bed.xarray.sqrtm(named, dims=("i", "j"))
    assert (root.name, root.dims) == ("sqrtm", named.dims)
    assert root.coords.to_dataset().identical(named.coords.to_dataset())
    columns = v.drop_vars(["i", "of_row"]).rename(i="j")
    again = xr.dot(v, w, columns, dim="eigenvalue").transpose(*named.dims)
    np.testing.assert_allclose(again.values, named.values, rtol=0, atol=1e-13)


def test_rows_and_columns_are_told_apart(named):
    whole = named.copy()
    whole[{"i": 0, "j": 2}] = np.nan  # in the upper triangle
    status = bed.xarray.eigh(whole, dims=("i", "j"), return_info=True).status
    assert not status.any()
    status = bed.xarray.eigh(whole, dims=("j", "i"), return_info=True).status
    assert status.all()


def test_the_last_two_axes_by_default(named):
    a = named.transpose(*LAST)
    w = bed.xarray.eigvalsh(a, "U", along="mode")
    assert w.dims == ("t", "s", "mode")
    assert w.identical(bed.xarray.eigvalsh(named, "U", dims=("i", "j"), along="mode"))


def test_dask_is_lazy(named, monkeypatch):
    given, solved = chunked(named), []
    original = bed.eigvalsh

    def eigvalsh(a, *arguments, **options):
        solved.append(a.size)
        return original(a, *arguments, **options)

    monkeypatch.setattr(bed, "eigvalsh", eigvalsh)
    w = bed.xarray.eigvalsh(given, dims=("i", "j"), threads=2)
    assert not any(solved)
    assert w.chunksizes["t"] == given.chunksizes["t"]
    w.compute(scheduler="sync")
    assert sum(solved) == given.size


@pytest.mark.parametrize(
    "options, said",
    [
        ({"dims": ("i", "k")}, r"dims must be two of the axes .*, got \('i', 'k'\)"),
        ({"dims": ("i", "i")}, "dims must be two of the axes"),
        ({"dims": ("i",)}, "dims must be two of the axes"),
        ({"dims": ("t", "j")}, "square matrices, got 4 along t and 3 along j"),
        ({"dims": ("i", "j"), "along": "t"}, "there is an axis or coordinate 't'"),
        ({"dims": ("i", "j"), "along": "j"}, "there is an axis or coordinate 'j'"),
        ({"dims": ("i", "j"), "along": "place"}, "axis or coordinate 'place'"),
        ({"dims": ("i", "j"), "UPLO": "x"}, "UPLO must be"),
    ],
)
def test_what_does_not_fit_is_said(named, options, said):
    with pytest.raises(ValueError, match=said):
        bed.xarray.eigh(named, **options)


def test_other_objects_are_refused(named):
    for other in (named.values, named.to_dataset()):
        with pytest.raises(TypeError, match=r"expected an xarray.DataArray, got"):
            bed.xarray.eigh(other)


def test_matrices_that_are_cut(named):
    cut = chunked(named).chunk({"i": 2})
    with pytest.raises(ValueError, match=r"a.chunk\({'i': -1}\) leaves them whole"):
        bed.xarray.eigh(cut, dims=("i", "j"))
