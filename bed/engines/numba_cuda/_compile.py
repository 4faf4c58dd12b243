"""How this engine compiles."""

from numba import cuda

# Registers of a thread: the fewest, and so the most blocks at a time, for which the
# compiler spills nothing on sm_90, which a test checks.
MAX_REGISTERS = 128

# Compiled at the first launch for each dtype and for each memory order of the input.
kernel = cuda.jit(max_registers=MAX_REGISTERS)
device = cuda.jit(device=True)
