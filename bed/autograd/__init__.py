"""Derivatives of the solvers in the array libraries that have them.

A package a library, and a file in it for each public function. `bed.eigh` imports the
one that it needs at the first array that is traced.
"""
