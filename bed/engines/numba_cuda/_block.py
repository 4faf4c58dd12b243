"""What the threads of a block do together; every function is called by all of them.

A block has `width` × GROUPS threads. Thread (x, y) takes every `width`-th column of a
matrix from x on, so that neighbours read neighbouring words, and every GROUPS-th row,
or every GROUPS-th piece of rows, from y on.

Matrices are flat, with `pitch` elements from one row to the next, so that the same code
serves global and shared memory. Sums have an order that depends on their length alone.
"""

from math import frexp, isfinite, ldexp

import numpy as np
from numba import cuda

from ._compile import device

# Largest matrix: the length of the vectors that kernels hold in shared memory.
MAX_N = 128
# The same in real numbers.
MAX_COLUMNS = 2 * MAX_N
GROUPS = 2
# Threads of the largest block.
MAX_THREADS = MAX_N * GROUPS
# Terms that are added up before they join a longer sum: the error of n terms grows with
# n/PIECE + PIECE. Equal terms, as in a matrix of ones, round the same way every time,
# and a plain running sum would lose n/2 units in the last place.
PIECE = 8


@device
def thread_index():
    """Number of a thread in its block."""
    return cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x


@device
def thread_count():
    """Threads of a block."""
    return cuda.blockDim.x * cuda.blockDim.y


@device
def any_thread(condition):
    """Whether a condition holds for some thread; waits for all."""
    return cuda.syncthreads_or(np.int32(1) if condition else np.int32(0)) != 0


@device
def total(terms, start, stop, pieces, zero):
    """Σ terms[i] over start ≤ i < stop, for every thread.

    Parameters
    ----------
    terms : shared
        Written, and waited for.
    pieces : (PIECE,) shared
        Scratch.
    """
    for p in range(thread_index(), PIECE, thread_count()):
        piece = zero
        for i in range(start + p, stop, PIECE):
            piece += terms[i]
        pieces[p] = piece
    cuda.syncthreads()
    result = zero
    for p in range(PIECE):
        result += pieces[p]
    return result


@device
def largest(mine, found):
    """Largest of the numbers that the threads bring, for every thread.

    Parameters
    ----------
    mine : float
        Not NaN.
    found : (threads,) shared
        Scratch.
    """
    found[thread_index()] = mine
    cuda.syncthreads()
    for t in range(thread_count()):
        mine = max(mine, found[t])
    return mine


@device
def combine_rows(m, pitch, v, start, n, partial, zero):
    """partial[g, j] = Σ conj(v[i]) m[i, j] over the rows i ≥ start of group g.

    For columns j ≥ start. Nothing waits at the end: `combined` is for after that.
    """
    y = cuda.threadIdx.y
    for j in range(start + cuda.threadIdx.x, n, cuda.blockDim.x):
        result = zero
        for first in range(start + y * PIECE, n, GROUPS * PIECE):
            piece = zero
            for i in range(first, min(first + PIECE, n)):
                piece += v[i].conjugate() * m[i * pitch + j]
            result += piece
        partial[y, j] = result


@device
def combined(partial, j):
    """The sum over all groups of rows."""
    result = partial[0, j]
    for g in range(1, GROUPS):
        result += partial[g, j]
    return result


@device
def copy(source, source_pitch, target, target_pitch, rows, columns):
    """Copy a matrix of these sizes."""
    for i in range(cuda.threadIdx.y, rows, cuda.blockDim.y):
        for j in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            target[i * target_pitch + j] = source[i * source_pitch + j]


@device
def fill(target, size, value):
    """Set `size` elements of a flat array."""
    for i in range(thread_index(), size, thread_count()):
        target[i] = value


@device
def exponent_of(size):
    """The k for which `size` is in [2**(k-1), 2**k); 0 for zero."""
    return frexp(size)[1]


@device
def times_power_of_two(x, exponent, one):
    """x · 2**exponent.

    In two halves: the power alone may overflow where the product does not.
    """
    half = int(exponent) // 2
    return x * ldexp(one, half) * ldexp(one, int(exponent) - half)


@device
def is_finite(x):
    """Whether neither part of a number is NaN or Inf."""
    return isfinite(x.real) and isfinite(x.imag)
