"""The few things that the parts do on a GPU besides calling bed.

Kernels of their own instead of CuPy's array operations, which CuPy would compile one by
one at their first use.
"""

import cupy
import numpy as np

import bed
from bed import engines
from bed.testing.clock import back_to_back, on_the_host

SOURCE = r"""
extern "C" __global__ void repeat(const unsigned* base, unsigned* out, long long words,
                                  long long period) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < words;
       i += step)
    out[i] = base[i % period];
}

// Words of x that differ from the endless repetition of base.
extern "C" __global__ void count_differences(const unsigned* x, const unsigned* base,
                                             long long words, long long period,
                                             unsigned long long* count) {
  const long long step = (long long)gridDim.x * blockDim.x;
  unsigned long long found = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < words;
       i += step)
    found += x[i] != base[i % period];
  if (found) atomicAdd(count, found);
}

// A producer that is late: waits for a number of clock cycles, then copies.
extern "C" __global__ void delayed_copy(const unsigned* from, unsigned* to,
                                        long long words, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  for (long long i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}
"""
BLOCKS, THREADS = 1024, 256

_functions: dict = {}


def _launch(name, blocks, *arguments):
    if not _functions:
        module = cupy.RawModule(code=SOURCE)
        for each in ("repeat", "count_differences", "delayed_copy"):
            _functions[each] = module.get_function(each)
    _functions[name]((blocks,), (THREADS,), arguments)


def _pointer(array):
    return np.uintp(array.data.ptr)


def _words(array):
    return np.int64(array.nbytes // 4)


def put(a: np.ndarray):
    """A contiguous copy of a host array on the device."""
    return cupy.asarray(np.ascontiguousarray(a))


def get(x):
    """Results as host arrays; waits for the current stream."""
    if isinstance(x, tuple):
        return tuple(None if each is None else cupy.asnumpy(each) for each in x)
    return cupy.asnumpy(x)


def solve(a, uplo="L", *, vectors=True):
    """Host results of bed for a device array: values, vectors if any, status."""
    if vectors:
        return get(tuple(bed.eigh(a, uplo, return_info=True)))
    return get(tuple(bed.eigvalsh(a, uplo, return_info=True)))


def engine():
    """The fused engine's `eigh`."""
    return engines.get("raw_cuda").load()


def synchronize() -> None:
    """Wait for the device."""
    cupy.cuda.Device().synchronize()


def release() -> None:
    """Give the memory that CuPy keeps back to the device."""
    synchronize()
    cupy.get_default_memory_pool().free_all_blocks()


def free_bytes() -> int:
    """Memory of the device that nobody uses."""
    release()
    return cupy.cuda.runtime.memGetInfo()[0]


def repeated(base: np.ndarray, batch: int):
    """A device array of `batch` matrices that repeats the matrices of a host array."""
    there = put(base)
    out = cupy.empty((batch, *base.shape[1:]), base.dtype)
    _launch(
        "repeat", BLOCKS, _pointer(there), _pointer(out), _words(out), _words(there)
    )
    return out


def differences(x, base: np.ndarray) -> int:
    """32-bit words of a device array that differ from a host array, repeated."""
    there, count = put(base), put(np.zeros(1, np.uint64))
    _launch(
        "count_differences",
        BLOCKS,
        _pointer(x),
        _pointer(there),
        _words(x),
        _words(there),
        _pointer(count),
    )
    return int(get(count)[0])


def delayed_copy(source, target, cycles: int) -> None:
    """Queue a copy between device arrays that starts after a number of clock cycles."""
    _launch(
        "delayed_copy",
        1,
        _pointer(source),
        _pointer(target),
        _words(target),
        np.int64(cycles),
    )


def timed(call, *, wait=None) -> tuple[float, object]:
    """Milliseconds of a call among back-to-back calls, and the result of the last.

    Parameters
    ----------
    wait : callable, optional
        ``wait(result)`` waits for a result of a library that does not work on the
        current stream; the host's clock measures then. By default CUDA events measure.
    """
    result = call()
    (wait or (lambda _: synchronize()))(result)

    def several(count):
        nonlocal result
        for _ in range(count):
            result = None  # its memory is free for the next call
            result = call()
        if wait:
            wait(result)

    seconds = back_to_back(several, on_the_host if wait else _between_events)
    return seconds * 1e3, result


def _between_events(several, count) -> float:
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    several(count)
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3
