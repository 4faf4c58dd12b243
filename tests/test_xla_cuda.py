"""What is compiled for CUDA: with a stand-in for CuPy, and where XLA refuses it."""

import importlib.machinery
import sys
import types
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import bed
import emulated
from bed import engines
from bed.testing.checks import assert_eigh, assert_same_bits
from bed.testing.matrices import planted, random_hermitian

jax = pytest.importorskip("jax")
jnp = jax.numpy

import xla_on_cpu  # noqa: E402
from bed._dispatch.interop import jax as interop_jax  # noqa: E402
from bed.autograd.jax import eigh as rules  # noqa: E402
from bed.autograd.jax import matfun as functions  # noqa: E402
from bed.autograd.jax.xla import c_api, ffi  # noqa: E402
from bed.autograd.jax.xla import eigh as xla_eigh  # noqa: E402
from bed.autograd.jax.xla import matfun as xla_matfun  # noqa: E402

DEVICE = 3
AS_FOR_CUDA = partial(rules._call_in_place, rules._solve_now, platform="cuda")


@pytest.fixture(autouse=True)
def jax_x64():
    with xla_on_cpu.x64():
        yield


class StandIn(types.ModuleType):
    """As much of CuPy as the handler needs, over host memory; notes what is asked."""

    def __init__(self, protocol=True):
        super().__init__("cupy")
        self.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
        self.asked = []
        self.empty = np.empty
        self.cuda = types.SimpleNamespace(
            Device=partial(self._enter, "device"),
            UnownedMemory=lambda *arguments: arguments,
            MemoryPointer=lambda memory, offset: (*memory, offset),
            Stream=types.SimpleNamespace(),
        )
        if protocol:
            self.cuda.Stream.from_external = lambda stream: self._enter(
                "stream", *stream.__cuda_stream__()
            )
        else:
            self.cuda.ExternalStream = partial(self._enter, "external")

    def _enter(self, *what):
        self.asked.append(what)
        return _Nothing()

    def ndarray(self, shape, dtype, pointer):
        address, size, owner, device, offset = pointer
        assert size == np.prod(shape) * dtype.itemsize
        assert (owner, device, offset) == (None, DEVICE, 0)
        return xla_eigh._host_array(address, shape, dtype)  # CPU and "GPU" share it


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@pytest.fixture
def cupy(monkeypatch):
    """Something to import in CuPy's place."""
    emulated.engine_module("eigh")  # not with this stand-in
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    return stand_in


@pytest.fixture
def as_for_cuda(monkeypatch, cupy):
    """What is compiled for the CPU calls the handler of CUDA, with an engine for it."""
    engine = engines.get("numba_cpu").load()
    xla_on_cpu.engine(monkeypatch, engine, devices=("cuda",))
    monkeypatch.setattr(xla_eigh, "TARGET", "bed_eigh_of_test_xla_cuda")
    handler = ffi.capsule(xla_eigh.CALL.cuda)
    jax.ffi.register_ffi_target(xla_eigh.TARGET, handler, platform="cpu")
    with xla_on_cpu.compiled_by(partial(xla_eigh.lower, device="cuda")):
        yield jax.jit(lambda a: bed.eigh(a, driver="temporary"))


@pytest.fixture
def fresh_problem():
    """Registration is tried again, and what came of it is forgotten."""
    xla_eigh.problem.cache_clear()
    yield
    xla_eigh.problem.cache_clear()


@pytest.mark.usefixtures("cupy", "fresh_problem")
def test_the_program_for_cuda_calls_the_handler():
    traced = jax.jit(lambda a: bed.eigh(a, "u")).trace(jnp.eye(3, dtype="i4"))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "custom_call @bed_eigh" in text
    assert "callback" not in text
    assert 'driver = "auto", uplo = "U"' in text
    assert "convert %arg0 : (tensor<3x3xi32>) -> tensor<3x3xf64>" in text
    assert "operand_layouts = [dense<[1, 0]> : tensor<2xindex>]" in text


@pytest.mark.parametrize("protocol", [True, False], ids=["protocol", "external"])
def test_memory_stream_and_device_are_those_of_xla(
    rng, monkeypatch, cupy, as_for_cuda, protocol
):
    """Of CuPy 14, which has a protocol for streams of others, and of older ones."""
    cupy.__init__(protocol)
    monkeypatch.setattr(ffi.Call, "stream", lambda self: 0x5EED)
    monkeypatch.setattr(ffi.Call, "device", lambda self: DEVICE)
    a = random_hermitian(rng, (2, 3, 5, 5), "c8")
    w, v = as_for_cuda(a)
    assert_eigh(a, np.asarray(w), np.asarray(v))
    stream = ("stream", 0, 0x5EED) if protocol else ("external", 0x5EED, DEVICE)
    assert cupy.asked == [("device", DEVICE), stream]


def test_errors_of_xla_are_told(as_for_cuda):
    """XLA has no stream to give on the CPU."""
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"XLA_FFI_Stream_Get: \w+"):
        jax.block_until_ready(as_for_cuda(jnp.eye(2)))


