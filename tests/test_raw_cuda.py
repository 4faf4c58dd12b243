"""The fused CUDA engine on a machine without a GPU: sources, layouts, launches."""

import re
import types

import numpy as np
import pytest

import bed
import cuda_emulator
import emulated
from bed import Status
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import DTYPES, random_hermitian
from cuda_emulator import Buffer, EmulatorError
from emulated import needs_emulator

layouts = emulated.engine_module("_layouts")
module = emulated.engine_module("_module")
launcher = emulated.engine_module("eigh")

# --- sources ----------------------------------------------------------------


def _enumerators(name):
    text = (emulated.SOURCES / "batch.cuh").read_text()
    body = re.search(rf"enum {name} : int {{(.*?)}}", text, re.S)[1]
    return {k: int(v) for k, v in re.findall(r"(\w+) = (\d+)", body)}


def test_status_codes_are_those_of_python():
    names = {member.name.lower(): member.value for member in Status}
    assert _enumerators("Status") == names


def test_storage_codes_are_those_of_python():
    assert _enumerators("Storage") == {"native": 0, **launcher.STORAGE}


@pytest.mark.parametrize("path", sorted(emulated.SOURCES.glob("*.cu")), ids=str)
def test_includes_are_spliced_once_with_marks(path):
    text = module.source(path.name)
    assert '#include "' not in text
    assert text.startswith(f'#line 1 "{path.name}"\n')
    for header in emulated.SOURCES.glob("*.cuh"):
        assert text.count(f'#line 1 "{header.name}"\n') <= 1
    # Every line is where its mark says.
    file, number = None, 0
    lines = {p.name: p.read_text().splitlines() for p in emulated.SOURCES.iterdir()}
    for line in text.splitlines():
        if mark := re.fullmatch(r'#line (\d+) "(.*)"', line):
            number, file = int(mark[1]), mark[2]
            continue
        original = lines[file][number - 1]
        assert line in (original, ""), f"{file}:{number}"
        assert line or original == "" or original.startswith(("#include", "#pragma"))
        number += 1


# --- layouts ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("eigenvectors", [True, False])
def test_every_size_has_a_layout_that_fits_it(dtype, eigenvectors):
    for n in range(1, layouts.MAX_N + 1):
        layout = layouts.choose(n, np.dtype(dtype), eigenvectors=eigenvectors)
        match = re.match(r"bed::eigh_(\w+)<\S+ (\d+)", layout.expression)
        kernel, size = match.groups()
        if kernel == "tiny":
            assert int(size) == n
        elif kernel != "block":
            assert n <= int(size) <= 1.6 * n
        assert layout.shared <= layouts.MOST_BYTES
        alone = kernel == "values" or layout.expression.endswith("false>")
        assert alone == (not eigenvectors)


@needs_emulator
@pytest.mark.parametrize("dtype", DTYPES)
def test_shared_memory_is_what_the_kernels_need(tmp_path, dtype):
    """The sizes in Python are those of the structs in C++."""
    sizes, expected = zip(*emulated.shared_memory(np.dtype(dtype)), strict=True)
    lines = [f"  sizes[{i}] = {size};" for i, size in enumerate(sizes)]
    probe = tmp_path / "probe.cu"
    includes = "".join(f'#include "{p.name}"\n' for p in emulated.SOURCES.glob("*.cu"))
    body = "\n".join(lines)
    probe.write_text(f"{includes}__global__ void probe(int* sizes) {{\n{body}\n}}\n")
    buffer = Buffer(len(sizes), "i4")
    cuda_emulator.load(probe, "probe", (emulated.SOURCES,))(1, 32, 0, [buffer])
    assert dict(zip(sizes, buffer.array.tolist(), strict=True)) == dict(
        zip(sizes, expected, strict=True)
    )


# What a block may have on compute capability 7.5.
TURING = 64 * 1024


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_with_little_shared_memory_gets_a_block_for_each_matrix(dtype):
    dtype, refused = np.dtype(dtype), []
    for n in range(1, layouts.MAX_N + 1):
        usual = layouts.choose(n, dtype, eigenvectors=True)
        try:
            layout = layouts.choose(n, dtype, eigenvectors=True, limit=TURING)
        except ValueError as error:
            refused.append(n)
            assert f"bytes of shared memory for {dtype} matrices of n = {n}," in str(
                error
            )
            continue
        assert layout.shared <= TURING
        if usual.shared <= TURING:
            assert layout == usual
        else:
            assert layout.source == "eigh_block.cu"
    assert refused == ([62, 63, 64] if dtype == "c16" else [])


