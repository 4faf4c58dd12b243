"""Covariances, their pooling, whitening with colouring, and converted models."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import bed.nn  # noqa: E402
from bed.nn import functional  # noqa: E402

# Of torch itself, whose forward mode compiles something with torch.jit when first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def normal(rng, *shape, dtype=torch.float64):
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def test_covariance_is_that_of_torch(rng):
    x = normal(rng, 2, 3, 4, 50)
    for correction in (0, 1):
        got = functional.covariance(x, correction=correction)
        for i, j in np.ndindex(2, 3):
            exact = torch.cov(x[i, j], correction=correction)
            assert (got[i, j] - exact).abs().max() < 1e-14
    raw = functional.covariance(x, center=False, correction=0)
    assert (raw - x @ x.mT / 50).abs().max() < 1e-14
    assert not functional.covariance(x[..., :1]).any()
    assert functional.covariance(x[..., :0]).shape == (2, 3, 4, 4)


def test_a_large_mean_does_not_cancel(rng):
    x = normal(rng, 4, 5000)
    single = (x + 300).float()
    got = functional.covariance(single)
    assert (got - torch.cov(single.double())).abs().max() < 1e-5


def test_triangles():
    a = torch.arange(9.0).reshape(3, 3)
    assert functional.triangular_vec(a).tolist() == [0, 1, 2, 4, 5, 8]
    assert functional.triangular_vec(a.expand(2, 5, 3, 3)).shape == (2, 5, 6)
    with pytest.raises(ValueError, match=r"matrices \(..., n, n\), got shape"):
        functional.triangular_vec(a[:2])


def test_pooled_covariances(rng):
    x = normal(rng, 3, 4, 5, 6)
    s = functional.covariance(x.flatten(2), correction=0)
    s = s + 1e-5 * torch.eye(4)
    exact = functional.covariance_pool(x)
    assert (exact @ exact - s).abs().max() < 1e-12
    errors = [
        (functional.covariance_pool(x, root="newton_schulz", iterations=k) - exact)
        .abs()
        .max()
        for k in (3, 6, 15)
    ]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-9
    raw = functional.covariance_pool(x, center=False, eps=0)
    flat = x.flatten(2)
    assert (raw @ raw - flat @ flat.mT / 30).abs().max() < 1e-12
    few = functional.covariance_pool(x[..., :1, :2], eps=0)  # singular
    assert few.isfinite().all()


@pytest.mark.parametrize("root", ["exact", "newton_schulz"])
def test_gradients_of_pooling(rng, root):
    layer = bed.nn.CovariancePooling(
        4, reduction=3, root=root, eps=1e-2, dtype=torch.float64
    )
    x = normal(rng, 3, 4, 7).requires_grad_()
    assert torch.autograd.gradcheck(layer.eval(), x)
    assert layer.out_features == layer(x).shape[1] == 6


def test_warmup_uses_newton_schulz(rng):
    x = normal(rng, 3, 4, 9)
    layer = bed.nn.CovariancePooling(4, warmup_steps=2, triangular=False)
    first = functional.covariance_pool(x, root="newton_schulz")
    exact = functional.covariance_pool(x)
    assert torch.equal(layer.eval()(x), first) and layer.steps == 0
    layer.train()
    found = [layer(x) for _ in range(3)]
    for got, expected in zip(found, (first, first, exact), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(layer.eval()(x), exact)
    other = bed.nn.CovariancePooling(4, warmup_steps=2, triangular=False)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), exact)
    other.reset_parameters()
    assert torch.equal(other(x), first)


def test_whiten_and_color(rng):
    x, style = normal(rng, 2, 3, 40), normal(rng, 1, 3, 25) * 3 + 2
    white = functional.whiten(x, eps=0)
    identity = functional.covariance(white, correction=0) - torch.eye(3)
    assert identity.abs().max() < 1e-12 and white.mean(-1).abs().max() < 1e-12
    colored = functional.color(white, style, eps=0)
    expected = functional.covariance(style, correction=0)
    got = functional.covariance(colored, correction=0)
    assert (got - expected).abs().max() < 1e-11
    assert (colored.mean(-1) - style.mean(-1)).abs().max() < 1e-12


def test_transfer_of_style(rng):
    content, style = normal(rng, 2, 8, 6, 7), normal(rng, 1, 8, 5, 4) * 2 + 1
    y = functional.wct(content, style, group_size=4, eps=0)
    assert y.shape == content.shape
    parts = [z.flatten(2).unflatten(1, (2, 4)) for z in (y, style)]
    got, expected = (functional.covariance(z, correction=0) for z in parts)
    assert (got - expected).abs().max() < 1e-11
    assert torch.equal(functional.wct(content, style, 0.0, num_groups=2), content)
    layer = bed.nn.WCT(0.6, group_size=4, learn_alpha=True, eps=0, dtype=torch.float64)
    mixed = layer(content, style)
    assert (mixed - 0.4 * content - 0.6 * y).abs().max() < 1e-12
    few = content[:1, :4, :2].clone().requires_grad_(), style[:, :4].requires_grad_()
    small = bed.nn.WCT(0.6, num_groups=2, eps=1e-2)
    assert torch.autograd.gradcheck(small, few)


def test_what_has_no_covariance_is_refused(rng):
    content = normal(rng, 2, 8, 6, 7)
    with pytest.raises(ValueError, match="one sample an image"):
        functional.wct(content, content[..., :1, :1], num_groups=2)
    with pytest.raises(ValueError, match="8 channels and style 4"):
        functional.wct(content, content[:, :4], num_groups=2)
    with pytest.raises(ValueError, match="root must be 'exact' or"):
        bed.nn.CovariancePooling(4, root="cholesky")
    with pytest.raises(ValueError, match=r"expected input \(N, 4, L, ...\)"):
        bed.nn.CovariancePooling(4)(content)
    with pytest.raises(ValueError, match="warmup_steps must be a whole number"):
        bed.nn.CovariancePooling(4, warmup_steps=-1)
    with pytest.raises(ValueError, match="num_groups or group_size"):
        bed.nn.WCT()
    for function in (functional.whiten, functional.covariance):
        with pytest.raises(TypeError, match=r"real input, got torch\.complex128"):
            function(content.to(torch.complex128))


def model():
    shared = torch.nn.BatchNorm2d(8, eps=1e-3, momentum=0.3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        shared,
        torch.nn.Sequential(torch.nn.ReLU(), shared),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(4),
        torch.nn.BatchNorm1d(4, affine=False, track_running_stats=False),
    )


def test_models_are_converted(rng):
    original, x = model(), normal(rng, 5, 3, 6, 6, dtype=torch.float32)
    original(x)
    kept = copy.deepcopy(original).eval()
    converted = bed.nn.convert_zca(copy.deepcopy(kept), group_size=4)
    layer, last = converted[1], converted[5]
    assert type(layer) is bed.nn.ZCAWhitening2d and converted[2][1] is layer
    assert (layer.eps, layer.momentum, layer.training) == (1e-3, 0.3, False)
    assert type(last) is bed.nn.ZCAWhitening1d and not last.affine
    assert not last.track_running_stats
    # With a diagonal covariance it does what BatchNorm did.
    y = converted[:2](x)
    assert (y - kept[:2](x)).abs().max() < 1e-5
    one = bed.nn.convert_zca(
        copy.deepcopy(kept),
        num_groups=2,
        track="covariance",
        where=lambda name, layer: name == "1",
    )
    assert one[1].track == "covariance" and type(one[5]) is torch.nn.BatchNorm1d
    assert (one[:2](x) - kept[:2](x)).abs().max() < 1e-5
    synchronised = torch.nn.SyncBatchNorm(8)
    assert bed.nn.convert_zca(synchronised, num_groups=2).process_group == "world"
    with pytest.raises(ValueError, match="1: group_size must divide the 8 channels"):
        bed.nn.convert_zca(kept, group_size=3)
    with pytest.raises(ValueError, match="lazy"):
        bed.nn.convert_zca(torch.nn.LazyBatchNorm2d(), group_size=3)


@pytest.mark.parametrize("name", bed.nn.__all__)
def test_examples(name):
    import doctest

    found = doctest.DocTestFinder().find(getattr(bed.nn, name), name)
    runner = doctest.DocTestRunner()
    assert not any(runner.run(test).failed for test in found)
