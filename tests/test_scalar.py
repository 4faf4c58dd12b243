"""The scalar maths as plain Python, which needs no compiler."""

import math

import numpy as np
import pytest

from bed._derivative import divided_differences
from bed._functions import Function, Spectral
from bed.engines._constants import constants
from bed.engines.scalar import reflectors, rotations, shifts
from bed.engines.scalar.functions import power_difference
from bed.engines.scalar.two_by_two import two_by_two

TINY = float(np.finfo("f8").tiny)


def test_givens_turns_a_pair_onto_the_first_axis(rng):
    for g, f in [*rng.standard_normal((200, 2)), (0, 1), (1, 0), (-1, 0), (0, -2)]:
        c, s, r = rotations.givens(g, f, TINY, 0.0, 1.0)
        assert math.isclose(c * g + s * f, r, rel_tol=1e-14)
        assert abs(c * f - s * g) <= 1e-15 * r
        assert math.isclose(c * c + s * s, 1, rel_tol=1e-14)
        assert math.isclose(r, math.hypot(g, f), rel_tol=1e-14)


@pytest.mark.parametrize("g, f", [(0.0, 0.0), (1e-170, -1e-170)])
def test_givens_of_nothing_is_the_identity(g, f):
    assert rotations.givens(g, f, TINY, 0.0, 1.0) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_reflector_maps_a_vector_to_a_real_multiple_of_e1(rng, m, complex_):
    for _ in range(50):
        x = rng.standard_normal(m) + 1j * complex_ * rng.standard_normal(m)
        tail = (abs(x[1:]) ** 2).sum()
        beta, tau_r, tau_i, scale_r, scale_i = reflectors.reflector(
            x[0].real, x[0].imag, tail, TINY, 0.0, 1.0
        )
        v = x * complex(scale_r, scale_i)
        v[0] = 1
        h = np.eye(m) - complex(tau_r, tau_i) * np.outer(v, v.conj())
        image = np.zeros(m)
        image[0] = beta
        np.testing.assert_allclose(h.conj().T @ x, image, atol=1e-14)
        np.testing.assert_allclose(h.conj().T @ h, np.eye(m), atol=1e-14)


@pytest.mark.parametrize("first", [0.0, -3.0, 2.5])
def test_reflector_of_a_vector_that_is_there_already_is_the_identity(first):
    result = reflectors.reflector(first, 0.0, 0.0, TINY, 0.0, 1.0)
    assert result == (first, 0.0, 0.0, 0.0, 0.0)


def test_wilkinson_shift_is_the_eigenvalue_nearer_to_the_corner(rng):
    blocks = [*rng.standard_normal((200, 3)), (1, 2, 1), (1, 1e-9, 1), (0, -1, 0)]
    blocks += [(5, 1e-12, -5), (-5, 1e-12, 5), (1e-100, 1e-100, 0)]
    for a, b, c in blocks:
        mu = shifts.wilkinson_shift(a, b, c, 0.5, 0.0)
        w = np.linalg.eigvalsh([[a, b], [b, c]])
        nearest = w[np.argmin(abs(w - c))]
        others = w[np.isclose(abs(w - c), abs(nearest - c), rtol=1e-12)]
        assert np.isclose(others, mu, rtol=1e-13, atol=1e-15 * abs(w).max()).any()
        if a == c:
            assert math.isclose(mu, w[0], rel_tol=1e-15)


def test_two_by_two_is_diagonalised_by_a_small_rotation(rng):
    blocks = [*rng.standard_normal((200, 3)), (1, 2, 1), (1, 1e-9, 1), (0, -1, 0)]
    blocks += [(5, 1e-12, -5), (-5, 1e-12, 5), (1, 1e-9, 1e-18), (1, 0, 1), (0, 0, 0)]
    for a, b, c in blocks:
        cosine, sine, step = two_by_two(a, b, c, 0.5, 0.0, 1.0)
        assert cosine >= abs(sine)
        rotation = np.array([[cosine, sine], [-sine, cosine]])
        t = rotation @ [[a, b], [b, c]] @ rotation.T
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(2), atol=1e-15)
        size = max(abs(a), abs(b), abs(c))
        np.testing.assert_allclose(
            t, np.diag([a + step, c - step]), atol=2e-15 * size, rtol=0
        )


def test_two_by_two_of_a_singular_matrix_is_exact():
    for p, q in np.ndindex(10, 10):
        _, _, step = two_by_two(p * p, p * q, q * q, 0.5, 0.0, 1.0)
        assert sorted([p * p + step, q * q - step]) == [0, p * p + q * q]


@pytest.mark.parametrize("exponent", [-300, -150, 0, 150, 280, 298, 305])
@pytest.mark.parametrize("steps", [-200, -1, 1, 3, 300])
def test_squares_of_nearly_opposite_numbers(exponent, steps):
    """(a² − b²)/(a − b) is a + b, whose factors may be subnormal on the way."""
    a = np.float64(1.7 * 10.0**exponent)
    b = -a - steps * np.spacing(a)
    const = constants(np.dtype("f8"))
    with np.errstate(over="ignore", under="ignore"):  # the squares themselves
        found = power_difference(max(a, b), min(a, b), 2.0, const)
    assert math.isclose(found, a + b, rel_tol=16 * np.finfo("f8").eps)
    first = divided_differences.first(Spectral(Function.POWER, 2), np.array([b, a]))
    assert math.isclose(first[0, 1], a + b, rel_tol=16 * np.finfo("f8").eps)
