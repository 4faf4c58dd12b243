"""Matrices of any sizes: each as if it were alone, in the order they came."""

import numpy as np
import pytest

import bed
from bed.testing.matrices import random_hermitian

KINDS = [(3, "f4"), (2, "f8"), (3, "f8"), (1, "f4"), (3, "f4"), (5, "c16"), (2, "f8")]


@pytest.fixture
def matrices(rng):
    return [random_hermitian(rng, (1, n, n), np.dtype(t))[0] for n, t in KINDS]


def assert_equal(found, expected):
    assert type(found) is type(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize(
    "options",
    [{}, {"UPLO": "U", "return_info": True}, {"order": "descending", "signs": "max"}],
)
def test_each_as_if_alone(matrices, options):
    found = bed.eigh_list(iter(matrices), **options)
    assert len(found) == len(matrices)
    for of_one, a in zip(found, matrices, strict=True):
        assert_equal(of_one, bed.eigh(a, **options))


def test_one_call_for_each_kind(matrices, monkeypatch):
    calls = []

    def eigh(a, *arguments, **options):
        calls.append(a.shape)
        return bed.eigh(a, *arguments, **options)

    monkeypatch.setattr("bed._eigh_list.eigh", eigh)
    bed.eigh_list(matrices)
    assert calls == [(2, 3, 3), (2, 2, 2), (1, 3, 3), (1, 1, 1), (1, 5, 5)]


def test_other_kinds_of_lists(matrices):
    assert bed.eigh_list([]) == []
    a = np.stack([matrices[0], matrices[4]])
    for of_one, expected in zip(bed.eigh_list(a), a, strict=True):
        assert_equal(of_one, bed.eigh(expected))
    nested = bed.eigh_list([[[2.0, 0], [0, 1]], [[3]], np.empty((0, 0))])
    assert [w.tolist() for w, _ in nested] == [[1, 2], [3], []]


def test_gradients_of_torch(matrices):
    torch = pytest.importorskip("torch")
    leaves = [torch.tensor(a, requires_grad=True) for a in matrices]
    singles = [torch.tensor(a, requires_grad=True) for a in matrices]
    for found, of_one in zip(bed.eigh_list(leaves), singles, strict=True):
        for w, v in (found, bed.eigh(of_one)):
            (w.prod() + (v[0].abs() ** 3).sum() * w[-1]).backward(retain_graph=True)
    for a, b in zip(leaves, singles, strict=True):
        assert a.grad.numpy().tobytes() == b.grad.numpy().tobytes()


def test_the_gradient_holds_no_batch_for_each_matrix():
    torch = pytest.importorskip("torch")
    leaves = [torch.eye(2, requires_grad=True) for _ in range(50)]
    loss = sum(w.sum() for w, _ in bed.eigh_list(leaves))
    seen, queue = set(), [loss.grad_fn]
    while queue:
        node = queue.pop()
        if node is not None and node not in seen:
            seen.add(node)
            queue += [each for each, _ in node.next_functions]
    names = [type(node).__name__ for node in seen]
    assert names.count("UnbindBackward0") == 1
    assert not [name for name in names if name.startswith("Select")]


def test_jax_traces_it(matrices):
    jax = pytest.importorskip("jax")
    matrices = [a for a in matrices if a.dtype == "f4"]

    def loss(matrices):
        return sum((w**3).sum() for w, _ in bed.eigh_list(matrices))

    for f in (jax.grad(loss), jax.jit(jax.grad(loss))):
        for a, found in zip(matrices, f(matrices), strict=True):
            np.testing.assert_allclose(found, 3 * a @ a, rtol=2e-5, atol=1e-4)


def test_failures_are_named(matrices):
    matrices[4][0, 0] = np.nan
    matrices[6][1, 1] = np.inf
    assert [int(x.status) for x in bed.eigh_list(matrices, return_info=True)] == [
        *(0, 0, 0, 0, 1, 0, 1)
    ]
    with pytest.raises(np.linalg.LinAlgError) as failure:
        bed.eigh_list(matrices, check=True)
    said = "2 of 7 matrices failed: matrix 4: the triangle that is read holds NaN"
    assert str(failure.value).startswith(said)
    assert "; matrix 6: the triangle" in str(failure.value)
    matrices[2][0, 1] += 1
    with pytest.raises(np.linalg.LinAlgError, match=r"3 of 7 .* matrix 2: .*Hermitian"):
        bed.eigh_list(matrices, check="hermitian")
    with pytest.raises(np.linalg.LinAlgError, match=r"; and 2 more$"):
        bed.eigh_list([np.full((2, 2), np.nan)] * 12, check=True)


def test_errors_of_torch_are_errors_of_torch(matrices):
    torch = pytest.importorskip("torch")
    nan = [torch.eye(2), torch.full((3, 3), torch.nan)]
    with pytest.raises(torch.linalg.LinAlgError, match=r"1 of 2 .* matrix 1: the tri"):
        bed.eigh_list(nan, check=True)


@pytest.mark.parametrize(
    "wrong, error, said",
    [
        (np.ones(3), np.linalg.LinAlgError, r"matrix 1 is not square: .*\(3,\)"),
        (np.ones((1, 2, 2)), np.linalg.LinAlgError, "matrix 1 is not square"),
        (np.ones((2, 3)), np.linalg.LinAlgError, "matrix 1 is not square"),
        ([[1], [2, 3]], ValueError, "matrix 1: "),
        (np.eye(2).astype("g"), TypeError, "matrix 1: dtype .* is not supported"),
        (np.ma.masked_equal(np.eye(2), 1), TypeError, "matrix 1: .*masked"),
    ],
)
def test_what_is_no_matrix_is_named(wrong, error, said):
    with pytest.raises(error, match=said):
        bed.eigh_list([np.eye(2), wrong])


def test_one_library(rng):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="matrix 1 is of torch, and matrix 0 of numpy"):
        bed.eigh_list([np.eye(2), torch.eye(2)])
    with pytest.raises(TypeError, match="solves no pairs"):
        bed.eigh_list([np.eye(2)], b=np.eye(2))
