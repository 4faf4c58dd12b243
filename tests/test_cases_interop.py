"""Faults that users reported of handing arrays over, as tests of bed.

Above each test are the number of the case, the threads, and what went wrong there. What
needs a GPU is skipped without one; scripts/gpu_acceptance.py runs it on one.
"""

import gc

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from dlpack_producer import Producer, bfloat16_bits

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

# Clock cycles that a producer on a GPU is late by: some hundred milliseconds.
LATE = 200_000_000


def _host(result):
    return tuple(np.asarray(x) for x in result)


@pytest.fixture
def cupy():
    """CuPy, where it finds a GPU that torch finds too."""
    cupy = pytest.importorskip("cupy", reason="needs a GPU, and CuPy to reach it")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device that torch finds")
    return cupy


# C55: numba/numba#4719, NVIDIA/numba-cuda#122, NVIDIA/numba-cuda#790. bfloat16 cannot
# cross the CUDA array interface, and was refused; DLPack knows it.
def test_bfloat16_tensors_and_what_they_were_lent_from(rng):
    a = random_hermitian(rng, (4, 5, 5), "f4")
    producer = Producer(bfloat16_bits(a), bfloat16=True)
    there = torch.from_dlpack(producer)
    assert there.dtype == torch.bfloat16
    w, v = bed.eigh(there)
    assert w.dtype == v.dtype == torch.float32
    assert_eigh(there.float().numpy(), w.numpy(), v.numpy())
    w, v = bed.eigh(jax.numpy.asarray(there.float().numpy(), "bfloat16"))
    assert w.dtype == v.dtype == np.float32
    assert_eigh(there.float().numpy(), *_host((w, v)))


@pytest.mark.gpu
def test_bfloat16_on_a_gpu(cupy):
    """C55, with the matrices of the report."""
    there = torch.eye(3, dtype=torch.bfloat16, device="cuda").expand(4, 3, 3)
    w, v = bed.eigh(there)
    assert w.dtype == v.dtype == torch.float32
    assert_eigh(there.float().cpu().numpy(), w.cpu().numpy(), v.cpu().numpy())


# C61: pytorch/pytorch#188355, pytorch/pytorch#195731, pytorch/pytorch#96632. Solvers
# waited for the device, to read whether they had converged: no graph could hold them.
@pytest.mark.gpu
def test_a_call_is_captured_into_a_cuda_graph(cupy, rng):
    a = random_hermitian(rng, (64, 8, 8), "f4")
    there = cupy.asarray(a)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        bed.eigh(there)  # compiles, and takes memory from the pool
        stream.synchronize()
        stream.begin_capture()
        w, v = bed.eigh(there)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert_eigh(a, w.get(), v.get())


