"""bed under `jax.jit` on a GPU: XLA calls the engines on its own memory and stream."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import cupy
import numpy as np

import bed

from ._cases import ALL_DTYPES, hermitian

SIZES = (1, 3, 8, 20, 40, 64)
ABOVE = 80  # solved by another engine
CALLS = 40  # in flight at once
TOLERANCE = 1e-8  # of gradients in float64


def under_jit(run, part) -> None:
    """Under jax.jit bed solves in XLA's memory, on its stream, without host copies."""
    try:
        import jax
    except ImportError:
        return part.notes.append("jax is not installed")
    if jax.default_backend() != "gpu":
        return part.notes.append(f"jax runs on {jax.default_backend()} alone")
    part.expect(jax.config.jax_enable_x64, "JAX_ENABLE_X64 is off")
    # XLA refuses the handler with a warning, which is a failure here.
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for check in (
            as_eager,
            converted,
            large,
            not_solved,
            several_calls,
            gradients,
            behind_a_producer,
            from_threads,
            without_copies,
        ):
            with part.attempt(check.__name__):
                check(jax, run, part)


def solver(jax, uplo="L"):
    """`bed.eigh` in a program of its own."""
    return jax.jit(lambda a: tuple(bed.eigh(a, uplo, return_info=True)))


def eager(a, uplo="L"):
    """The same outside `jax.jit`, as host arrays."""
    return host(tuple(bed.eigh(a, uplo, return_info=True)))


def host(arrays):
    return tuple(np.asarray(x) for x in arrays)


def as_eager(jax, run, part) -> None:
    """The program calls the handler, and gives what an eager call gives."""
    for dtype in ALL_DTYPES:
        for n in SIZES[:3] if run.smoke else SIZES:
            what = f"jit, n = {n}, {dtype}"
            a = jax.numpy.asarray(hermitian(run.rng(what), 6, n, dtype))
            a = a.reshape(2, 3, n, n)
            text = solver(jax).lower(a).as_text()
            part.expect("@bed_eigh" in text, f"{what}: not the handler")
            part.expect("callback" not in text, f"{what}: calls back to the host")
            for uplo in "LU":
                solve = solver(jax, uplo)
                with jax.transfer_guard("disallow"):
                    found = jax.block_until_ready(solve(a))
                part.expect(found[0].devices() == a.devices(), f"{what}: device")
                part.same(host(found), eager(a, uplo), what)
                values = jax.jit(lambda a, uplo=uplo: bed.eigvalsh(a, uplo))(a)
                wanted = np.asarray(bed.eigvalsh(a, uplo))
                part.same(np.asarray(values), wanted, f"{what}, values only")


def converted(jax, run, part) -> None:
    """Dtypes that are converted before, and arrays with nothing in them."""
    a = jax.numpy.asarray(run.rng("converted").integers(-9, 9, (4, 7, 7)))
    for dtype in ("float16", "bfloat16", "int32", "bool"):
        there = a.astype(dtype)
        part.same(host(solver(jax)(there)), eager(there), f"jit, {dtype}")
    for shape in ((0, 3, 3), (2, 0, 0)):
        there = jax.numpy.ones(shape)
        part.same(host(solver(jax)(there)), eager(there), f"jit, {shape}")


def large(jax, run, part) -> None:
    """Sizes above those of the kernels."""
    a = hermitian(run.rng("large"), 3, ABOVE, np.dtype("f8"))
    w, v, status = host(solver(jax)(jax.numpy.asarray(a)))
    part.right(a, w, v, what="jit")
    part.expect(not status.any(), f"jit, n = {ABOVE}: status {status}")


def not_solved(jax, run, part) -> None:
    """A matrix with NaN says so, and its neighbours are solved."""
    a = hermitian(run.rng("failed"), 5, 6, np.dtype("f4"))
    a[2, 1, 0] = np.nan
    part.same(host(solver(jax)(a)), eager(jax.numpy.asarray(a)), "jit, one NaN")


