"""Scalar maths of the solvers, as plain functions.

They import only `math`, take and return numbers, and hold no constants, so that a
compiler keeps float32 arithmetic in float32. `numba_cuda` compiles them; `numba_cpu`,
which has a matrix in every lane of a vector and cannot branch, has twins of them with
selections. Undecorated they run, and are tested, as ordinary Python.
"""
