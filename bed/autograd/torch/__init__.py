"""The solvers as torch differentiates and compiles them.

Importing this registers all operators: programs with them that were saved, by
`torch.jit.save` or `torch.export.save`, cannot be loaded before.
"""

from . import _matfun_operators, _operators, generalized  # noqa: F401
