"""The scalar maths of the fused CUDA engine is that of the others, by the emulator."""

import math
import re

import numpy as np
import pytest

import cuda_emulator
import emulated
from bed._functions import Function
from bed.engines._constants import constants
from bed.engines.scalar import functions as scalar
from cuda_emulator import Buffer
from matrix_functions import FUNCTIONS

pytestmark = pytest.mark.skipif(
    cuda_emulator.missing() is not None,
    reason=f"the CUDA emulator {cuda_emulator.missing()}",
)

PROBE = """#include "functions.cuh"
template <typename R>
__global__ void probe(const R* x, const R* y, R* values, R* differences, int count,
                      int function, double p, double q) {
  const bed::Parameters<R> f{function, R(p), R(q)};
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    values[i] = bed::value(f, x[i]);
    differences[i] = bed::difference(f, x[i], y[i]);
  }
}
"""


def _pairs(rng, dtype, *, signs):
    """Arguments over the whole range, with all gaps, and zeros."""
    limits = np.finfo(dtype)
    decades = 37 if dtype == "f4" else 300
    x = 10.0 ** rng.uniform(-decades, decades, 300)
    gaps = 10.0 ** rng.uniform(math.log10(limits.eps), 2, 300)
    x = np.concatenate([x, rng.uniform(0, 4, 300), [0, 1, 2, 0, 1, float(limits.tiny)]])
    y = x * (1 + np.concatenate([gaps, gaps, [0, 0, 0, 1, 1, 1]]))
    y[:40], y[-4] = rng.permutation(x[:40]), 3
    x, y = x.astype(dtype), np.minimum(y, float(limits.max)).astype(dtype)
    if signs:
        x, y = x * rng.choice([-1, 1], x.size), y * rng.choice([-1, 1], y.size)
    return x.astype(dtype), np.where(y == -x, x, y).astype(dtype)


@pytest.fixture(scope="module")
def probes(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "probe.cu"
    path.write_text(PROBE)
    names = ["probe<float>", "probe<double>"]
    found = cuda_emulator.load_many(path, names, (emulated.SOURCES,))
    return dict(zip(("f4", "f8"), found, strict=True))


def _matches(found, expected, dtype, units):
    """Whether numbers agree to some eps, or to some of the smallest numbers."""
    limits = np.finfo(dtype)
    found, expected = found.astype("g"), np.asarray(expected, "g")
    largest = np.longdouble(limits.max)
    with np.errstate(over="ignore", invalid="ignore"):
        near = abs(found - expected) <= units * limits.eps * abs(expected)
        near |= abs(found - expected) <= units * np.longdouble(
            limits.smallest_subnormal
        )
        edge = (abs(found) > largest / 2) & (abs(expected) > largest / 2)
        edge &= np.sign(found) == np.sign(expected)
    return near | edge | (found == expected) | (np.isnan(found) & np.isnan(expected))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_scalar_maths_is_that_of_python(rng, probes, name, dtype):
    """On the same numbers, in the precision of the matrix and in a larger one."""
    spec = FUNCTIONS[name]
    x, y = _pairs(rng, dtype, signs=not spec.has_domain)
    if spec.is_singular:
        x, y = (
            np.where(x == 0, 1, x).astype(dtype),
            np.where(y == 0, 2, y).astype(dtype),
        )
    values, differences = Buffer(x.shape, dtype), Buffer(x.shape, dtype)
    arguments = [Buffer.of(x), Buffer.of(y), values, differences, x.size]
    arguments += [int(spec.function), float(spec.first), float(spec.second)]
    probes[dtype](1, 32, 0, arguments)
    const = constants(np.dtype("f8"))
    p, q = (float(np.dtype(dtype).type(t)) for t in (spec.first, spec.second))
    with np.errstate(all="ignore"):
        rest = spec.function, p, q, const
        expected = [_in_python(scalar.value, s, *rest) for s in x]
        slopes = [
            _in_python(scalar.difference, s, *rest, t)
            for s, t in zip(x, y, strict=True)
        ]
    # Powers are right to four units in the last place on the device, others to two.
    units = 8 if spec.function == Function.POWER else 4
    right = _matches(values.array, expected, dtype, units)
    assert right.all(), (x[~right], values.array[~right])
    units = 32 * max(1, abs(spec.first)) if spec.function == Function.POWER else 8
    right = _matches(differences.array, slopes, dtype, units)
    assert right.all(), (x[~right], y[~right], differences.array[~right])


def _in_python(function, x, code, p, q, const, *more):
    """The twin of float64 numbers, with infinity where Python raises."""
    arguments = (np.float64(t) for t in (x, *more))
    try:
        return function(code, *arguments, p, q, const)
    except OverflowError:
        return np.inf


def test_codes_are_those_of_python():
    text = (emulated.SOURCES / "functions.cuh").read_text()
    body = re.search(r"enum Function : int {(.*?)}", text, re.S)[1]
    found = {k.strip("_"): int(v) for k, v in re.findall(r"(\w+) = (\d+)", body)}
    assert found == {f.name.lower(): f.value for f in Function}
