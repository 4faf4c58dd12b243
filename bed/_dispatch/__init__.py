"""The way of one call: from the caller's array through an engine and back.

In the order of a call: `interop` opens the array, `normalize` and `dtypes` check it,
`policy` chooses the engine, `symmetry` looks at the other triangle where that is asked
for, and `solve` leads through all of them. Nothing here is numeric.
"""