@needs_emulator
@pytest.mark.sweep(2)
@pytest.mark.parametrize("n, dtype", [(29, "f4"), (48, "f4"), (32, "f8"), (24, "c8")])
def test_what_such_a_device_computes(monkeypatch, rng, n, dtype):
    asked = []
    monkeypatch.setattr(emulated, "SHARED", [TURING])
    monkeypatch.setattr(
        emulated, "launch", lambda *x, do=emulated.launch: asked.append(x[1]) or do(*x)
    )
    a = random_hermitian(rng, (2, n, n), dtype)
    for eigenvectors in True, False:
        w, v, status = emulated.eigh(a, eigenvectors=eigenvectors)
        assert not status.any()
        assert_eigh(a, w, v)
    assert all(shared <= TURING for _, _, shared in asked)


# --- launches ---------------------------------------------------------------


class FakeArray:
    """What the launcher needs of a CuPy array."""

    def __init__(self, a):
        self._a = a
        self.shape, self.dtype, self.itemsize = a.shape, a.dtype, a.itemsize
        self.strides = a.strides
        self.data = types.SimpleNamespace(ptr=a.__array_interface__["data"][0])
        self.device = FakeDevice()


class FakeDevice:
    id = 3
    entered = 0

    def __enter__(self):
        FakeDevice.entered += 1

    def __exit__(self, *error):
        FakeDevice.entered -= 1


