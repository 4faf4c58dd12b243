"""Ten thousand hand-offs of every kind leave the memory as it was.

Four things are looked at: what Python's allocators hold (`tracemalloc`; NumPy's arrays
are in it), what the C library's hold (tensors of torch and JAX are in it), the resident
memory of the process, and how many objects Python's collector knows. A leak grows in
every round of calls, where a cache fills once and an allocator breathes: the smallest
growth of all rounds is what counts.
"""

import ctypes
import gc
import mmap
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import bed
from bed.testing.matrices import random_hermitian
from dlpack_producer import Producer

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

STATM = Path("/proc/self/statm")
LIBC = ctypes.CDLL(None)
pytestmark = pytest.mark.skipif(
    not (STATM.exists() and hasattr(LIBC, "mallinfo2")),
    reason=f"memory in use is read from {STATM} and from glibc's mallinfo2",
)

WARM_UP, ROUNDS = 400, 5
CALLS = 2000  # in a round
# Growth allowed for every call. The smallest object has 16 bytes, and a list that keeps
# it 8 more; the smallest result here, eigenvalues in float32, has 64, and the vectors
# have 256. Resident memory moves by whole pages, a dozen in a short round.
ALLOWED = {"traced": 12, "allocated": 24, "resident": 200, "objects": 0.5}


class _Mallinfo2(ctypes.Structure):
    """Of glibc, malloc.h; `uordblks` and `hblkhd` are bytes in use."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _numpy(a):
    return lambda: bed.eigh(a)


def _dlpack(a):
    producer = Producer(a, strides=False)
    return lambda: bed.eigh(producer)


def _torch(a):
    x = torch.from_numpy(a)
    return lambda: bed.eigh(x)


def _torch_backward(a):
    x = torch.from_numpy(a).requires_grad_()

    def call():
        w, v = bed.eigh(x)
        return torch.autograd.grad((w.sum() + (v**2).sum()), x)

    return call


def _jax(a):
    x = jax.numpy.asarray(a)
    return lambda: bed.eigh(x)


def _jax_jit(a):
    x, solve = jax.numpy.asarray(a), jax.jit(bed.eigh)
    return lambda: jax.block_until_ready(solve(x))


# How arrays are handed over.
KINDS = {
    "numpy": _numpy,
    "dlpack": _dlpack,
    "torch": _torch,
    "torch, backward": _torch_backward,
    "jax": _jax,
    "jax, jit": _jax_jit,
}


@pytest.fixture(autouse=True)
def _tracing():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture
def a(rng):
    return random_hermitian(rng, (4, 4, 4), "f4")


def _held():
    """What is in use now, in the order of `ALLOWED`."""
    gc.collect()
    malloc = LIBC.mallinfo2
    malloc.restype = _Mallinfo2
    allocated = malloc()
    return (
        tracemalloc.get_traced_memory()[0],
        allocated.uordblks + allocated.hblkhd,
        int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        len(gc.get_objects()),
    )


def _growth(call, calls=CALLS, rounds=ROUNDS):
    """Growth per call of what is in use, the smallest of all rounds."""
    for _ in range(WARM_UP):
        call()
    held = [_held()]
    for _ in range(rounds):
        for _ in range(calls):
            call()
        held.append(_held())
    smallest = np.diff(held, axis=0).min(axis=0) / calls
    return dict(zip(ALLOWED, smallest.tolist(), strict=True))


def _too_much(growth):
    return {name for name, allowed in ALLOWED.items() if not growth[name] < allowed}


SLOW_KINDS = "torch, backward", "jax", "jax, jit"


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW_KINDS else [])
        for kind in KINDS
    ],
)
def test_nothing_is_left_behind(a, kind):
    growth = _growth(KINDS[kind](a))
    assert not _too_much(growth), growth


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_kept_would_be_seen(a, kind):
    """The smaller of the two arrays, every time."""
    make = KINDS[kind]
    kept, call = [], make(a)
    assert _too_much(_growth(lambda: kept.append(call()[0]), 200, 2))


def _lose_memory():
    LIBC.malloc(ctypes.c_size_t(64))


def _page():
    """Memory that the C library does not give out."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(b"x")
    return page


# What each of the numbers sees, lost once a call.
LOSSES = {
    "traced": lambda kept: kept.append(object()),
    "allocated": lambda kept: _lose_memory(),
    "resident": lambda kept: kept.append(_page()),
    "objects": lambda kept: kept.append([]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_the_smallest_loss_would_be_seen(a, name):
    kept, call = [], _numpy(a)

    def lose():
        call()
        LOSSES[name](kept)

    assert name in _too_much(_growth(lose, 200, 2))
