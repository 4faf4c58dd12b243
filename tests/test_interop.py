"""Arrays of other libraries go in, come back, and are not copied on the way."""

import numpy as np
import pytest

import bed
from bed._dispatch import interop
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


@pytest.fixture
def jax_x64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def _to(library, a):
    return {"torch": torch.from_numpy, "jax": jax.numpy.asarray}[library](a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_same_library_same_bits(jax_x64, rng, library, dtype):
    a = random_hermitian(rng, (2, 3, 5, 5), dtype)
    there = _to(library, a)
    w, v, status = bed.eigh(there, "U", return_info=True)
    values = bed.eigvalsh(there, "U")
    for x in (w, v, status, values):
        assert type(x) is type(there)
    expected = bed.eigh(a, "U", return_info=True)
    assert_same_bits(tuple(np.asarray(x) for x in (w, v, status)), tuple(expected))
    assert_same_bits(np.asarray(values), bed.eigvalsh(a, "U"))


def test_torch_shares_memory_both_ways(rng):
    a = torch.from_numpy(random_hermitian(rng, (4, 3, 3), "f4"))
    received = interop.receive(a.transpose(1, 2)[::2])
    assert received.array.ctypes.data == a.data_ptr()
    out = received.empty((4, 3), np.dtype("f4"))
    opened = received.opened(out)
    assert received.give_back(out).data_ptr() == opened.ctypes.data
    for shape in ((3, 3), (2, 2, 3, 3), (4, 3, 3)):
        for x in bed.eigh(torch.zeros(shape), return_info=True):
            assert not x._is_view()


def test_jax_shares_memory_both_ways(rng):
    a = jax.numpy.asarray(random_hermitian(rng, (4, 3, 3), "f4"))
    received = interop.receive(a)
    assert received.array.ctypes.data == a.unsafe_buffer_pointer()
    for shape in ((4, 3), (4, 3, 3), (1,), (7, 5, 5)):
        out = received.empty(shape, np.dtype("f4"))
        (given_back,) = received.close((out,), ())
        assert given_back.unsafe_buffer_pointer() == out.ctypes.data


def test_numpy_input_is_not_copied(rng):
    a = random_hermitian(rng, (4, 3, 3), "f4")
    assert interop.receive(a[::-1, :, ::-1]).array.base is a


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_tensors(rng, name):
    a = random_hermitian(rng, (4, 5, 5), "f4")
    there = torch.from_numpy(a).to(getattr(torch, name))
    w, v = bed.eigh(there)
    assert w.dtype == v.dtype == torch.float32
    assert_eigh(there.float().numpy(), w.numpy(), v.numpy())
    there = jax.numpy.asarray(a, getattr(jax.numpy, name))
    w, v = bed.eigh(there)
    assert w.dtype == v.dtype == np.float32
    assert_eigh(np.asarray(there, "f4"), np.asarray(w), np.asarray(v))


def test_lazy_conjugates_and_negatives_are_resolved(rng):
    a = torch.from_numpy(random_hermitian(rng, (4, 5, 5), "c16"))
    for view in (a.conj(), a.mH, a.conj().imag + 0j):
        assert_eigh(view.resolve_conj().numpy(), *_numpy(bed.eigh(view)))
    negative = a.conj().imag  # a view with the negative bit
    assert negative.is_neg()
    full = negative.resolve_neg().numpy()
    assert_eigh(full, *_numpy(bed.eigh(negative)), uplo="L")


def _numpy(result):
    return tuple(x.numpy() for x in result)


def test_tensors_that_need_a_gradient(rng):
    a = torch.from_numpy(random_hermitian(rng, (4, 5, 5), "f8"))
    expected = bed.eigh(a)
    assert not any(x.requires_grad for x in expected)
    for x, y in zip(bed.eigh(a.requires_grad_()), expected, strict=True):
        assert x.requires_grad
        assert torch.equal(x, y)
    before = a.detach().clone()
    with torch.no_grad():
        for x in bed.eigh(a):
            assert not x.requires_grad
            x.zero_()
    assert torch.equal(a, before)


def test_tensors_that_are_not_dense_host_memory():
    with pytest.raises(TypeError, match=r"dense tensor.*shape \(3, 3\)"):
        bed.eigh(torch.eye(3).to_sparse())
    # One on a device without memory has a shape, and nothing that could be opened.
    for requires_grad in (False, True):
        a = torch.eye(3, device="meta", requires_grad=requires_grad)
        assert bed.eigh(a).eigenvectors.is_meta
        with pytest.raises(TypeError, match="on the CPU or a CUDA device, got meta"):
            interop.receive(a)


def test_traced_jax_arrays(rng):
    a = random_hermitian(rng, (4, 5, 5), "f4")
    assert_same_bits(tuple(map(np.asarray, jax.jit(bed.eigh)(a))), tuple(bed.eigh(a)))


def test_jax_keeps_its_own_precision_rule():
    w, v = bed.eigh(jax.numpy.eye(3, dtype="int32"))
    assert w.dtype == v.dtype == np.float32  # x64 is off: JAX has no float64 then
    np.testing.assert_array_equal(w, [1, 1, 1])


def test_any_array_with_dlpack(rng):
    strict = pytest.importorskip("array_api_strict")
    a = random_hermitian(rng, (4, 5, 5), "f8")
    w, v = bed.eigh(strict.asarray(a))
    assert type(w) is type(v) is type(strict.asarray(a))
    assert_eigh(a, np.from_dlpack(w), np.from_dlpack(v))


class Bare:
    """The DLPack methods in their form of 2023, and nothing else."""

    def __init__(self, a):
        self._a = a

    def __dlpack__(self, **keywords):
        return self._a.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._a.__dlpack_device__()


class BareOf2021(Bare):
    """Knows no keyword but the stream."""

    def __dlpack__(self, stream=None):
        return self._a.__dlpack__()


@pytest.mark.parametrize("producer", [Bare, BareOf2021])
def test_bare_dlpack_object_comes_back_as_numpy(rng, producer):
    a = random_hermitian(rng, (4, 5, 5), "f8")
    there = producer(a)
    assert np.shares_memory(interop.receive(there).array, a)
    assert_same_bits(tuple(bed.eigh(there)), tuple(bed.eigh(a)))


def test_read_only_memory_by_dlpack(rng):
    a = random_hermitian(rng, (4, 5, 5), "f8")
    a.flags.writeable = False
    assert_same_bits(tuple(bed.eigh(Bare(a))), tuple(bed.eigh(a)))


def test_dlpack_memory_that_bed_cannot_use():
    class OnAnotherDevice(Bare):
        def __dlpack_device__(self):
            return 8, 0  # kDLMetal

    with pytest.raises(TypeError, match=r"or a CUDA device, got .* device type 8"):
        bed.eigh(OnAnotherDevice(np.eye(3)))
    half = Bare(torch.eye(3, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match=r"cannot open test_interop\.Bare: "):
        bed.eigh(half)


def test_objects_that_are_no_arrays():
    with pytest.raises(TypeError, match="dtype object is not supported"):
        bed.eigh([[object(), 1], [1, 2]])
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(\)"):
        bed.eigh(None)
    with pytest.raises(np.linalg.LinAlgError, match=r"shape \(\)"):
        bed.eigh("matrix")


def test_device_memory_without_cupy(monkeypatch):
    class OnDevice:
        __cuda_array_interface__ = {}  # noqa: RUF012

    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(
        ImportError, match=r"need CuPy: pip install 'batched-ed\[cuda12\]'"
    ):
        bed.eigh(OnDevice())


def test_results_outlive_their_input(rng):
    import gc

    def solve():
        a = random_hermitian(rng, (2, 3, 3), "f8")
        return a.copy(), bed.eigh(torch.from_numpy(a))

    a, result = solve()
    gc.collect()
    assert_eigh(a, *_numpy(result))


def test_threads_of_torch_bound_those_that_work_on_tensors(rng, monkeypatch):
    from bed.engines import _threads

    def counted(*arguments):
        seen.append(_threads.thread_count())
        return _threads.for_blocks(*arguments)

    seen = []
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    monkeypatch.setattr("bed.engines.numba_cpu._tasks.for_blocks", counted)
    a = torch.from_numpy(random_hermitian(rng, (4000, 3, 3), "f8"))  # several tasks
    before = torch.get_num_threads()
    try:
        for threads in (1, 3, 8):
            torch.set_num_threads(threads)
            bed.eigvalsh(a)
            bed.eigvalsh(a.numpy())
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 4, 3, 4, 4, 4]