def test_launcher(monkeypatch, rng):
    """One launch, on the array's device, with the layout's numbers."""
    launches = []

    def fake_kernel(source, expression, shared, device):
        def launch(grid, block, arguments, *, shared_mem):
            assert FakeDevice.entered == 1
            launches.append((source, expression, shared, device))
            launches.append((grid, block, shared_mem, arguments))

        return launch

    limits = {3: layouts.MOST_BYTES}
    monkeypatch.setattr(launcher, "kernel", fake_kernel)
    monkeypatch.setattr(launcher, "shared_limit", lambda device: limits[device])
    a = random_hermitian(rng, (9, 20, 20), "c8")[::2, ::-1, ::-1]
    w, v, status = (FakeArray(np.empty(s)) for s in ((5, 20), (5, 20, 20), (5,)))
    launcher.eigh(FakeArray(a), "U", out=(w, v, status))
    layout = layouts.choose(20, np.dtype("c8"), eigenvectors=True)
    assert FakeDevice.entered == 0
    assert launches[0] == (layout.source, layout.expression, layout.shared, 3)
    grid, block, shared, arguments = launches[1]
    assert grid == (-(-5 // layout.matrices),)
    assert (block, shared) == ((layout.threads,), layout.shared)
    row, column = a.strides[1] // 8, a.strides[2] // 8
    assert [int(x) for x in arguments] == [
        *(FakeArray(a).data.ptr, w.data.ptr, v.data.ptr, status.data.ptr),
        *(5, a.strides[0] // 8, column, row, 20, 0, 1),
    ]
    assert {type(x) for x in arguments} == {np.uintp, np.int64, np.int32}
    limits[3] = layout.shared - 1
    launcher.eigh(FakeArray(a), "U", out=(w, v, status))
    assert launches[2][0] == "eigh_block.cu"


def test_rounds_are_for_batches_that_fill_a_gpu():
    layout = layouts.choose(64, np.dtype("f4"), eigenvectors=False)
    assert (layout.matrices, layout.rounds) == (32, 8)
    batches = 1, 100, 4096, 16385, 10**6
    grids = [launcher.grid(layout, batch) for batch in batches]
    assert grids == [(1,), (25,), (512,), (513,), (31250,)]


@needs_emulator
@pytest.mark.parametrize("n", [3, 12, 30])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_read_as_they_are(rng, name, n):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 of its own")
    a = random_hermitian(rng, (5, n, n), "f4").astype(name)
    a[0] *= a.dtype.type(2.0**-14)  # some are subnormal in float16
    a[3, 1, 0] = np.nan
    for uplo in "LU":
        result = emulated.eigh(a[::-1], uplo)
        assert_same_bits(result, emulated.eigh(a[::-1].astype("f4"), uplo))
        w, v = bed.eigh(a[:3], uplo, driver=emulated.ENGINE.name)
        assert_eigh(a[:3].astype("f4"), w, v)


@needs_emulator
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("n", [3, 4])
def test_matrices_in_one_piece_are_read_as_others_are(rng, n, dtype):
    """By rows, by columns, and in a larger array; only one triangle has numbers."""
    a = random_hermitian(rng, (5, n, n), dtype)
    for uplo, triangle in ("L", np.tril), ("U", np.triu):
        rows = np.where(triangle(np.ones((n, n))), a, np.nan)
        columns = rows.swapaxes(1, 2).copy().swapaxes(1, 2)
        around = np.full((5, n, n + 1), np.nan, dtype)
        around[..., 1:] = rows
        expected = emulated.eigh(around[..., 1:], uplo)
        assert_eigh(a, *expected[:2])
        for form in rows, columns:
            assert_same_bits(emulated.eigh(form, uplo), expected)


@pytest.mark.slow
@needs_emulator
def test_a_race_in_the_kernels_is_seen(tmp_path, rng):
    """Without one of the barriers of the reduction, results are wrong or refused."""
    for header in emulated.SOURCES.iterdir():
        (tmp_path / header.name).write_text(header.read_text())
    text = (emulated.SOURCES / "tridiagonalize.cuh").read_text()
    barriers = [m.span() for m in re.finditer(r"__syncwarp\(\);", text)]
    assert len(barriers) == 4
    layout = layouts.choose(16, np.dtype("f4"), eigenvectors=True)
    a = random_hermitian(rng, (32, 16, 16), "f4")
    outputs = [Buffer((32, 16), "f4"), Buffer((32, 16, 16), "f4"), Buffer(32, "i4")]
    arguments = (a, "L", np.int32(0), *outputs)
    tail = launcher.arguments(*arguments, pointer=lambda x: x)[1:]

    def is_right(folder):
        kernel = cuda_emulator.load(
            folder / layout.source, layout.expression, (folder,)
        )
        for seed in range(4):
            try:
                kernel(
                    1,
                    layout.threads,
                    layout.shared,
                    [Buffer.of(a), *tail],
                    seed=seed,
                )
                assert_eigh(a, outputs[0].array, outputs[1].array)
            except (AssertionError, EmulatorError):
                return False
        return True

    assert is_right(tmp_path)
    for start, end in barriers[:2]:
        (tmp_path / "tridiagonalize.cuh").write_text(text[:start] + ";" + text[end:])
        assert not is_right(tmp_path), f"barrier at {start}"


@pytest.mark.sweep(4)
@needs_emulator
@pytest.mark.parametrize("eigenvectors", [True, False])
@pytest.mark.parametrize(
    "n, dtype", [(3, "f4"), (16, "f4"), (20, "f4"), (50, "c16")], ids=str
)
def test_no_convergence_is_flagged(tmp_path, rng, n, dtype, eigenvectors):
    """With no sweep allowed only the diagonal matrix is solved, in every kernel."""
    for header in emulated.SOURCES.iterdir():
        text = header.read_text().replace("per_eigenvalue = 30;", "per_eigenvalue = 0;")
        (tmp_path / header.name).write_text(text)
    layout = layouts.choose(n, np.dtype(dtype), eigenvectors=eigenvectors)
    kernel = cuda_emulator.load(
        tmp_path / layout.source, layout.expression, (tmp_path,)
    )
    a = random_hermitian(rng, (3, n, n), dtype)
    a[1] = np.diag(np.arange(n))
    real = a.real.dtype
    outputs = [Buffer((3, n), real), Buffer((3, n, n), dtype), Buffer(3, "i4")]
    arguments = (a, "L", np.int32(0), *outputs)
    tail = launcher.arguments(*arguments, pointer=lambda x: x)[1:]
    grid = launcher.grid(layout, 3)
    kernel(grid, layout.threads, layout.shared, [Buffer.of(a), *tail])
    w, v, status = (x.array for x in outputs)
    assert status.tolist() == [Status.NO_CONVERGENCE, Status.OK, Status.NO_CONVERGENCE]
    assert np.isnan(w[[0, 2]]).all()
    assert np.isnan(v[[0, 2]]).all() or not eigenvectors
    assert_eigh(a[1], w[1], v[1] if eigenvectors else None)