def test_concrete_arrays_of_a_gpu_are_solved_in_memory_that_xla_holds(rng, monkeypatch):
    """Nothing is lent: XLA reuses what was dropped while another stream still reads."""
    a = jnp.asarray(random_hermitian(rng, (2, 5, 5), "f8"))
    expected = bed.eigh(a), bed.sqrtm(a @ a), jax.grad(_sum_of_roots)(a @ a)
    squared = a @ a
    monkeypatch.setattr(interop_jax, "_platforms", lambda x: {"gpu"})

    def lent(x):
        raise AssertionError("memory of a GPU was lent")

    monkeypatch.setattr(interop_jax.cupy, "load", lent)
    found = bed.eigh(a), bed.sqrtm(squared), jax.grad(_sum_of_roots)(squared)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_same_bits(np.asarray(x), np.asarray(y))


def _sum_of_roots(a):
    return bed.sqrtm(a).sum() + bed.eigvalsh(a)[0].sum()


def _size_of_another(struct):
    return 8 if struct is c_api.CallFrame else c_api.size(struct)


@pytest.mark.usefixtures("cupy", "fresh_problem")
@pytest.mark.parametrize(
    "change, reason",
    [
        (("MAJOR", 1), r"XLA's FFI has version 0\.\d+; bed knows 1\.3 and later 1\.x"),
        (("size", _size_of_another), "XLA_FFI_CallFrame has 168 bytes in XLA, 8 in"),
    ],
    ids=["version", "size"],
)
def test_another_xla_is_refused_with_a_warning(rng, monkeypatch, change, reason):
    monkeypatch.setattr(ffi, *change)
    a = random_hermitian(rng, (3, 5, 5), "f8")
    expected = bed.eigh(a)
    with xla_on_cpu.compiled_by(AS_FOR_CUDA):
        with pytest.warns(RuntimeWarning, match=f"copy to the host and back.*{reason}"):
            result = jax.jit(bed.eigh)(a)
    assert_same_bits(tuple(np.asarray(x) for x in result), tuple(expected))


@pytest.mark.usefixtures("fresh_problem")
def test_without_cupy_a_warning_says_what_to_install(rng, monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda module: None)
    a = random_hermitian(rng, (3, 5, 5), "f8")
    xla_on_cpu.engine(monkeypatch, engines._REGISTRY["numba_cpu"].load())
    with xla_on_cpu.compiled_by(AS_FOR_CUDA):
        with pytest.warns(RuntimeWarning, match="needs cupy: pip install"):
            w, v = jax.jit(lambda a: bed.eigh(a, driver="temporary"))(a)
    assert_eigh(a, np.asarray(w), np.asarray(v))


def _root_and_gradient(a, driver="auto"):
    """And the inverse, so that w and v are kept."""

    def loss(a):
        root, inverse = bed.sqrtm_invsqrtm(a, driver=driver)
        return (root**2).sum() + inverse.sum()

    return *bed.sqrtm_invsqrtm(a, driver=driver), jax.grad(loss)(a)


@pytest.fixture
def definite(rng):
    return planted(rng, 1 + rng.random((2, 3, 4)), "f8")


@contextmanager
def functions_compiled_by(rule, rule_of_derivative):
    own = partial(rules.lowerings, call=xla_matfun.CALL, lower=xla_matfun.lower)
    own_of_derivative = partial(
        rules.lowerings, call=xla_matfun.VJP_CALL, lower=xla_matfun.lower_vjp
    )
    with (
        xla_on_cpu.compiled_by(
            rule, functions._spectral_p, own(functions._spectral_now)
        ),
        xla_on_cpu.compiled_by(
            rule_of_derivative,
            functions._vjp_p,
            own_of_derivative(functions._vjp_now),
        ),
    ):
        yield


@pytest.mark.usefixtures("cupy", "fresh_problem")
def test_functions_of_matrices_for_cuda_call_their_handlers():
    traced = jax.jit(_root_and_gradient).trace(jnp.eye(3))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "custom_call @bed_spectral(" in text
    assert "custom_call @bed_spectral_vjp(" in text
    assert "callback" not in text


def test_functions_of_matrices_in_the_memory_of_cuda(definite, monkeypatch, cupy):
    xla_on_cpu.engine(monkeypatch, engines.get("numba_cpu").load(), devices=("cuda",))
    monkeypatch.setattr(ffi.Call, "stream", lambda self: 0x5EED)
    monkeypatch.setattr(ffi.Call, "device", lambda self: DEVICE)
    for name, call in (
        ("TARGET", xla_matfun.CALL),
        ("VJP_TARGET", xla_matfun.VJP_CALL),
    ):
        target = f"{call.target}_of_test_xla_cuda"
        monkeypatch.setattr(xla_matfun, name, target)
        jax.ffi.register_ffi_target(target, ffi.capsule(call.cuda), platform="cpu")
    rule = partial(xla_matfun.lower, device="cuda")
    with functions_compiled_by(rule, partial(xla_matfun.lower_vjp, device="cuda")):
        found = jax.jit(partial(_root_and_gradient, driver="temporary"))(definite)
    expected = _root_and_gradient(jnp.asarray(definite))
    assert ("device", DEVICE) in cupy.asked
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


def test_functions_of_matrices_by_the_call_back(definite):
    expected = _root_and_gradient(jnp.asarray(definite))
    rule = partial(rules._call_back, functions._spectral_now)
    with functions_compiled_by(rule, partial(rules._call_back, functions._vjp_now)):
        compiled = jax.jit(_root_and_gradient)
        assert "bed_spectral" not in compiled.lower(definite).as_text()
        found = compiled(definite)
    assert_same_bits(
        tuple(np.asarray(x) for x in found), tuple(np.asarray(x) for x in expected)
    )