# C62: jax-ml/jax#4196, jax-ml/jax#8082, p-zubieta/DLPack.jl#29. Strides were ignored
# where arrays were handed over, and slices and transposes were read as other numbers.
@pytest.mark.parametrize("library", ["torch", "dlpack"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_views_are_handed_over_like_copies(rng, library, dtype):
    x = random_hermitian(rng, (12, 5, 5), dtype)
    frame = np.zeros((24, 7, 9), dtype)
    frame[::2, 1:6, 2:7] = x
    views = [frame[::2, 1:6, 2:7], x.mT, np.asfortranarray(x)]
    views += [np.broadcast_to(x[:1], x.shape), x[::3].reshape(2, 2, 5, 5).mT]
    for view in views:
        copy = view.copy()
        lent = Producer(view) if library == "dlpack" else _torch_view(view)
        for uplo in "LU":
            result = _host(bed.eigh(lent, uplo, return_info=True))
            assert_same_bits(result, tuple(bed.eigh(copy, uplo, return_info=True)))
        assert_same_bits(np.ascontiguousarray(view), copy)


def _torch_view(view):
    """A tensor with the memory and the strides of an array, which may be read-only."""
    low, high = np.lib.array_utils.byte_bounds(view)
    memory = np.ctypeslib.as_array(
        (np.ctypeslib.ctypes.c_uint8 * (high - low)).from_address(low)
    )
    flat = torch.from_numpy(memory.view(view.dtype))
    start = view.__array_interface__["data"][0] - low
    strides = [s // view.itemsize for s in view.strides]
    return flat.as_strided(view.shape, strides, start // view.itemsize)


# C64: pytorch/pytorch#83069, pytorch/pytorch#82610, pytorch/pytorch#83158. Axes of
# length one have strides that mean nothing, and were taken at their word.
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 4), (3, 1, 1), (1, 1, 2, 2)])
def test_strides_of_axes_of_length_one_mean_nothing(rng, shape):
    a = random_hermitian(rng, shape, "f8")
    strides = [
        104 * (i + 1) if length == 1 else stride
        for i, (length, stride) in enumerate(zip(shape, a.strides, strict=True))
    ]
    odd = np.lib.stride_tricks.as_strided(a, shape, strides)
    expected = tuple(bed.eigh(a))
    there = torch.from_numpy(a).as_strided(shape, [s // 8 for s in strides])
    for lent in (odd, there, Producer(odd), torch.from_dlpack(Producer(odd))):
        assert_same_bits(_host(bed.eigh(lent)), expected)


# C65: pytorch/pytorch#18510, pytorch/pytorch#24947, pytorch/pytorch#31443. Without
# strides an array is in C order; consumers crashed, or refused it.
@pytest.mark.parametrize("dtype", DTYPES)
def test_null_strides_are_c_order(rng, dtype):
    a = random_hermitian(rng, (2, 3, 5, 5), dtype)
    expected = tuple(bed.eigh(a, "U"))
    assert_same_bits(tuple(bed.eigh(Producer(a, strides=False), "U")), expected)

    class Interface:
        __array_interface__ = a.__array_interface__ | {"strides": None}

    assert_same_bits(tuple(bed.eigh(Interface(), "U")), expected)


@pytest.mark.gpu
def test_null_strides_on_a_gpu(cupy, rng):
    """C65, of the CUDA array interface."""
    there = cupy.asarray(a := random_hermitian(rng, (3, 4, 4), "f8"))

    class Interface:
        __cuda_array_interface__ = there.__cuda_array_interface__ | {"strides": None}

    w, v = bed.eigh(Interface())
    assert_eigh(a, cupy.asnumpy(w), cupy.asnumpy(v))


# C67: mitsuba-renderer/drjit#198, mitsuba-renderer/drjit#211, dmlc/dlpack#57. Producer
# and consumer ran on streams that did not wait for each other.
@pytest.mark.gpu
def test_a_late_producer_on_another_stream_is_waited_for(cupy):
    stream = torch.cuda.Stream()
    bed.eigh(torch.eye(3, device="cuda"))  # compiles
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LATE)
        a = torch.eye(3, device="cuda").repeat(1000, 1, 1) * 7
        w, _ = bed.eigh(a)
        right = (w == 7).all()  # read on the caller's stream, at once
    stream.synchronize()
    assert right.item()


# C68: pytorch/pytorch#60892, cupy/cupy#6569, pfnet/pytorch-pfn-extras#744. A tensor on
# the second GPU was solved on the current one, or made it current.
@pytest.mark.gpu
def test_a_tensor_on_another_device_stays_there(cupy, rng):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    a = random_hermitian(rng, (9, 5, 5), "f4")
    there = torch.from_numpy(a).to("cuda:1")
    before = torch.cuda.current_device(), cupy.cuda.Device().id
    result = bed.eigh(there)
    assert all(x.device == there.device for x in result)
    assert (torch.cuda.current_device(), cupy.cuda.Device().id) == before
    assert_eigh(a, *(x.cpu().numpy() for x in result))


# C70: pytorch/pytorch#9260, pytorch/pytorch#9261, cupy/cupy#1445. The deleter of a
# capsule was not called, or was twice. (tests/test_leaks.py counts memory.)
@pytest.mark.parametrize("strides", [True, False])
def test_what_is_lent_is_returned_once(rng, strides):
    a = random_hermitian(rng, (2, 3, 3), "f8")
    producer = Producer(a, strides=strides)
    expected, kept = tuple(bed.eigh(a)), []
    for solve in (bed.eigh, bed.eigvalsh) * 50:
        kept.append(solve(producer))
        with pytest.raises(ValueError, match="driver="):
            solve(producer, driver="none")
    gc.collect()
    assert producer.lent == producer.returned >= 100
    a[...] = np.nan  # the results have their own memory
    assert_same_bits(tuple(kept[0]), expected)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "dlpack"])
def test_results_outlive_what_was_handed_over(rng, library):
    """C70: the consumer outlives the producer, and the arrays that share its memory."""
    expected = random_hermitian(rng, (50, 8, 8), "f4")

    def solve():
        a = expected.copy()
        wraps = {"torch": torch.from_numpy, "jax": jax.numpy.asarray}
        wraps |= {"numpy": np.asarray, "dlpack": Producer}
        return bed.eigh(wraps[library](a))

    results = [solve() for _ in range(20)]
    gc.collect()
    for w, v in results:
        assert_eigh(expected, *_host((w, v)))
    del w, v
    # Results do not share memory with each other, nor do eigenvalues and eigenvectors.
    addresses = {np.asarray(x).ctypes.data for result in results for x in result}
    assert len(addresses) == 40
