"""A call like one before takes a shorter way, to the same result in every respect."""

import threading

import numpy as np
import pytest

import bed
from bed._dispatch import again, solve
from bed.engines.numba_cpu import prepared
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian

SHAPES = [(1, 1), (2, 2), (5, 5), (3, 4, 4), (1, 6, 6), (40, 3, 3)]


@pytest.fixture(autouse=True)
def _as_in_a_new_process():
    again.forget()
    yield
    again.forget()


@pytest.fixture
def the_long_way(monkeypatch):
    """Shapes of the arrays that went all the way."""
    shapes, solve_ = [], solve.eigh_received

    def noted(received, *rest):
        shapes.append(received.array.shape)
        return solve_(received, *rest)

    monkeypatch.setattr(solve, "eigh_received", noted)
    return shapes


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("uplo", ["L", "U", "l", "u"])
def test_results_are_the_same(rng, the_long_way, shape, dtype, uplo):
    a = random_hermitian(rng, shape, dtype)
    upper = uplo.upper() == "U"
    a = np.triu(a) if upper else np.tril(a)
    before = a.copy()
    first = bed.eigh(a, uplo, return_info=True)
    second = bed.eigh(a, uplo, return_info=True)
    third = bed.eigh(a, uplo, check=True, return_info=True)
    assert_same_bits(tuple(second), tuple(first))
    assert_same_bits(tuple(third), tuple(first))
    for x, y in zip(first, second, strict=True):
        assert (type(x), x.shape, x.dtype) == (type(y), y.shape, y.dtype)
        assert x.flags.owndata == y.flags.owndata
        assert not np.shares_memory(x, y)
    assert_same_bits(bed.eigvalsh(a, uplo), bed.eigvalsh(a, uplo))
    assert_same_bits(bed.eigvalsh(a, uplo), first.eigenvalues)
    assert a.tobytes() == before.tobytes()
    # Blocks of two widths are the engine's to combine, each time.
    twice = len(shape) == 3 and prepared(*shape[:2], np.dtype(dtype), "L", True) is None
    assert the_long_way == [shape] * (6 if twice else 2)


def test_memory_that_is_laid_out_otherwise(rng, the_long_way):
    a = random_hermitian(rng, (3, 4, 4), "f8")
    w, v = bed.eigh(a)
    spread = np.repeat(a, 2, axis=-1)[..., ::2]
    unaligned = np.frombuffer(b"x" + a.tobytes(), "u1")[1:].view("f8").reshape(a.shape)
    read_only = a.view()
    read_only.flags.writeable = False
    the_long_way.clear()
    for other in (spread, np.asfortranarray(a), unaligned, read_only, a[::-1]):
        expected = (w[::-1], v[::-1]) if other.strides[0] < 0 else (w, v)
        for _ in range(2):
            assert_same_bits(tuple(bed.eigh(other)), expected)
    assert len(the_long_way) == 2 * 4  # all but the one that is read-only


@pytest.mark.parametrize("dtype", ["f2", "i4", "?", ">f8", ">c8"])
def test_what_is_converted_goes_all_the_way(rng, the_long_way, dtype):
    a = np.eye(3).astype(dtype)
    first, second = (bed.eigh(a) for _ in range(2))
    assert_same_bits(tuple(second), tuple(first))
    assert second.eigenvalues.dtype.isnative
    assert len(the_long_way) == 2


@pytest.mark.parametrize("a", [np.ones((0, 3, 3)), np.ones((0, 0)), np.ones((2, 0, 0))])
def test_nothing_to_solve(a):
    for _ in range(3):
        assert bed.eigvalsh(a).shape == a.shape[:-1]


def test_subclasses_stay_what_they_are(rng):
    class Matrix(np.ndarray):
        pass

    a = random_hermitian(rng, (3, 3), "f8")
    bed.eigh(a)
    masked = np.ma.masked_array(a, mask=np.eye(3, dtype=bool))
    for _ in range(2):
        assert type(bed.eigh(a.view(Matrix)).eigenvectors) is Matrix
        with pytest.raises(TypeError, match="masked"):
            bed.eigh(masked)


@pytest.mark.parametrize("wrong", [["L"], {"L": 1}, b"L", None, np.array("L"), "A"])
def test_options_are_refused_as_before(wrong):
    bed.eigh(np.eye(2))
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U'"):
        bed.eigh(np.eye(2), wrong)
    with pytest.raises(ValueError, match="check must be False, True or 'hermitian'"):
        bed.eigh(np.eye(2), check=wrong)
    with pytest.raises(ValueError, match="is unknown"):
        bed.eigh(np.eye(2), driver=wrong)


def test_failures_are_told_in_the_same_words(rng):
    a = random_hermitian(rng, (4, 3, 3), "f8")
    bad = a.copy()
    bad[2, 0, 0] = np.nan
    messages = []
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError) as error:
            bed.eigh(bad, check=True)
        messages.append(str(error.value))
        w, _, status = bed.eigh(bad, return_info=True)
        assert status.tolist() == [0, 0, 1, 0]
        assert np.isnan(w[2]).all()
        assert_same_bits(w[[0, 1, 3]], bed.eigvalsh(a)[[0, 1, 3]])
    assert len(set(messages)) == 1
    with pytest.raises(np.linalg.LinAlgError, match="not Hermitian"):
        bed.eigh(np.triu(np.ones((4, 3, 3))), check="hermitian")


def test_a_matrix_alone_that_fails(rng):
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="1 of 1 matrices failed: the"):
            bed.eigvalsh(np.full((2, 2), np.inf), check=True)


def test_a_driver_is_obeyed(rng, the_long_way):
    a = random_hermitian(rng, (3, 3), "f8")
    for _ in range(2):
        bed.eigh(a)
        bed.eigh(a, driver="lapack")
    assert len(the_long_way) == 3


def test_what_is_remembered_is_bounded(rng, monkeypatch):
    monkeypatch.setattr(again, "MOST", 3)
    for batch in range(1, 9):
        a = random_hermitian(rng, (batch, 2, 2), "f8")
        for _ in range(2):
            assert_eigh(a, *bed.eigh(a))
        assert len(again._plans) <= 3


def test_from_several_threads(rng):
    arrays = [random_hermitian(rng, shape, "f8") for shape in SHAPES]
    expected = [bed.eigh(a) for a in arrays]
    again.forget()
    wrong = []

    def work():
        for _ in range(200):
            for a, result in zip(arrays, expected, strict=True):
                if bed.eigh(a).eigenvectors.tobytes() != result.eigenvectors.tobytes():
                    wrong.append(a.shape)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["float32", "complex128", "bfloat16"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)], ids=str)
def test_tensors(rng, the_long_way, shape, name):
    torch = pytest.importorskip("torch")
    kind = "c16" if name == "complex128" else "f4"
    a = torch.from_numpy(random_hermitian(rng, shape, kind)).to(getattr(torch, name))
    first = bed.eigh(a, return_info=True)
    second = bed.eigh(a, return_info=True)
    for x, y in zip(first, second, strict=True):
        assert type(x) is torch.Tensor
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert torch.equal(x, y)
        assert x.data_ptr() != y.data_ptr()
        assert not y._is_view()
    assert torch.equal(bed.eigvalsh(a), bed.eigvalsh(a))
    assert len(the_long_way) == 2
    bad = a.clone()
    bad[..., 0, 0] = torch.inf
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError):
            bed.eigh(bad, check=True)
    followed = a.detach().clone().requires_grad_()
    assert bed.eigvalsh(followed).requires_grad
