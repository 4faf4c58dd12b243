"""The solvers inside `torch.compile`, and the operators that it puts in its graphs."""

import numpy as np
import pytest

import bed
from torch_losses import close, separated

torch = pytest.importorskip("torch")
# Of torch itself, whose forward mode compiles something with torch.jit when first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def _network(x):
    """A whitening between two layers, with every output of the solver in use."""
    x = torch.sin(x)
    w, v, status = bed.eigh(x.mT @ x / 8 + torch.eye(4), return_info=True)
    values = bed.eigvalsh(x.mT @ x)
    whitened = x @ (v * (w**-0.5).unsqueeze(-2)) @ v.mT
    return whitened.cos().sum() + values.sin().sum(), status


@pytest.fixture
def compiler():
    torch._dynamo.reset()
    yield lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")
    torch._dynamo.reset()


def test_compiled_equals_eager(rng, compiler):
    x = torch.from_numpy(rng.standard_normal((2, 8, 4)).astype("f4")).requires_grad_()
    compiled = compiler(_network)
    results = []
    for f in (_network, compiled):
        loss, status = f(x)
        assert status.dtype == torch.int32
        results.append((loss, *torch.autograd.grad(loss, x)))
    for got, expected in zip(*results[::-1], strict=True):
        close(got, expected, 1e-6)
    with torch.no_grad():
        loss, _ = compiled(x)
    assert not loss.requires_grad
    close(loss, results[0][0].detach(), 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "int32", "complex64"])
def test_compiled_dtypes_and_options(rng, compiler, dtype):
    x = (4 * separated(rng, "f8")).round().to(getattr(torch, dtype))

    def both(x):
        result = bed.eigh(x, "U", check=True, driver="lapack", return_info=True)
        return result, bed.eigvalsh(x, "U", check=True, driver="lapack")

    (w, v, status), values = compiler(both)(x)
    (*expected, _), expected_values = both(x)
    for got, eager in zip((w, v, values), (*expected, expected_values), strict=True):
        assert got.dtype == eager.dtype
        close(got, eager, 0)
    assert not status.any()
    with pytest.raises(np.linalg.LinAlgError, match="2 of 2 matrices failed"):
        compiler(lambda x: bed.eigh(x.float() * torch.nan, check=True))(x.abs())


def test_compiled_vmap(rng, compiler):
    x = separated(rng, "f8", (3, 2))

    def mapped(x):
        return torch.func.vmap(bed.eigh, in_dims=1)(x), torch.func.vmap(bed.eigvalsh)(x)

    (w, v), values = compiler(mapped)(x)
    close((w, v), tuple(bed.eigh(x.movedim(1, 0))), 0)
    close(values, bed.eigvalsh(x), 0)


@pytest.mark.parametrize("dtype", ["f4", "c16", "i4"])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_operators_keep_the_rules_of_torch(rng, dtype, name):
    bed.eigvalsh(torch.eye(2, requires_grad=True))  # registers them
    operator = getattr(torch.ops.bed, name)
    x = separated(rng, dtype)
    options = ["L", "False", "auto"] + ["exact", 9] * (name == "eigh")
    torch.library.opcheck(operator, (x, *options))
    if name == "eigh" and dtype != "i4":
        x.requires_grad_()
        torch.library.opcheck(operator, (x, *options))