def several_calls(jax, run, part) -> None:
    """Several calls in one program, and calls in a loop of it."""
    a = jax.numpy.asarray(hermitian(run.rng("a"), 9, 5, np.dtype("f4")))
    b = jax.numpy.asarray(hermitian(run.rng("b"), 4, 33, np.dtype("c16")))

    @jax.jit
    def program(a, b):
        return tuple(bed.eigh(a)), tuple(bed.eigh(b, "U")), bed.eigvalsh(2 * a)

    first, second, third = program(a, b)
    part.same(host(first), host(bed.eigh(a)), "first of three calls")
    part.same(host(second), host(bed.eigh(b, "U")), "second of three calls")
    part.same(host([third]), host([bed.eigvalsh(2 * a)]), "third of three calls")
    scan = jax.jit(lambda a: jax.lax.scan(lambda _, x: (0, tuple(bed.eigh(x))), 0, a))
    part.same(host(scan(a)[1]), host(bed.eigh(a)), "calls in lax.scan")
    mapped = jax.jit(jax.vmap(bed.eigh, in_axes=2))(a.transpose(1, 2, 0))
    part.same(host(mapped), host(bed.eigh(a)), "jit of vmap")


def gradients(jax, run, part) -> None:
    """A gradient inside a program is that of jax.numpy.linalg.eigh."""
    a = hermitian(run.rng("gradients"), 5, 6, np.dtype("f8")) + np.diag(np.arange(6.0))
    a = jax.numpy.asarray((a + a.swapaxes(-1, -2)) / 2)

    def loss(solve):
        def of(x):
            w, v = solve(x)
            return (w**3 * (v**2).cumsum(-1)[..., 0, :]).sum()

        return jax.jit(jax.grad(of))

    found, wanted = (np.asarray(loss(f)(a)) for f in (bed.eigh, jax.numpy.linalg.eigh))
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    part.expect(error < TOLERANCE, f"gradient differs from that of JAX by {error:.1e}")


def behind_a_producer(jax, run, part) -> None:
    """Many programs in flight; each solves what it made late, and uses the result."""
    jnp = jax.numpy
    size = 64 if run.smoke else 2048
    heavy = jnp.eye(size, dtype="float32")
    batches = [
        jnp.asarray(hermitian(run.rng("late", i), 50, 12, np.dtype("f4")))
        for i in range(CALLS)
    ]

    @jax.jit
    def program(a, heavy):
        def multiply(_, x):
            return x @ heavy

        one = jax.lax.fori_loop(0, 20, multiply, heavy)[0, 0]  # exactly 1, but late
        w, v, status = bed.eigh(a * one, return_info=True)
        return w * one, v * one, status

    found = [program(a, heavy) for a in batches]
    for i, (a, result) in enumerate(zip(batches, found, strict=True)):
        part.same(host(result), eager(a), f"behind a late producer, call {i}")


def from_threads(jax, run, part) -> None:
    """One program from several Python threads."""
    solve = solver(jax)
    batches = [
        jax.numpy.asarray(hermitian(run.rng("thread", i), 100, 9, np.dtype("f8")))
        for i in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda a: [host(solve(a)) for _ in range(20)], batches)
        for a, results in zip(batches, found, strict=True):
            wanted = eager(a)
            for result in results:
                part.same(result, wanted, "from several threads")


def without_copies(jax, run, part) -> None:
    """Calls allocate nothing beside XLA's own memory, and are as fast as eager ones."""
    batch = 1000 if run.smoke else 200_000
    a = jax.numpy.asarray(hermitian(run.rng("copies"), batch, 8, np.dtype("f4")))
    solve = solver(jax)
    jax.block_until_ready(solve(a))
    pool = cupy.get_default_memory_pool()
    before = pool.total_bytes()
    times = {}
    for name, call in (("jit", solve), ("eager", lambda a: tuple(bed.eigh(a)))):
        jax.block_until_ready(call(a))
        if name == "jit":
            grown = pool.total_bytes() - before
            part.expect(not grown, f"a call allocated {grown} bytes beside XLA")
        began = time.perf_counter()
        jax.block_until_ready([call(a) for _ in range(5)])
        times[name] = (time.perf_counter() - began) / 5 * 1e3
    part.data["ms"] = times
    part.notes.append(
        f"{batch} matrices of 8 x 8, float32: {times['jit']:.3f} ms under jit, "
        f"{times['eager']:.3f} ms outside"
    )
