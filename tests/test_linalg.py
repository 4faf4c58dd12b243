"""bed.linalg in the place of an array library's own linalg extension."""

import inspect

import numpy as np
import pytest

import bed.linalg
from checks import assert_eigh
from matrices import DTYPES, random_hermitian

strict = pytest.importorskip("array_api_strict")


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_signatures_are_those_of_the_standard(name):
    ours = inspect.signature(getattr(bed.linalg, name)).parameters
    theirs = inspect.signature(getattr(strict.linalg, name)).parameters
    assert [(p.name, p.kind) for p in ours.values()] == [
        (p.name, p.kind) for p in theirs.values()
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("leading", [(), (3,), (2, 0), (2, 3)])
def test_results_are_those_of_the_standard(rng, dtype, leading):
    a = random_hermitian(rng, (*leading, 5, 5), dtype)
    x = strict.asarray(a)
    result = bed.linalg.eigh(x)
    expected = strict.linalg.eigh(x)
    for ours, theirs in zip(result, expected, strict=True):
        assert type(ours) is type(theirs)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    w, v = np.from_dlpack(result.eigenvalues), np.from_dlpack(result.eigenvectors)
    assert_eigh(a, w, v)
    values = bed.linalg.eigvalsh(x)
    assert (values.shape, values.dtype) == (result[0].shape, result[0].dtype)
    assert_eigh(a, np.from_dlpack(values))


def test_options_are_refused():
    with pytest.raises(TypeError):
        bed.linalg.eigh(np.eye(2), "U")
    with pytest.raises(TypeError):
        bed.linalg.eigh(x=np.eye(2))
