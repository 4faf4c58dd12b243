"""The handler and XLA's runtime: errors, memory, threads, versions, C structs."""

import gc
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

import numpy as np
import pytest

import bed
from bed.testing.checks import assert_eigh
from bed.testing.matrices import random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402
from bed.autograd.jax.xla import c_api, ffi  # noqa: E402


@pytest.fixture(autouse=True)
def jax_x64():
    with xla_on_cpu.x64():
        yield


@pytest.mark.parametrize("error", [ZeroDivisionError("on purpose"), SystemExit("gone")])
def test_exceptions_become_errors_of_xla(rng, monkeypatch, error):
    def fail(*_, **__):
        raise error

    xla_on_cpu.engine(monkeypatch, fail)
    solve = jax.jit(lambda a: bed.eigh(a, driver="temporary"))
    text = f"{type(error).__name__}: {error}"
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            jax.block_until_ready(solve(jnp.eye(3)))
    np.testing.assert_array_equal(jax.jit(bed.eigvalsh)(jnp.eye(3)), np.ones(3))


def _resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
@pytest.mark.slow
def test_many_calls_keep_nothing(rng, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("x" * 10_000)

    xla_on_cpu.engine(monkeypatch, fail)
    a = jnp.asarray(random_hermitian(rng, (20, 8, 8), "f8"))
    solve = jax.jit(lambda a: bed.eigh(a, return_info=True))
    failing = jax.jit(lambda a: bed.eigvalsh(a, driver="temporary"))

    def call(times):
        for _ in range(times):
            jax.block_until_ready(solve(a))
            with pytest.raises(jax.errors.JaxRuntimeError):
                jax.block_until_ready(failing(a))
        gc.collect()

    call(200)
    before = _resident_bytes()
    call(2000)
    assert _resident_bytes() - before < 2000 * 4096  # results have 10 kB, messages too
    tracemalloc.start()
    call(10)
    before, _ = tracemalloc.get_traced_memory()
    call(2000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2000 * 100


def test_threads_at_once(rng):
    batches = [random_hermitian(rng, (50, 6, 6), "f8") for _ in range(4)]
    solve = jax.jit(bed.eigh)

    def work(a):
        return [tuple(np.asarray(x) for x in solve(a)) for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        for a, results in zip(batches, pool.map(work, batches), strict=True):
            for w, v in results:
                assert_eigh(a, w, v)


SCRIPT = """if True:
    import bed, jax
    jax.monitoring.register_event_listener(lambda event, **_: print(event))
"""


def _run(code):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT + code],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_programs_kept_on_disk(tmp_path):
    """What one process compiled is run by another."""
    code = f"""
    jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    a = jax.numpy.asarray([[1.0, 2.0], [0.0, 1.0]])
    print(jax.jit(lambda a: bed.eigvalsh(a, "U"))(a).round().astype(int))
    """
    first, second = _run(code), _run(code)
    assert "compilation_cache/cache_misses" in first
    assert "compilation_cache/cache_hits" in second
    assert "compilation_cache/cache_misses" not in second
    assert first.endswith("[-1  3]\n") and second.endswith("[-1  3]\n")


def test_no_other_stage_is_answered():
    """A frame made by hand; XLA calls a handler in the stages it is registered for."""
    told = []

    @c_api.FUNCTION
    def create(arguments):
        told.append(c_api.ErrorCreate.from_address(arguments).message)
        return 0x1

    api = c_api.Api()
    api.XLA_FFI_Error_Create = c_api.ctypes.cast(create, c_api.c_void_p)
    handle = ffi.handler(lambda call: None)
    frame = c_api.CallFrame(api=c_api.ctypes.pointer(api), stage=c_api.EXECUTE)
    assert handle(frame) is None
    frame.stage = 0
    assert handle(frame) == 0x1
    assert told == [b"RuntimeError: called in stage 0 of XLA's FFI"]


@pytest.mark.skipif(which("cc") is None, reason="no C compiler here")
def test_structs_are_those_of_the_header(tmp_path):
    ours = {
        "XLA_FFI_Api_Version": c_api.Version,
        "XLA_FFI_Error_Create_Args": c_api.ErrorCreate,
        "XLA_FFI_Error_Destroy_Args": c_api.ErrorDestroy,
        "XLA_FFI_Stream_Get_Args": c_api.StreamGet,
        "XLA_FFI_DeviceOrdinal_Get_Args": c_api.DeviceOrdinalGet,
        "XLA_FFI_Buffer": c_api.BufferStruct,
        "XLA_FFI_ByteSpan": c_api.ByteSpan,
        "XLA_FFI_Attrs": c_api.Attrs,
        "XLA_FFI_CallFrame": c_api.CallFrame,
        "XLA_FFI_Metadata": c_api.Metadata,
    }
    fields = [
        (f"{name}.{field}", struct, field)
        for name, struct in ours.items()
        for field, *_ in struct._fields_
    ]
    api = ("api_version", "Error_Create", "Error_Destroy", "Stream_Get")
    for field in (*api, "DeviceOrdinal_Get"):
        ours_name = field if field == "api_version" else f"XLA_FFI_{field}"
        fields.append((f"XLA_FFI_Api.{ours_name}", c_api.Api, ours_name))
    for last, what in (("args", "Args"), ("rets", "Rets")):
        fields.append((f"XLA_FFI_{what}.{last}", c_api.Buffers, "items"))
    fields.append(
        ("XLA_FFI_Metadata_Extension.metadata", c_api.MetadataExtension, "metadata")
    )
    checks = "\n".join(
        f"_Static_assert(offsetof({name.replace('.', ', ')}) == "
        f'{getattr(struct, field).offset}, "{name}");'
        for name, struct, field in fields
    )
    constants = {
        "XLA_FFI_API_MAJOR": c_api.MAJOR,
        "XLA_FFI_Extension_Metadata": c_api.METADATA,
        "XLA_FFI_ExecutionStage_EXECUTE": c_api.EXECUTE,
        "XLA_FFI_ArgType_BUFFER": c_api.BUFFER,
        "XLA_FFI_RetType_BUFFER": c_api.BUFFER,
        "XLA_FFI_AttrType_STRING": c_api.STRING,
        "XLA_FFI_Error_Code_INTERNAL": c_api.INTERNAL,
        **{f"{name}_STRUCT_SIZE": c_api.size(s) for name, s in ours.items()},
    }
    del constants["XLA_FFI_ByteSpan_STRUCT_SIZE"]  # has none
    names = {"i4": "S32", "f4": "F32", "f8": "F64", "c8": "C64", "c16": "C128"}
    for name, xla in names.items():
        (code,) = (k for k, d in c_api.DTYPES.items() if d == np.dtype(name))
        constants[f"XLA_FFI_DataType_{xla}"] = code
    checks += "".join(
        f'\n_Static_assert({name} == {value}, "{name}");'
        for name, value in constants.items()
    )
    source = tmp_path / "check.c"
    source.write_text(f'#include "xla/ffi/api/c_api.h"\n{checks}\n')
    include = jax.ffi.include_dir()
    command = ["cc", "-std=c11", "-fsyntax-only", f"-I{include}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
