"""ZCA whitening of batches: what comes out, its gradient, and what is remembered."""

import pytest

torch = pytest.importorskip("torch")
import bed.nn  # noqa: E402
from bed.nn import functional  # noqa: E402

# Of torch itself, whose forward mode compiles something with torch.jit when first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
DTYPES = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def batch(rng, shape, dtype=torch.float64, condition=100.0, mean=0.0, size=4):
    """Activations whose groups of `size` channels have a covariance of a condition."""
    n, channels, *behind = shape
    scales = torch.logspace(0, 0.5, size, base=condition, dtype=torch.float64)
    normal = torch.from_numpy(rng.standard_normal((channels // size, size, size)))
    mixed = torch.linalg.qr(normal).Q * scales @ torch.linalg.qr(normal).Q.mT
    samples = rng.standard_normal((n, channels // size, size, *behind))
    x = torch.einsum("gij,ngj...->ngi...", mixed, torch.from_numpy(samples))
    return (x.reshape(shape) + mean).to(dtype)


def covariances(y, size=4):
    """Of the groups, in double precision."""
    y = y.detach().double().movedim(1, 0).reshape(-1, size, y.numel() // y.shape[1])
    y = y - y.mean(-1, keepdim=True)
    return y @ y.mT / y.shape[-1]


def by_svd(x, size, eps):
    """The same layer, from singular values of the centred samples."""
    samples = x.movedim(1, 0).reshape(-1, size, x.numel() // x.shape[1])
    centred = samples - samples.mean(-1, keepdim=True)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    scales = (s**2 / samples.shape[-1] + eps).rsqrt()
    y = (u * scales[:, None, :]) @ u.mT @ centred
    return y.reshape(x.shape[1], x.shape[0], *x.shape[2:]).movedim(0, 1)


def test_images_are_summed_in_double_precision(rng):
    x = batch(rng, (128, 32, 32, 32), torch.float32)
    y = functional.zca_whiten(x, group_size=4, eps=0)
    # 3e-7 to 7e-7, by what multiplies for torch; summed in single precision 2e-6.
    assert (covariances(y) - torch.eye(4)).abs().max() < 1.2e-6


@pytest.mark.parametrize("mean", [0.0, 300.0])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("size", [4, 16])
def test_groups_are_white(rng, size, dtype, tolerance, mean):
    x = batch(rng, (32, 32, 16, 16), dtype, mean=mean, size=size)
    layer = bed.nn.ZCAWhitening2d(32, group_size=size, eps=0, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype and y.shape == x.shape
    assert (covariances(y, size) - torch.eye(size)).abs().max() < tolerance
    # A mean of float32 is known to half a step of it.
    known = 4 * torch.finfo(dtype).eps * max(mean, 1)
    assert y.detach().double().mean((0, 2, 3)).abs().max() < known * 10


@pytest.mark.parametrize("shape", [(2000, 8), (50, 8, 40)])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_vectors_and_sequences_are_white(rng, shape, dtype, tolerance):
    layer = bed.nn.ZCAWhitening1d(8, num_groups=2, eps=0, dtype=dtype)
    y = layer(batch(rng, shape, dtype, mean=3.0))
    assert (covariances(y) - torch.eye(4)).abs().max() < tolerance
    assert y.shape == shape and y.is_contiguous()


def test_many_samples_of_an_image_are_summed_in_parts(rng):
    x = batch(rng, (1, 4, 512, 512), torch.float32)
    y = functional.zca_whiten(x, group_size=4, eps=0)
    assert (covariances(y) - torch.eye(4)).abs().max() < 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_it_is_the_layer_of_singular_values(rng, dtype, tolerance):
    x = batch(rng, (6, 8, 5, 7), dtype)
    got = functional.zca_whiten(x, group_size=4, eps=1e-3)
    expected = by_svd(x.double(), 4, 1e-3)
    assert (got - expected).abs().max() < tolerance


@pytest.mark.parametrize("track", ["whitening", "covariance"])
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_evaluation_repeats_training(rng, track, axes):
    make = bed.nn.ZCAWhitening2d if axes == 4 else bed.nn.ZCAWhitening1d
    layer = make(8, group_size=4, momentum=1.0, track=track, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.uniform_(0.5, 2)
        layer.bias.normal_()
    x = batch(rng, (40, 8, 5, 6)[:axes])
    trained = layer(x)
    assert (layer.eval()(x) - trained).abs().max() < 1e-12
    other = batch(rng, (30, 8, 5, 6)[:axes])
    apart = layer(torch.cat([x, other]))  # one is not seen by the other
    assert (apart[: len(x)] - trained).abs().max() < 1e-12


def plain(layer):
    """The layer as a function of its input and parameters."""
    names = [name for name, _ in layer.named_parameters()]

    def function(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (x,))

    return function


def repeated(rng, n=6):
    """Two groups of three channels, with covariance 2 I and 3 I."""
    q = torch.linalg.qr(torch.from_numpy(rng.standard_normal((3 * n, 7)))).Q
    q = torch.linalg.qr(torch.cat([torch.ones(3 * n, 1), q], 1)).Q[:, 1:7]
    scales = torch.tensor([2.0] * 3 + [3.0] * 3, dtype=torch.float64).sqrt()
    x = (q * scales * (3 * n) ** 0.5).mT.reshape(6, n, 3)
    return x.movedim(0, 1).contiguous()


def dead(rng):
    x = torch.from_numpy(rng.standard_normal((5, 6, 3)))
    x[:, 1] = 0.25
    return x


@pytest.mark.sweep(3)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["any", "repeated", "dead"])
def test_gradients_of_the_layer(rng, kind, training):
    x = {
        "any": lambda: torch.from_numpy(rng.standard_normal((5, 6, 3))),
        "repeated": lambda: repeated(rng),
        "dead": lambda: dead(rng),
    }[kind]()
    if kind == "repeated":
        expected = torch.eye(3) * torch.tensor([2.0, 3.0])[:, None, None]
        assert (covariances(x, 3) - expected).abs().max() < 1e-13
    layer = bed.nn.ZCAWhitening1d(6, group_size=3, eps=1e-2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.uniform_(0.5, 2)
    layer(x)
    layer.train(training)
    inputs = (x.requires_grad_(), layer.weight, layer.bias)
    assert torch.autograd.gradcheck(plain(layer), inputs, check_forward_ad=True)
    if training:
        assert torch.autograd.gradgradcheck(plain(layer), inputs)


@pytest.mark.parametrize("outputs", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
def test_moments_have_gradients_one_by_one(rng, outputs):
    """Each output may be unused, which saves a pass."""
    x = torch.from_numpy(rng.standard_normal((3, 2, 2, 4))).requires_grad_()

    def function(x):
        found = bed.nn._moments.moments(x)
        chosen = (found.centred, found.mean, found.scatter)
        return tuple(chosen[i] for i in outputs)

    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize(
    "gradient", ["taylor", "pade", "power_iteration", "truncated", "exact"]
)
def test_methods_of_the_literature(rng, gradient):
    """They are close to the exact gradient where eigenvalues are far apart."""
    x = batch(rng, (40, 4, 3), condition=1e4).requires_grad_()
    g = torch.from_numpy(rng.standard_normal(x.shape))
    results = []
    for method in (gradient, "exact"):
        layer = bed.nn.ZCAWhitening1d(
            4, group_size=4, gradient=method, degree=60, dtype=torch.float64
        )
        y = layer(x)
        results.append((y, torch.autograd.grad(y, x, g)[0]))
    (y, by_x), (exact, exact_by_x) = results
    assert (y - exact).abs().max() < 1e-9
    assert (by_x - exact_by_x).abs().max() < 1e-3 * exact_by_x.abs().max()
    assert (gradient == "exact") == torch.equal(by_x, exact_by_x)
    assert ("gradient" in repr(layer)) is False


def test_degenerate_batches_are_finite(rng):
    """One sample, channels that are dead or alike, and fewer samples than channels."""
    few = torch.from_numpy(rng.standard_normal((2, 8, 1, 1)).astype("f4"))
    alike = torch.from_numpy(rng.standard_normal((4, 1, 3, 3)).astype("f4"))
    for x in (few[:1], few, alike.expand(4, 8, 3, 3), torch.full((4, 8, 3, 3), 300.0)):
        layer = bed.nn.ZCAWhitening2d(8, group_size=4)
        x = x.clone().requires_grad_()
        y = layer(x)
        y.square().sum().backward()
        assert y.isfinite().all() and x.grad.isfinite().all()
        assert layer.eval()(x).isfinite().all()
    assert torch.equal(layer.running_mean, torch.full((8,), 30.0))
    singular = functional.zca_whiten(alike.expand(4, 8, 3, 3), group_size=4, eps=0)
    assert singular.isfinite().all()


@pytest.mark.parametrize("shape", [(0, 8, 3, 3), (2, 8, 0, 3)])
def test_an_empty_batch_changes_nothing(shape):
    layer = bed.nn.ZCAWhitening2d(8, group_size=4)
    before = {name: x.clone() for name, x in layer.state_dict().items()}
    x = torch.zeros(shape, requires_grad=True)
    y = layer(x)
    assert y.shape == shape
    y.sum().backward()
    assert x.grad.shape == shape and not layer.weight.grad.any()
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert layer.eval()(x).shape == shape


@pytest.mark.parametrize("track", ["whitening", "covariance"])
@pytest.mark.parametrize("momentum", [0.25, None])
def test_running_statistics(rng, momentum, track):
    layer = bed.nn.ZCAWhitening1d(
        4, group_size=2, momentum=momentum, track=track, dtype=torch.float64
    )
    mean, matrix = torch.zeros(4), torch.eye(2).expand(2, 2, 2)
    for i in range(3):
        x = batch(rng, (50, 4), mean=i, size=2)
        layer(x)
        share = momentum or 1 / (i + 1)
        s = covariances(x, 2)
        if track == "whitening":
            w, v = torch.linalg.eigh(s + layer.eps * torch.eye(2))
            s = v * w.rsqrt()[:, None, :] @ v.mT
        mean = mean + share * (x.mean(0) - mean)
        matrix = matrix + share * (s - matrix)
    assert layer.num_batches_tracked == 3
    assert (layer.running_mean - mean).abs().max() < 1e-12
    assert (getattr(layer, f"running_{track}") - matrix).abs().max() < 1e-12
    layer.reset_running_stats()
    assert layer.num_batches_tracked == 0 and not layer.running_mean.any()
    identity = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    assert torch.equal(getattr(layer, f"running_{track}"), identity)


def test_without_statistics_evaluation_is_training(rng):
    layer = bed.nn.ZCAWhitening1d(
        4, num_groups=1, track_running_stats=False, affine=False
    )
    assert not layer.state_dict() and not list(layer.parameters())
    x = batch(rng, (30, 4), torch.float32)
    assert torch.equal(layer(x), layer.eval()(x))
    layer.reset_parameters()


def test_states_load(rng):
    layer = bed.nn.ZCAWhitening1d(4, num_groups=2)
    layer(batch(rng, (30, 4), torch.float32, size=2))
    state = layer.state_dict()
    expected = ["weight", "bias", "running_mean", "running_whitening"]
    assert list(state) == [*expected, "num_batches_tracked"]
    assert state._metadata[""]["version"] == 1
    other = bed.nn.ZCAWhitening1d(4, num_groups=2)
    other.load_state_dict(state)
    x = batch(rng, (30, 4), torch.float32, size=2)
    assert torch.equal(layer.eval()(x), other.eval()(x))
    uncounted = {name: state[name] for name in expected}  # without a version
    other.load_state_dict(uncounted)
    assert other.num_batches_tracked == 0
    with pytest.raises(RuntimeError, match="running_covariance"):
        bed.nn.ZCAWhitening1d(4, num_groups=2, track="covariance").load_state_dict(
            state
        )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "num_groups or group_size"),
        ({"num_groups": 2, "group_size": 4}, "and not both"),
        ({"group_size": 3}, "group_size must divide the 8 channels, got 3"),
        ({"num_groups": 0}, "num_groups must be a whole number"),
        ({"group_size": 4, "eps": -1}, "eps must be a number from 0 on"),
        ({"group_size": 4, "momentum": 2}, "momentum must be at most 1"),
        ({"group_size": 4, "track": "variance"}, "track must be 'whitening' or"),
        ({"group_size": 4, "gradient": "best"}, "gradient must be one of"),
        ({"group_size": 4, "degree": -1}, "degree must not be negative"),
    ],
)
def test_arguments_that_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        bed.nn.ZCAWhitening2d(8, **options)


@pytest.mark.parametrize(
    ("x", "error", "sentence"),
    [
        (torch.zeros(2, 8, 3, 3, dtype=torch.complex64), TypeError, "real and imagin"),
        (torch.zeros(2, 8, 3, 3, dtype=torch.int32), TypeError, "floating point input"),
        (torch.zeros(2, 4, 3, 3), ValueError, r"expected input \(N, 8, H, W\), got"),
        (torch.zeros(8, 3, 3), ValueError, r"got shape \(8, 3, 3\)"),
    ],
)
def test_inputs_that_are_refused(x, error, sentence):
    with pytest.raises(error, match=sentence):
        bed.nn.ZCAWhitening2d(8, group_size=4)(x)
