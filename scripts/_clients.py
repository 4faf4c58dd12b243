"""Libraries that decompose many small matrices: what `clients.py` runs of each."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Client:
    """What a recipe is for: a package, its modules, its tests, and a call."""

    package: str
    modules: tuple[str, ...]  # what the recipe changes lies in or under these
    tests: tuple[str, ...]  # in a checkout, or modules of the package
    call: str
    hot: Callable[[], Callable[[], object]]
    known: dict[str, str] = field(default_factory=dict)  # test: why it changes


def spd(count: int, n: int) -> np.ndarray:
    """Covariances of random signals."""
    x = np.random.default_rng(0).standard_normal((count, n, 3 * n))
    return x @ x.swapaxes(-1, -2) / (3 * n)


def pyriemann():
    from pyriemann.geometry.mean import mean_riemann

    a = spd(1000, 8)
    return lambda: mean_riemann(a)


def dipy():
    from dipy.reconst.dti import decompose_tensor

    a = spd(50_000, 3)
    return lambda: decompose_tensor(a)


def localpca():
    import dipy.denoise.localpca as localpca

    image = 1 + abs(np.random.default_rng(0).standard_normal((24, 10, 8, 33)))
    return lambda: localpca.genpca(image, sigma=0.5)


def skimage():
    from skimage.feature import hessian_matrix_eigvals

    elements = np.random.default_rng(0).standard_normal((6, 48, 48, 48))
    return lambda: hessian_matrix_eigvals(elements)


def geoopt():
    import geoopt
    import torch

    manifold = geoopt.SymmetricPositiveDefinite()
    x, y = torch.from_numpy(spd(10_000, 4)).chunk(2)
    return lambda: manifold.dist(x, y)


def kornia():
    import torch
    from kornia.geometry.epipolar import triangulate_points

    torch.manual_seed(0)
    cameras = torch.rand(2, 1, 3, 4)
    points = torch.rand(2, 1, 20_000, 2)
    return lambda: triangulate_points(*cameras, *points)


def spd_learn():
    import torch
    from spd_learn.modules import LogEig

    layer, x = LogEig(), torch.from_numpy(spd(2000, 16))
    return lambda: layer(x)


def crystal():
    """Rock salt, with forces that are random."""
    from phonopy import Phonopy
    from phonopy.structure.atoms import PhonopyAtoms

    faces = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    cell = PhonopyAtoms(
        symbols=["Na"] * 4 + ["Cl"] * 4,
        cell=5.7 * np.eye(3),
        scaled_positions=np.concatenate([faces, faces + 0.5]),
    )
    phonon = Phonopy(cell, supercell_matrix=np.eye(3, dtype=int), log_level=0)
    phonon.force_constants = spd(1, 24)[0].reshape(8, 3, 8, 3).swapaxes(1, 2).copy()
    return phonon


def phonopy():
    phonon = crystal()

    def mesh():
        phonon.run_mesh([16, 16, 16], with_eigenvectors=True, is_mesh_symmetry=False)
        return phonon.get_mesh_dict()["frequencies"]

    return mesh


def band_structure():
    phonon = crystal()
    paths = np.random.default_rng(0).uniform(0, 0.5, (4, 100, 3))

    def bands():
        phonon.run_band_structure(paths, with_eigenvectors=True)
        return tuple(phonon.get_band_structure_dict()["frequencies"])

    return bands


def pyroomacoustics():
    from pyroomacoustics import circular_2D_array
    from pyroomacoustics.doa import MUSIC

    microphones = circular_2D_array([0, 0], 16, 0, 0.1)
    search = MUSIC(microphones, 16_000, 1024, num_src=2, n_grid=36)
    real, imaginary = np.random.default_rng(0).standard_normal((2, 16, 513, 8))

    def spectrum():
        search.locate_sources(real + 1j * imaginary, freq_bins=np.arange(10, 500))
        return search.grid.values

    return spectrum


# Under the headings of the recipes: the distribution, and what behind a comma.
CLIENTS = {
    "pyRiemann": Client(
        "pyriemann",
        ("array_api_compat", "pyriemann"),
        ("tests/test_*.py",),
        "mean_riemann 1000 × 8",
        pyriemann,
    ),
    "dipy": Client(
        "dipy",
        ("dipy",),
        ("dipy.reconst.tests.test_dti", "dipy.reconst.tests.test_fwdti"),
        "decompose_tensor 50000 × 3",
        dipy,
    ),
    "dipy, local PCA": Client(
        "dipy",
        ("dipy",),
        ("dipy.denoise.tests.test_lpca",),
        "genpca 1280 × 33",
        localpca,
    ),
    "scikit-image": Client(
        "skimage",
        ("skimage",),
        ("tests/skimage/feature/test_*.py", "tests/skimage/filters/test_*.py"),
        "hessian_matrix_eigvals 48³ × 3",
        skimage,
    ),
    "geoopt": Client(
        "geoopt",
        ("geoopt",),
        # All take a quarter of an hour; these are about matrices.
        (
            "tests/test_manifold_basic.py",
            "tests/test_random.py",
            "tests/test_siegel_distance.py",
            "tests/test_spd_norm.py",
            "tests/test_takagi_factorization.py",
        ),
        "SPD dist 5000 × 4",
        geoopt,
    ),
    "kornia": Client(
        "kornia",
        ("kornia",),
        ("tests/geometry/epipolar/test_*.py",),
        "triangulate_points 20000 × 4",
        kornia,
    ),
    "spd_learn": Client(
        "spd_learn",
        ("spd_learn",),
        ("tests/test_[!c]*.py",),  # test_correctness needs braindecode
        "LogEig 2000 × 16",
        spd_learn,
    ),
    "phonopy": Client(
        "phonopy",
        ("phonopy",),
        ("test",),
        "run_mesh 4096 × 6",
        phonopy,
    ),
    "phonopy, band structures": Client(
        "phonopy",
        ("phonopy",),
        ("test/phonon/test_band_structure.py", "test/api/test_api_phonopy.py"),
        "run_band_structure 400 × 6",
        band_structure,
    ),
    "pyroomacoustics": Client(
        "pyroomacoustics",
        ("pyroomacoustics",),
        ("tests/doa/*.py",),
        "MUSIC 490 × 16",
        pyroomacoustics,
    ),
}


def distribution(name: str) -> str:
    """What pip calls the library that a recipe is for."""
    return name.partition(",")[0]
