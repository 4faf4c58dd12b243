"""Layers in programs, in half precision, and wherever torch runs them."""

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
import bed.nn  # noqa: E402
from bed.nn import functional  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


class Head(torch.nn.Module):
    """All layers behind each other."""

    def __init__(self, **options):
        super().__init__()
        self.whitening = bed.nn.ZCAWhitening2d(8, group_size=4, **options)
        self.transfer = bed.nn.WCT(0.6, num_groups=2, learn_alpha=True)
        self.pool = bed.nn.CovariancePooling(8, reduction=3, warmup_steps=1)

    def forward(self, x):
        y = self.whitening(x)
        return self.pool(self.transfer(y, x[:1]))


def images(rng, n=4, dtype=torch.float32):
    return torch.from_numpy(rng.standard_normal((n, 8, 3, 5))).to(dtype)


def trained(layer, x):
    """Output, gradients and state after a step in training."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    torch.sin(y).sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters()}
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    return {"y": y.detach(), "x": x.grad, **gradients, **state}


def alike(got, expected, tolerance):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        error = (got[name].double() - value.double()).abs().max()
        assert error <= tolerance * value.abs().max().clamp(min=1), name


@pytest.mark.sweep(2)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_compiled_layers(rng, momentum):
    torch._dynamo.reset()
    head = Head(momentum=momentum)
    state = {name: x.clone() for name, x in head.state_dict().items()}
    x = images(rng)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    for training in (True, False):
        results = []
        for layer in (head, compiled):
            head.load_state_dict(state)
            head.train(training)
            with torch.no_grad():
                head.pool.steps.fill_(1)  # the exact root
            found = trained(layer, x)
            results.append({k.removeprefix("_orig_mod."): x for k, x in found.items()})
        alike(*results[::-1], 1e-4)
    torch._dynamo.reset()


def test_exported_layers(rng):
    head, x = Head().eval(), images(rng)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(head, (x,), dynamic_shapes={"x": {0: batch}})
    for n in (4, 7):
        x = images(rng, n)
        assert (program.module()(x) - head(x)).abs().max() < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_single(rng, dtype):
    layer = bed.nn.ZCAWhitening2d(8, group_size=4)
    x = images(rng, 16, dtype)
    y = layer(x)
    expected = functional.zca_whiten(x.float(), group_size=4)
    assert y.dtype == dtype and torch.equal(y, expected.to(dtype))
    assert layer.running_mean.dtype == torch.float32
    half = bed.nn.ZCAWhitening2d(8, group_size=4, dtype=dtype)
    assert torch.equal(half(x), y) and half.running_whitening.dtype == dtype
    assert half.eval()(x).dtype == dtype
    for function in (functional.covariance, functional.whiten):
        got, exact = function(x.flatten(2)), function(x.float().flatten(2))
        assert torch.equal(got, exact.to(dtype))
    assert functional.covariance_pool(x).dtype == dtype
    assert functional.wct(x, x, num_groups=2).dtype == dtype


def test_autocast_does_not_reach_inside(rng):
    x = images(rng)
    pool, transfer = bed.nn.CovariancePooling(8), bed.nn.WCT(num_groups=2)
    layer = bed.nn.ZCAWhitening2d(8, group_size=4)
    expected = layer(x), pool(x), transfer(x, x)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x), pool(x), transfer(x, x)
    for got, exact in zip(found, expected, strict=True):
        assert torch.equal(got, exact)


def test_meta_tensors_have_shapes():
    head = Head(device="meta").to("meta")
    x = torch.empty(4, 8, 3, 5, device="meta")
    assert head(x).shape == (4, 6) and head(x).is_meta
    head.eval()
    assert head.whitening(x).shape == x.shape
    materialised = head.whitening.to_empty(device="cpu")
    materialised.reset_parameters()
    assert torch.equal(materialised.running_whitening[0], torch.eye(4))


def test_channels_last_is_kept(rng):
    x = images(rng)
    last = x.contiguous(memory_format=torch.channels_last)
    results = []
    for given in (x, last):
        layer = bed.nn.ZCAWhitening2d(8, group_size=4)
        y = layer(given)
        same = y.is_contiguous(memory_format=torch.channels_last)
        assert same == (given is last)
        results.append(trained(layer, given))
    alike(*results, 1e-5)
    strided = torch.cat([x, x], 3)[..., ::2]
    error = layer(strided) - layer(strided.contiguous())
    assert error.abs().max() < 1e-5


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_count_once(rng, reentrant):
    from torch.utils.checkpoint import checkpoint

    x, head = images(rng), Head(momentum=None)
    state = {name: value.clone() for name, value in head.state_dict().items()}
    expected = trained(head, x)
    head.load_state_dict(state)

    def again(x):
        # BatchNorm of the reduction counts twice, as torch's own does.
        return checkpoint(head, x, use_reentrant=reentrant)

    again.zero_grad, again.state_dict = head.zero_grad, head.state_dict
    again.named_parameters = head.named_parameters
    found = trained(again, x)
    assert found["whitening.num_batches_tracked"] == found["pool.steps"] == 1
    for key in [key for key in expected if "reduce.1" in key]:
        del found[key], expected[key]
    alike(found, expected, 1e-5)


def test_transforms_of_torch(rng):
    x = torch.from_numpy(rng.standard_normal((3, 4, 8, 5)))

    def function(x):
        return functional.zca_whiten(x, group_size=4, eps=1e-2)

    mapped = torch.func.vmap(function)(x)
    assert (mapped - torch.stack([function(y) for y in x])).abs().max() < 1e-12
    g = torch.from_numpy(rng.standard_normal(x[0].shape))
    _, pull = torch.func.vjp(function, x[0])
    _, push = torch.func.jvp(function, (x[0],), (g,))
    assert abs((pull(g)[0] * g).sum() - (push * g).sum()) < 1e-10


def test_threads_have_layers_of_their_own(rng):
    x = images(rng)
    alone = trained(bed.nn.ZCAWhitening2d(8, group_size=4), x)
    results = [None] * 3

    def work(i):
        results[i] = trained(bed.nn.ZCAWhitening2d(8, group_size=4), x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        alike(found, alone, 0)


def test_without_torch_a_sentence_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import bed\n"
        "try:\n    import bed.nn\nexcept ImportError as error:\n    print(error)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "bed.nn needs torch: pip install torch"
