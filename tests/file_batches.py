"""A batch in a file, and what is found beside it."""

import numpy as np

SMALL = 20_000  # bytes of memory, for many windows of few matrices


def saved_batch(rng, folder):
    """A file of 500 positive definite matrices, one of them NaN, and the array."""
    x = rng.standard_normal((500, 3, 7))
    a = x @ x.swapaxes(1, 2)
    a[103, 1, 1] = np.nan
    np.save(folder / "in.npy", a)
    return folder / "in.npy", a


def results(folder):
    """The arrays in a folder, by name."""
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


def assert_same(found, expected):
    """Names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert found[name].tobytes() == x.tobytes(), name
