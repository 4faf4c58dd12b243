"""Whatever writes down a program of torch's gets the solver into it, or a refusal.

The programs are traced with one batch of matrices and judged with another: a program
that holds memory, or the numbers it was traced with, is seen.
"""

import functools
import textwrap

import numpy as np
import pytest

import bed
from interpreter import run_python
from torch_losses import close, hermitian, separated

torch = pytest.importorskip("torch")
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

fwd = torch.autograd.forward_ad
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    # Of torch.func.linearize, about constants of the program it makes.
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning"),
]


def _values(a):
    return bed.eigh(a).eigenvalues


def _loss(a):
    """Σ λ³ of the eigenvalues, half of them without vectors: its gradient is 3 A²."""
    return ((bed.eigh(a).eigenvalues ** 3).sum() + (bed.eigvalsh(a) ** 3).sum()) / 2


def _projector(a):
    """Does not depend on phases: the projector onto the upper two eigenvectors."""
    v = bed.eigh(a).eigenvectors[..., -2:]
    return v @ v.mH


@pytest.fixture
def pair(rng):
    """To trace with, and to judge with."""
    return separated(rng, "f8"), separated(rng, "f8")


def _make_fx(mode):
    return lambda f, a: make_fx(f, tracing_mode=mode)(a)


def _export(strict):
    def trace(f, a):
        class Module(torch.nn.Module):
            def forward(self, a):
                return f(a)

        return torch.export.export(Module(), (a,), strict=strict).module()

    return trace


def _aot(f, a):
    from functorch.compile import aot_function, nop

    return aot_function(f, fw_compiler=nop)


TRACERS = {
    "make_fx real": _make_fx("real"),
    "make_fx fake": _make_fx("fake"),
    "make_fx symbolic": _make_fx("symbolic"),
    "jit.trace": lambda f, a: torch.jit.trace(f, (a,)),
    "export": _export(True),
    "export non-strict": _export(False),
    "aot_function": _aot,
    "compile": lambda f, a: torch.compile(f, fullgraph=True, backend="eager"),
}


@pytest.mark.parametrize("tracer", TRACERS)
def test_a_traced_program_solves_what_it_is_given(pair, tracer):
    traced_with, a = pair
    for f in (_values, lambda a: bed.eigvalsh(a), _projector):
        program = TRACERS[tracer](f, traced_with)
        close(program(a), f(a), 1e-12)


@pytest.mark.parametrize("tracer", ["jit.trace", "aot_function", "export", "compile"])
def test_a_traced_program_has_a_gradient(pair, tracer):
    traced_with, a = pair
    a.requires_grad_()
    program = TRACERS[tracer](_loss, traced_with.requires_grad_())
    (g,) = torch.autograd.grad(program(a), a)
    close(g, (3 * a @ a).detach(), 1e-12)


