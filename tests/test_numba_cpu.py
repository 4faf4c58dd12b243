"""The compiled CPU engine: its blocks of matrices, and its stages by themselves."""

import platform
import re
from functools import cache

import numpy as np
import pytest
from llvmlite.binding import parse_assembly
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

import bed
from bed.engines import numba_cpu
from bed.engines._constants import constants
from bed.engines.numba_cpu import _compile
from bed.engines.numba_cpu._compile import ALONE, NARROW, WIDE, kernel
from bed.engines.numba_cpu._load import load_tridiagonal
from bed.engines.numba_cpu._memory import free
from bed.engines.numba_cpu._store import judge, store_rows, store_status
from bed.engines.numba_cpu._vector_array import as_rows
from bed.engines.numba_cpu._workspace import workspace
from bed.engines.numba_cpu.back_transform import (
    _apply,
    _reflect_two,
    back_transform,
    multiply,
)
from bed.engines.numba_cpu.eigh import _iterate, set_identity
from bed.engines.numba_cpu.qr_iteration import _rotate_rows, qr_iteration
from bed.engines.numba_cpu.tridiagonalize import (
    _multiply,
    _rank_2_update,
    _update_and_multiply,
)
from bed.engines.numba_cpu.tridiagonalize import tridiagonalize as reduce_block
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import (
    DTYPES,
    EXTENDED,
    planted,
    random_hermitian,
)

# Functions of the inner loops, which are compiled for every dtype and width.
INNER = (
    _rotate_rows,
    _multiply,
    _rank_2_update,
    _update_and_multiply,
    _apply,
    _reflect_two,
)


def _lanes(dtype):
    return WIDE // np.dtype(dtype).type(0).real.itemsize


# --- bits ---------------------------------------------------------------------


def _neighbours(kind, rng, shape, dtype):
    """Matrices that might disturb the one beside them."""
    n = shape[-1]
    if kind == "not finite":
        return np.full(shape, np.nan, dtype)
    if kind == "graded":
        w = np.geomspace(1e-30, 1, n).astype(EXTENDED)
    elif kind == "many sweeps":
        w = 1 + 1e-5 * np.arange(n).astype(EXTENDED) ** 2
    elif kind == "zero":
        return np.zeros(shape, dtype)
    else:
        return random_hermitian(rng, shape, dtype)
    return planted(rng, np.tile(w, (shape[0], 1)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kind", ["not finite", "graded", "many sweeps", "zero", "random"]
)
def test_neighbours_change_no_bit(rng, dtype, kind):
    """A matrix alone, and in each lane of a block among others."""
    n, lanes = 7, _lanes(dtype)
    a = random_hermitian(rng, (n, n), dtype)
    a[2:, :2] = a[:2, 2:] = 0  # two blocks: some entries of the result are zero
    expected = numba_cpu.eigh(a[None])
    assert (expected[1] == 0).any()
    block = _neighbours(kind, rng, (lanes, n, n), dtype)
    for lane in range(lanes):
        among = block.copy()
        among[lane] = a
        found = numba_cpu.eigh(among)
        assert_same_bits(tuple(x[lane] for x in found), tuple(x[0] for x in expected))
    assert_same_bits(
        tuple(x[-1] for x in numba_cpu.eigh(among, "U")), tuple(x[0] for x in expected)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 48])
