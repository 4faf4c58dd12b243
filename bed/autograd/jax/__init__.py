"""The solvers under JAX's jit, grad, vmap, jvp, and what these compose to."""
