"""What a call writes and what it allocates."""

import cupy
import numpy as np

import bed

from . import _device as device
from ._cases import ALL_DTYPES, hermitian, kernels
from ._device import get, put, solve

# Bytes around every output, a multiple of the alignment that CuPy gives; and what they
# hold.
GUARD, PATTERN = 512, 0xA5
# CuPy gives memory out in units of this many bytes.
UNIT = 512


class Guarded:
    """A device array with guard bytes around it; it holds NaN, or −1 as an integer.

    `skew` moves it away from the alignment that CuPy gives.
    """

    def __init__(self, shape, dtype, skew=0):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.begin, self.end = GUARD + skew, GUARD + skew + size
        host = np.full(self.end + GUARD, PATTERN, np.uint8)
        host[self.begin : self.end] = 0xFF
        self.memory = put(host)
        self.array = self.memory[self.begin : self.end].view(dtype).reshape(shape)

    def intact(self) -> bool:
        """Whether the guard bytes still hold what they held."""
        host = get(self.memory)
        return bool(
            (host[: self.begin] == PATTERN).all()
            and (host[self.end :] == PATTERN).all()
        )


def guarded(run, part) -> None:
    """Outputs given by the caller: all of them written, nothing else."""
    for n, dtype, layout, vectors in kernels(run.smoke, values_too=True):
        what = f"n = {n}, {dtype}, vectors {vectors}"
        size = layout.matrices
        with part.attempt(what):
            a = hermitian(run.rng("guarded", dtype, n), 2 * size + 1, n, dtype)
            expected = solve(put(a), vectors=vectors)
            for batch in sorted({1, max(1, size - 1), size, size + 1, len(a)}):
                for skew in (0, 1):
                    into_guarded(
                        part,
                        a[:batch],
                        tuple(x[:batch] for x in expected),
                        skew,
                        f"{what}, batch {batch}, {skew} elements off",
                    )


def into_guarded(part, a, expected, skew, what) -> None:
    """One call with outputs of the shapes and dtypes of what is expected."""
    buffers = [Guarded(x.shape, x.dtype, skew * x.itemsize) for x in expected]
    out = [x.array for x in buffers]
    vectors = len(out) == 3
    if not vectors:
        out.insert(1, None)
    device.engine()(put(a), eigenvectors=vectors, out=tuple(out))
    part.same(get(tuple(x.array for x in buffers)), expected, what)
    intact = all(x.intact() for x in buffers)
    part.expect(intact, f"written beyond an output: {what}")


def small(run, part) -> None:
    """Empty batches, n = 0, n = 1, one matrix without a batch axis."""
    for dtype in ALL_DTYPES:
        for shape in ((0, 3, 3), (2, 0, 40, 40), (5, 0, 0), (0, 0), (0, 1, 1)):
            with part.attempt(f"shape {shape}, {dtype}"):
                nothing(part, shape, dtype)
        with part.attempt(f"n = 1, {dtype}"):
            a = hermitian(run.rng("small", dtype), 300, 1, dtype)
            w, v, status = solve(put(a))
            part.same(w, a[:, 0].real.copy(), f"n = 1, {dtype}: values")
            part.same(v, np.ones_like(a), f"n = 1, {dtype}: vectors")
            part.expect((status == 0).all(), f"n = 1, {dtype}: a status is not 0")
        for n in (2, 8, 20):
            with part.attempt(f"n = {n}, {dtype}"):
                a = hermitian(run.rng("small", dtype, n), 1, n, dtype)
                alone, batch = solve(put(a[0])), solve(put(a))
                part.same(alone, tuple(x[0] for x in batch), f"one matrix, n = {n}")


def nothing(part, shape, dtype) -> None:
    """An array without elements."""
    w, v, status = solve(put(np.empty(shape, dtype)))
    found = (w.shape, w.dtype, v.shape, v.dtype, status.shape, status.dtype)
    real = dtype.type(0).real.dtype
    wanted = (shape[:-1], real, shape, dtype, shape[:-2], np.dtype("i4"))
    part.expect(found == wanted, f"{shape}: {found} instead of {wanted}")
    part.expect((status == 0).all(), f"{shape}: status {status}")


def memory(run, part) -> None:
    """Peak memory of a call is that of its outputs: no workspace."""
    part.data["bytes"] = []
    for dtype in ALL_DTYPES:
        for n in (2, 6, 16, 32, 64):
            batch = 64 if run.smoke else 1024
            a = put(hermitian(run.rng("memory", dtype, n), batch, n, dtype))
            for call in (bed.eigh, bed.eigvalsh):
                what = f"{call.__name__}, n = {n}, {dtype}, batch {batch}"
                with part.attempt(what):
                    peak, outputs = peak_of(call, a)
                    text = f"{what}: {peak} bytes, {outputs} expected"
                    part.expect(peak <= outputs, text)
                    part.data["bytes"].append({"call": what, "peak": peak})


def peak_of(call, a) -> tuple[int, int]:
    """Bytes that a call takes from a fresh pool, and those of its outputs."""
    call(a)  # whatever the first call needs
    device.synchronize()
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        result = call(a, return_info=True)
        peak = pool.total_bytes()
        outputs = sum(-(-x.nbytes // UNIT) * UNIT for x in result)
        del result
        device.synchronize()
    return peak, outputs
