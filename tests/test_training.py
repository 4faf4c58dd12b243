"""A network with a decomposition inside learns the same, compiled and not."""

import copy

import numpy as np
import pytest

import bed
from torch_losses import close

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

STEPS, RATE = 5, 0.05


class Whitening(torch.nn.Module):
    """Linear, whitened by the covariance of the batch, linear."""

    def __init__(self, solve):
        super().__init__()
        self.solve = solve
        self.before = torch.nn.Linear(6, 4, dtype=torch.float64)
        self.after = torch.nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, x):
        y = torch.tanh(self.before(x))
        y = y - y.mean(dim=-2, keepdim=True)
        covariance = y.mT @ y / y.shape[-2]
        w, v = self.solve(covariance + 0.1 * torch.eye(4, dtype=y.dtype))
        return self.after(y @ (v * w.rsqrt().unsqueeze(-2)) @ v.mT)


def _train(network, x, target):
    """Losses, last gradient and parameters of a few steps of descent."""
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = ((network(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    parameters = list(network.parameters())
    return torch.stack(losses), [p.grad for p in parameters], parameters


def test_a_compiled_network_learns_as_an_eager_one(rng):
    torch._dynamo.reset()
    x = torch.from_numpy(rng.standard_normal((3, 20, 6)))
    target = torch.from_numpy(rng.standard_normal((3, 20, 2)))
    network = Whitening(bed.eigh)
    other, theirs = copy.deepcopy(network), copy.deepcopy(network)
    theirs.solve = torch.linalg.eigh
    expected = _train(network, x, target)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    for found in (_train(compiled, x, target), _train(theirs, x, target)):
        for one, all_ in zip(found, expected, strict=True):
            close(one, all_, 1e-10)
    losses, gradients, _ = expected
    assert losses[-1] < losses[0]
    assert all(g.abs().max() > 0 for g in gradients)
    torch._dynamo.reset()


def test_a_jitted_step_learns_as_with_jax_itself(rng):
    """Subspaces: a linear map turns the top two axes of its data to given ones."""
    with jax.enable_x64(True):
        x = jax.numpy.asarray(rng.standard_normal((64, 5)) * [1, 2, 3, 4, 5])
        goal = np.diag([1.0, 1, 0, 0, 0])

        def trained(solve):
            def loss(m):
                y = x @ m
                w, v = solve(y.T @ y / len(x))
                p = v[:, -2:] @ v[:, -2:].T
                return ((p - goal) ** 2).sum() + (w / w.sum()).var()

            @jax.jit
            def update(m):
                value, g = jax.value_and_grad(loss)(m)
                return m - RATE * g, value

            m, losses = jax.numpy.eye(5), []
            for _ in range(STEPS):
                m, value = update(m)
                losses.append(float(value))
            return np.asarray(m), losses

        (ours, losses), (theirs, expected) = map(
            trained, (bed.eigh, jax.numpy.linalg.eigh)
        )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(losses, expected, rtol=1e-9)
    assert losses[-1] < losses[0]
