"""The solvers as torch differentiates and compiles them."""
