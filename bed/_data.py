"""The real matrices that ship with the package, with their exact eigenvalues."""

from importlib.resources import files

import numpy as np


def real_matrices() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Stacks of matrices that were measured or computed from first principles.

    Returns
    -------
    dict
        Name to ``(a, w)``: matrices ``(batch, n, n)`` in float32, float64 or complex128
        and their eigenvalues ``(batch, n)``, computed with 60 digits and rounded to
        float64. `data/real_matrices.md` says where each comes from.

    Examples
    --------
    >>> from bed._data import real_matrices
    >>> a, w = real_matrices()["dti"]
    >>> a.shape, w.shape
    ((1760, 3, 3), (1760, 3))
    """
    with (files("bed") / "data" / "real_matrices.npz").open("rb") as file:
        arrays = dict(np.load(file))
    names = [name for name in arrays if not name.endswith("_w")]
    return {name: (arrays[name], arrays[name + "_w"]) for name in names}