@functools.cache
def _recorders_know_vmap():
    """Those of torch 2.5 fail with any operator that has a rule for it."""

    @torch.library.custom_op("bed_test::same", mutates_args=())
    def same(a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    same.register_fake(torch.empty_like)
    same.register_vmap(lambda info, dims, a: (same(a.movedim(dims[0], 0)), 0))
    try:
        make_fx(torch.func.vmap(same))(torch.zeros(2, 2))
    except RuntimeError:
        return False
    return True


TRANSFORMS = {
    "grad": torch.func.grad,
    "vmap": lambda f: torch.func.vmap(lambda a: f(hermitian(a))),
    "vmap grad": lambda f: torch.func.vmap(torch.func.grad(f)),
    "jacrev": torch.func.jacrev,
    "hessian": torch.func.hessian,
    "jvp": lambda f: lambda a: torch.func.jvp(f, (a,), (a.cos(),))[1],
    "vjp": lambda f: lambda a: torch.func.vjp(f, a)[1](f(a))[0],
}


MAPPED = {"vmap", "vmap grad", "hessian"}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("tracer", ["make_fx real", "make_fx fake", "compile"])
def test_a_transform_inside_a_tracer(pair, tracer, transform):
    if transform in MAPPED and not _recorders_know_vmap():
        pytest.skip("this torch records no operators under vmap")
    traced_with, a = pair
    f = TRANSFORMS[transform](_loss)
    program = TRACERS[tracer](f, traced_with)
    close(program(a), f(a), 1e-10)


@pytest.mark.parametrize("transform", ["grad", "hessian", "jvp"])
def test_compiled_transforms_as_aot_autograd_takes_them(pair, transform):
    if transform in MAPPED and not _recorders_know_vmap():
        pytest.skip("this torch records no operators under vmap")
    traced_with, a = pair
    f = TRANSFORMS[transform](_loss)
    program = torch.compile(f, fullgraph=True, backend="aot_eager")
    program(traced_with)
    close(program(a), f(a), 1e-10)


def test_functionalize(pair):
    _, a = pair
    functionalize = torch.func.functionalize
    for f in (_loss, torch.func.grad(_loss), torch.func.vmap(_loss)):
        close(functionalize(f)(a), f(a), 1e-12)
    close(torch.func.grad(functionalize(_loss))(a), 3 * a @ a, 1e-12)


@pytest.mark.parametrize("f", [_loss, _projector])
def test_functional_linearize(pair, f):
    a, direction = pair
    value, along = torch.func.linearize(f, a)
    expected = torch.func.jvp(f, (a,), (direction,))
    close((value, along(direction)), expected, 1e-12)


@pytest.mark.parametrize("f", [_values, bed.eigvalsh])
def test_compiled_programs_keep_tangents(pair, f):
    traced_with, a = pair
    program = torch.compile(f, fullgraph=True, backend="aot_eager")
    program(traced_with)
    with fwd.dual_level():
        tangent = fwd.unpack_dual(program(fwd.make_dual(a, a))).tangent
    close(tangent, f(a), 1e-12)


def test_vectorised_forward_mode_jacobian(rng):
    a = separated(rng, "f8", ())
    jacobian = functools.partial(
        torch.autograd.functional.jacobian, bed.eigvalsh, a, vectorize=True
    )
    close(jacobian(strategy="forward-mode"), jacobian(), 1e-12)


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [("float16", "float32"), ("bfloat16", "float32"), ("complex64", "complex64"),
     ("float64", "float64"), ("int32", "float64"), ("bool", "float64")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["meta", "fake", "fake outside"])
def test_tensors_without_memory_have_shapes(kind, dtype, computed):
    a = torch.zeros(3, 2, 4, 4, dtype=getattr(torch, dtype))
    if kind == "meta":
        a = a.to("meta")
        results = *bed.eigh(a, return_info=True), bed.eigvalsh(a)
    else:
        with FakeTensorMode() as mode:
            a = mode.from_tensor(a)
            results = *bed.eigh(a, return_info=True), bed.eigvalsh(a)
        if kind == "fake outside":
            results = *bed.eigh(a, return_info=True), bed.eigvalsh(a)
    real = np.empty(0, computed).real.dtype.name
    shapes = (3, 2, 4), (3, 2, 4, 4), (3, 2), (3, 2, 4)
    dtypes = real, computed, "int32", real
    for x, shape, name in zip(results, shapes, dtypes, strict=True):
        assert x.shape == shape
        assert x.dtype == getattr(torch, name)
        assert type(x) is type(a)
        assert x.device == a.device


def test_dynamic_batches_are_exported(pair):
    traced_with, a = pair

    class Module(torch.nn.Module):
        def forward(self, a):
            return bed.eigh(a).eigenvalues

    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(
        Module(), (traced_with.repeat(2, 1, 1),), dynamic_shapes={"a": {0: batch}}
    ).module()
    close(program(a), _values(a), 0)


@pytest.mark.slow
def test_a_refusal_inside_torch_compile_leaves_bed_usable():
    code = """
        import numpy as np, torch, bed
        f = torch.compile(lambda x: bed.eigh(x, check_phase=True), backend="eager")
        try:
            f(torch.eye(2, dtype=torch.complex128))
        except NotImplementedError:
            assert np.allclose(bed.eigvalsh(np.eye(3, dtype="f8")), 1)
            print("solved")
    """
    assert run_python(textwrap.dedent(code)) == "solved\n"


def test_errors_are_raised_where_the_program_runs(pair):
    _, a = pair
    program = make_fx(lambda a: bed.eigh(a, check=True).eigenvalues)(a)
    a[1, 2, 2] = torch.nan
    with pytest.raises(np.linalg.LinAlgError, match="matrix 1"):
        program(a)


@pytest.mark.parametrize("tracer", ["make_fx real", "jit.trace", "export", "compile"])
def test_what_needs_values_is_refused_in_words(rng, tracer):
    a = separated(rng, "c16")
    with pytest.raises(
        (NotImplementedError, torch._dynamo.exc.Unsupported),
        # The words of old compilers are their own.
        match=r"check_phase=True cannot raise inside|Observed exception",
    ):
        TRACERS[tracer](lambda a: bed.eigh(a, check_phase=True).eigenvectors, a)(a)


def test_tensors_that_cannot_be_opened_are_refused_in_words():
    squares = [torch.eye(2), torch.eye(3)]
    with pytest.warns(UserWarning, match="nested tensors is in prototype"):
        nested = torch.nested.nested_tensor(squares)
    jagged = torch.nested.nested_tensor(
        [torch.eye(2), torch.ones(3, 2)], layout=torch.jagged
    )
    for a in (nested, jagged):
        with pytest.raises(TypeError, match="dense tensor, got a nested one"):
            bed.eigvalsh(a)
    with pytest.raises(TypeError, match="dense tensor"):
        bed.eigvalsh(torch.eye(2).to_sparse())


def test_tensors_of_zeros_without_memory():
    assert bed.eigvalsh(torch._efficientzerotensor((2, 2))).tolist() == [0, 0]


INSIDE = {
    "an array": "bed.eigvalsh(x.numpy())",
    "a list": "torch.as_tensor(bed.eigvalsh([[1.0, 0.1], [0.1, 2.0]]))",
    "a stage": "bed.tridiagonalize(x.numpy()).d",
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("call", INSIDE)
def test_a_first_call_inside_torch_compile_leaves_bed_usable(call):
    """On ways on which the compiler looks into what it cannot compile."""
    code = f"""
        import numpy as np, torch, bed
        a = torch.eye(2, dtype=torch.float64) + 0.1
        f = lambda x: {INSIDE[call]}
        got = torch.compile(f, backend="eager")(a)
        np.testing.assert_allclose(np.asarray(got), np.asarray(f(a)), rtol=1e-12)
        for dtype in ("f4", "f8", "c8", "c16"):
            assert np.allclose(bed.eigvalsh(np.eye(3, dtype=dtype)), 1)
        print("solved")
    """
    assert run_python(textwrap.dedent(code)) == "solved\n"


def _top(x: torch.Tensor) -> torch.Tensor:
    w, _ = bed.linalg.eigh_scriptable(x, "U")
    return w[..., -1]


def test_a_scripted_caller(rng):
    top = torch.jit.script(_top)
    a = torch.eye(3, dtype=torch.float64) * 2
    assert top(a).item() == 2
    x = separated(rng, "f8").requires_grad_()
    x.data += torch.ones(4, 4).tril(-1)  # the other triangle
    expected = bed.eigh(x, "U")
    close(top(x), expected.eigenvalues[..., -1], 0)
    (g,) = torch.autograd.grad(top(x).sum(), x)
    v = expected.eigenvectors[..., -1:].detach()
    close(g, v @ v.mT, 1e-12)


def _scripted(x: torch.Tensor) -> torch.Tensor:
    w, v, _ = torch.ops.bed.eigh(x, "U", "True")
    values, _ = torch.ops.bed.eigvalsh(x, "U")
    return v * (w + values)[..., None, :] / 2 @ v.mT


def test_operators_in_a_script(rng):
    script = torch.jit.script(_scripted)
    for batch in ((), (0,), (2, 3)):
        a = separated(rng, "f8", batch)
        close(script(a), a, 1e-12)
    a[0, 1, 0, 0] = torch.nan
    with pytest.raises(RuntimeError, match=r"matrix \(0, 1\)"):
        script(a)


def _nearest(rays):
    """The points next to rays: eigenvectors of the smallest eigenvalues."""
    v = bed.eigh(rays.mT @ rays).eigenvectors[..., 0]
    return v[..., :-1] / v[..., -1:]


def test_a_trace_solves_batches_of_other_sizes(rng):
    program = torch.jit.trace(
        _nearest, torch.from_numpy(rng.standard_normal((7, 4, 4)))
    )
    for batch in ((20,), (1,), (0,), (7,)):
        rays = torch.from_numpy(rng.standard_normal((*batch, 4, 4)))
        close(program(rays), _nearest(rays), 0)


PROGRAMS = {
    "eigvalsh": bed.eigvalsh,
    "sqrtm": bed.sqrtm,
    "generalized": lambda a: bed.eigh(a, b=a).eigenvalues,
}
LOADED = """
import sys, warnings, torch
import bed.autograd.torch

warnings.filterwarnings("ignore", ".torch.jit", DeprecationWarning)
print(torch.jit.load({!r})(4 * torch.eye(2)).sum().item())
"""


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_was_saved_is_loaded_where_bed_did_nothing_yet(tmp_path, name):
    program = torch.jit.trace(PROGRAMS[name], torch.eye(2))
    torch.jit.save(program, str(tmp_path / "saved"))
    found = run_python(LOADED.format(str(tmp_path / "saved")))
    assert float(found) == {"eigvalsh": 8, "sqrtm": 4, "generalized": 2}[name]


def test_errors_for_tensors_are_also_those_of_torch():
    bad = torch.full((2, 2), torch.nan)
    for error in (torch.linalg.LinAlgError, np.linalg.LinAlgError):
        for a in (bad, bad.clone().requires_grad_()):
            with pytest.raises(error, match="1 of 1 matrices failed"):
                bed.eigh(a, check=True)
        with pytest.raises(error, match="not Hermitian"):
            bed.eigvalsh(torch.ones(2, 2).triu(), check="hermitian")
        with pytest.raises(error, match="expected square matrices"):
            bed.eigvalsh(torch.ones(2, 3))
