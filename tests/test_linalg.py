"""bed.linalg in the place of an array library's own linalg extension."""

import inspect

import numpy as np
import pytest

import bed.linalg
from bed.testing.accuracy import PROMISE
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian

strict = pytest.importorskip("array_api_strict")
pytest.importorskip("hypothesis")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402


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


shapes = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 6)).flatmap(
    lambda s: st.sampled_from([(s[2],) * 2, (s[0], s[2], s[2]), (*s, s[2])])
)


@st.composite
def hermitian(draw):
    """Arrays of the strict namespace: any shape, dtype, scale, and many repeats."""
    shape, dtype = draw(shapes), np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    a = random_hermitian(rng, shape, dtype)
    if draw(st.booleans()):
        a = a.round()  # small integers: zeros, and eigenvalues that coincide
    exponent = draw(st.integers(-60, 60))
    return strict.asarray(a * dtype.type(0).real.dtype.type(2.0**exponent))


@given(hermitian())
@settings(max_examples=60, deadline=None)
def test_what_the_standard_asks_of_a_decomposition(x):
    """In functions of the standard alone, which the strict namespace sees to."""
    xp = x.__array_namespace__()
    result = bed.linalg.eigh(x)
    assert result._fields == ("eigenvalues", "eigenvectors")
    w, v = result
    n = x.shape[-1]
    assert w.shape == x.shape[:-1] and v.shape == x.shape
    assert xp.isdtype(w.dtype, "real floating") and v.dtype == x.dtype
    assert xp.finfo(w.dtype).eps == xp.finfo(x.dtype).eps
    assert w.device == v.device == x.device
    assert xp.all(xp.isfinite(w)) and xp.all(xp.isfinite(v))
    values = bed.linalg.eigvalsh(x)
    assert values.shape == w.shape and values.dtype == w.dtype
    if not w.size:
        return
    assert xp.all(w[..., 1:] >= w[..., :-1])
    complex_ = xp.isdtype(x.dtype, "complex floating")
    vh = xp.conj(v.mT) if complex_ else v.mT
    scale = xp.max(xp.abs(x))
    tolerance = 2 * PROMISE * n * xp.finfo(x.dtype).eps
    diagonal = xp.astype(w, x.dtype)[..., None, :]
    assert xp.max(xp.abs(x @ v - v * diagonal)) <= tolerance * n * scale
    assert xp.max(xp.abs((v * diagonal) @ vh - x)) <= tolerance * n * scale
    assert xp.max(xp.abs(vh @ v - xp.eye(n, dtype=x.dtype))) <= tolerance
    assert xp.max(xp.abs(values - w)) <= tolerance * scale
    trace = xp.real(xp.linalg.trace(x)) if complex_ else xp.linalg.trace(x)
    assert xp.max(xp.abs(xp.sum(w, axis=-1) - trace)) <= tolerance * n * scale


@given(hermitian(), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_stack_is_its_matrices(x, seed):
    """Indexed along the leading axes, or in another order of them."""
    w, v = (np.from_dlpack(y) for y in bed.linalg.eigh(x))
    a = np.from_dlpack(x)
    for index in np.ndindex(a.shape[:-2]):
        one = bed.linalg.eigh(x[(*index, ...)] if index else x)
        assert_same_bits(np.from_dlpack(one.eigenvalues), w[index])
        assert_same_bits(np.from_dlpack(one.eigenvectors), v[index])
    # The upper triangle is not read.
    junk = np.random.default_rng(seed).standard_normal(a.shape).astype(a.dtype)
    i, j = np.indices(a.shape[-2:])
    other = strict.asarray(np.where(i < j, junk, a))
    assert_same_bits(np.from_dlpack(bed.linalg.eigh(other).eigenvectors), v)


@pytest.mark.parametrize("device", strict.__array_namespace_info__().devices())
def test_results_are_on_the_device_of_the_input(rng, device):
    """The strict namespace has devices in name, none of which may be mixed."""
    x = strict.asarray(random_hermitian(rng, (3, 4, 4), "f4"), device=device)
    w, v = bed.linalg.eigh(x)
    assert w.device == v.device == bed.linalg.eigvalsh(x).device == device
    residual = x @ v - v * w[:, None, :]  # of arrays that are on one device
    assert strict.max(strict.abs(residual)) <= 1e-5


@pytest.mark.parametrize("version", ["2023.12", "2024.12"])
def test_versions_of_the_standard_and_optional_parts(rng, version):
    flags = {"api_version": version, "enabled_extensions": ()}
    flags |= {"boolean_indexing": False, "data_dependent_shapes": False}
    with strict.ArrayAPIStrictFlags(**flags):
        x = strict.asarray(a := random_hermitian(rng, (3, 4, 4), "f4"))
        result = bed.linalg.eigh(x)
        assert type(result.eigenvalues) is type(x)
        assert_eigh(a, *(np.from_dlpack(y) for y in result))
