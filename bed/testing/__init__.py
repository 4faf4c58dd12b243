"""How results are measured: by the tests, the command line, the notebooks and scripts.

`accuracy` has what the library promises and the error of a decomposition, `checks`
decides whether one is right, `matrices` makes those whose eigenvalues are known, and
`clock` compares times. All of it needs NumPy alone, and `import bed` loads none of it.
"""
