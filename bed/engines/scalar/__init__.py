"""Scalar maths of the solvers, as plain functions.

They import only `math`, take and return numbers, and hold no constants, so that a
compiler keeps float32 arithmetic in float32. Numba's CPU and CUDA targets each compile
them; undecorated they run, and are tested, as ordinary Python.
"""