def test_batches_around_a_block_have_the_same_bits(rng, dtype, n):
    lanes = _lanes(dtype)
    a = random_hermitian(rng, (2 * lanes + 1, n, n), dtype)
    w, v, status = numba_cpu.eigh(a)
    assert not status.any()
    assert_eigh(a, w, v)
    sizes = {1, 2, lanes // 4, lanes // 4 + 1, lanes - 1, lanes, lanes + 1}
    for batch in sorted(sizes - {0}):
        found = numba_cpu.eigh(a[:batch])
        assert_same_bits(found, (w[:batch], v[:batch], status[:batch]))
        values = numba_cpu.eigh(a[:batch], eigenvectors=False)
        assert_same_bits(values[0], w[:batch])


# --- compiled code ------------------------------------------------------------


@pytest.mark.parametrize("n, columns", [(2, 0), (3, 0), (48, 0), (48, 2)])
def test_iteration_that_cannot_converge_says_so(n, columns):
    """A coupling that is not a number never becomes negligible, and stays alone."""

    @njit
    def iterate(d, e, columns, status, const):
        n = d.shape[1]
        work, memory = workspace(n, d, d, 32)
        load_tridiagonal(as_rows(d), as_rows(e), n, 0, len(d), work)
        set_identity(work.z, n, columns, const)
        _iterate(n, work.z, columns, 0, work, const)
        finite = work.d[0] == work.d[0]
        judge(work.d, work.e, n, finite | ~finite, work.code, const)
        store_status(work, 0, len(d), as_rows(status))
        free(memory)

    d, e = np.ones((3, n)), np.full((3, n - 1), 0.5)
    e[1] = np.nan
    status = np.full(3, -1, "i4")
    iterate(d, e, columns, status, constants(d.dtype))
    codes = bed.Status.OK, bed.Status.NO_CONVERGENCE, bed.Status.OK
    assert status.tolist() == list(map(int, codes))


def test_what_the_first_run_leaves_undone_counts(rng, monkeypatch):
    """Of large matrices, whose eigenvalues come from a run without eigenvectors."""
    monkeypatch.setattr(numba_cpu.qr_iteration, "SWEEPS_PER_EIGENVALUE", 1)
    lanes, width, n = 32, 256, 48  # compiled for this test alone

    @njit
    def iterate(d, e, w, status, const):
        work, memory = workspace(n, d, d, width)
        for at in range(0, len(d), lanes):
            load_tridiagonal(as_rows(d), as_rows(e), n, at, lanes, work)
            set_identity(work.z, n, 2, const)
            _iterate(n, work.z, 2, 0, work, const)
            finite = work.d[0] == work.d[0]
            judge(work.d, work.e, n, finite, work.code, const)
            store_status(work, at, lanes, as_rows(status))
            store_rows(work, work.d_at, n, at, lanes, as_rows(w))
        free(memory)

    batch = 64 * lanes
    d = rng.standard_normal((batch, n))
    e = 10.0 ** rng.uniform(-rng.uniform(0, 16, (batch, 1)), 0, (batch, n - 1))
    w, status = np.empty((batch, n)), np.full(batch, -1, "i4")
    iterate(d, e, w, status, constants(d.dtype))
    solved = status == bed.Status.OK
    assert 0 < solved.sum() < batch  # some need more sweeps, and more in the first run
    a = np.zeros((batch, n, n))
    i = np.arange(n)
    a[:, i, i], a[:, i[1:], i[:-1]] = d, e
    exact = np.linalg.eigvalsh(a[solved])
    assert (abs(w[solved] - exact) <= 1e-13 * abs(exact).max(1, keepdims=True)).all()


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_small_terms_that_are_alike_are_not_lost_beside_a_large_one(dtype):
    """Beside the reflector of a matrix of equal entries, the others are rounding."""
    entries = np.append(1 + np.arange(64) / 256, 1.8594663750739284e34)
    a = np.ones((61, 61)) * entries[:, None, None]
    a = a.astype(dtype)
    w, v, _ = numba_cpu.eigh(a)
    assert_eigh(a, w, v)


@pytest.fixture(scope="module")
def _inner_loops():
    """Compile the inner loops here: code that comes from the disk cannot be read."""

    @kernel
    def iterate(work, z, const):
        d, e, half, s, shifts = work.d, work.e, work.half, work.s, work.ahead[0]
        qr_iteration(d, e, 1, z, 1, 1, half, s, shifts, True, const)

    @njit
    def compile_them(a, d, const):
        n = a.shape[1]
        work, memory = workspace(n, a, d, WIDE)
        few, memory_of_few = workspace(n, a, d, NARROW)
        one, memory_of_one = workspace(n, a, d, ALONE)
        if n > 0:  # never, but the compiler does not know
            return 0
        reduce_block(work.matrix, n, n, work.d, work.e, work.tau, work.scratch, const)
        reduce_block(few.matrix, n, n, few.d, few.e, few.tau, few.scratch, const)
        back_transform(work.matrix, n, n, work.tau, const)
        back_transform(few.matrix, n, n, few.tau, const)
        multiply(work.matrix, work.z, work.matrix, n, n, work.tau, const)
        multiply(few.matrix, few.z, few.matrix, n, n, few.tau, const)
        iterate(work, work.z, const)
        iterate(few, few.z, const)
        reduce_block(one.matrix, n, n, one.d, one.e, one.tau, one.scratch, const)
        back_transform(one.matrix, n, n, one.tau, const)
        multiply(one.matrix, one.z, one.matrix, n, n, one.tau, const)
        iterate(one, one.rotated, const)
        free(memory)
        free(memory_of_few)
        free(memory_of_one)
        return 1

    for dtype in ("f4", "f8", "c8"):
        a = np.ones((1, 1, 1), dtype)
        compile_them(a, np.ones(1, a.real.dtype), constants(dtype))


@cache
def _optimised(function, signature):
    """What an inner function becomes in its callers, by itself."""
    lowered = function.overloads[signature].library
    library = lowered.codegen.create_library(function.__name__)
    own = lowered.get_llvm_str().replace("define linkonce_odr", "define")
    library.add_llvm_module(parse_assembly(own))
    library.add_linking_library(lowered)  # what it calls
    with global_compiler_lock:
        library.finalize()
    return library


@pytest.mark.slow
@pytest.mark.usefixtures("_inner_loops")
def test_arithmetic_stays_in_single_precision():
    assert {x.real.dtype for x in constants("c8")} == {np.dtype("f4")}
    for function in (*INNER, qr_iteration):
        compiled = [s for s in function.signatures if "float32" in str(s)]
        assert compiled
        for signature in compiled:
            text = _optimised(function, signature).get_llvm_str()
            assert "fpext" not in text, f"{function.__name__} widens to double"
            assert "double>" not in text


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.usefixtures("_inner_loops")
@pytest.mark.parametrize("function", INNER)
def test_inner_loops_are_packed_and_fused(function):
    signatures = function.signatures
    assert len(signatures) >= 6  # both precisions, in three widths
    for signature in signatures:
        text = _optimised(function, signature).get_asm_str()
        assert "callq\t*fma" not in text
        if _alone(signature) and "Complex" in str(signature):  # left to LLVM
            continue
        assert re.search(r"\bvfn?m(add|sub)\d+p[sd]\b", text)
        if not _alone(signature):
            assert not re.search(r"\bvfn?m(add|sub)\d+s[sd]\b", text)
        wide = {str(WIDE // size) for size in (4, 8)} | {"1"}
        if re.search(rf"Vector\(float\d+, ({'|'.join(wide)})\)", str(signature)):
            assert re.search(r"\b[yz]mm\d", text), "only short registers are used"


def _alone(signature):
    return re.search(r"Vector\(float\d+, 1\)", str(signature)) is not None


@pytest.mark.slow
@pytest.mark.usefixtures("_inner_loops")
@pytest.mark.parametrize("function", INNER)
def test_inner_loops_check_nothing(function):
    """No test for overlapping memory, no counting of references, no wrapped index."""
    for signature in function.signatures:
        if _alone(signature) and "Complex" in str(signature):
            continue
        text = _optimised(function, signature).get_llvm_str()
        assert "memcheck" not in text
        assert "NRT_incref" not in text


def test_cached_code_is_keyed_by_every_source(monkeypatch):
    before = _compile.source_digest()
    original = type(_compile.Path()).read_bytes
    for name in ("_simd.py", "qr_iteration.py", "_constants.py", "_status.py"):

        def changed(path, name=name):
            return original(path) + (b"#" if path.name == name else b"")

        monkeypatch.setattr(type(_compile.Path()), "read_bytes", changed)
        assert _compile.source_digest() != before


@pytest.mark.parametrize(
    "features, expected", [("+avx2,+fma", False), ("+avx2,+avx512f", True)]
)
def test_width_follows_the_processor_numba_compiles_for(
    monkeypatch, features, expected
):
    monkeypatch.setattr(_compile.config, "CPU_FEATURES", features)
    assert _compile._has_avx512() is expected
    assert WIDE in (64, 128)


def test_outputs_that_are_not_contiguous_are_refused(rng):
    """They are written as plain memory, which would be that of others."""
    a = random_hermitian(rng, (4, 3, 3), "f4")
    _, v, status = numba_cpu.eigh(a)
    apart = np.empty((4, 6), "f4")[:, ::2]
    with pytest.raises(TypeError, match=r"No matching definition .*2d, A"):
        numba_cpu.eigh(a, out=(apart, v, status))
