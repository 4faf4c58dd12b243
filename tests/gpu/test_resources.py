"""What a call takes and keeps of a device, and what it leaves as it was.

The numbers in brackets are those of reported faults in tests/test_cases_interop.py.
"""

import gc

import numpy as np
import pytest
from test_handoff import Interface

import bed
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from drivers import fetch, put
from kernels import FUSED, split_layouts

# CuPy gives memory out in units of this many bytes.
UNIT = 512
CALLS = 10_000


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 6, 16, 32, 64])
def test_peak_memory_is_that_of_the_outputs(rng, cupy, n, dtype):
    """And what several launches share, where eigenvectors take them."""
    several = split_layouts.chosen(n, np.dtype(dtype))
    a = put(random_hermitian(rng, (1024, n, n), dtype), FUSED)
    for call in (bed.eigh, bed.eigvalsh):
        call(a)  # whatever the first call needs
        cupy.cuda.Device().synchronize()
        pool = cupy.cuda.MemoryPool()
        with cupy.cuda.using_allocator(pool.malloc):
            result = call(a, return_info=True)
            outputs = sum(-(-x.nbytes // UNIT) * UNIT for x in result)
            shared = split_layouts.SCRATCH if several and call is bed.eigh else 0
            assert pool.total_bytes() <= outputs + shared
            del result
            cupy.cuda.Device().synchronize()


@pytest.mark.parametrize("kind", ["CuPy", "interface", "torch"])
def test_ten_thousand_hand_offs_are_not_kept(rng, cupy, kind, request):
    """(C70)"""
    a = random_hermitian(rng, (4, 4, 4), "f4")
    there = put(a, FUSED)
    if kind == "torch":
        device = request.getfixturevalue("torch_device")
        import torch

        there = torch.from_numpy(a).to(device)

    def held():
        """Bytes that arrays of CuPy and torch occupy."""
        cupy.cuda.Device().synchronize()
        gc.collect()
        used = cupy.get_default_memory_pool().used_bytes()
        on_gpu = kind == "torch" and device == "cuda"
        return used + (torch.cuda.memory_allocated() if on_gpu else 0)

    before = held()
    for _ in range(CALLS):
        bed.eigh(Interface(there) if kind == "interface" else there)
    assert held() <= before


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_second_device_is_used_where_the_array_is(rng, cupy, dtype):
    """Though another device is the current one (C68)."""
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one device alone")
    a = random_hermitian(rng, (9, 16, 16), dtype)
    with cupy.cuda.Device(1):
        arrays = [put(a, FUSED)]
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        arrays.append(torch.as_tensor(a, device="cuda:1"))
    for there in arrays:
        before = cupy.cuda.Device().id
        result = bed.eigh(there)
        assert all(x.device == there.device for x in result)
        assert cupy.cuda.Device().id == before
        with cupy.cuda.Device(1):
            cupy.cuda.Device(1).synchronize()
            host = (x.cpu().numpy() if hasattr(x, "cpu") else fetch(x) for x in result)
            assert_eigh(a, *host)


KINDS = [("f4", 4), ("f4", 16), ("f4", 40), ("f8", 24), ("c8", 7), ("c16", 64)]


@pytest.mark.parametrize("dtype, n", KINDS)
def test_device_stream_and_input_are_left_as_they_were(rng, cupy, dtype, n):
    a = random_hermitian(rng, (100, n, n), dtype)
    there = put(a, FUSED)
    cupy.cuda.Device().synchronize()

    def current():
        return cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr

    for context in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with context:
            before = current()
            result = bed.eigh(there), bed.eigvalsh(there, "U")
            assert current() == before
            assert result[0].eigenvalues.device.id == there.device.id
            context.synchronize()
    assert_same_bits(np.ascontiguousarray(fetch(there)), a)
