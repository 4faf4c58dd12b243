"""Pictures that applications train on: all forms of CIFAR-10, and batches of them."""

import io
import os
import pickle
import sys
import tarfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from application_runs import module

torch = pytest.importorskip("torch")
data = module("_data")

CLASSES = "airplane", "bird", "cat"


@pytest.fixture
def pixels(rng):
    """Six pictures to train and three to test with."""
    return rng.integers(0, 256, (9, 3, 32, 32), "u1")


def folder_of(path, pixels, suffix=".png"):
    """Folders of classes, each with two pictures to train and one to test with."""
    image = pytest.importorskip("PIL.Image", reason="pictures are read with Pillow")
    for i, x in enumerate(pixels):
        split, number = ("train", i // 2) if i < 6 else ("test", i - 6)
        file = path / split / CLASSES[number] / f"{i:04}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(x.transpose(1, 2, 0)).save(file)
    return path


def batches_of(path, pixels):
    """The files that torchvision keeps."""
    path.mkdir()
    parts = {"data_batch_1": pixels[:4], "data_batch_2": pixels[4:6]}
    for name, x in {**parts, "test_batch": pixels[6:]}.items():
        batch = {b"data": x.reshape(len(x), -1), b"labels": list(range(len(x)))}
        (path / name).write_bytes(pickle.dumps(batch, protocol=2))
    return path


def archive_of(path, folder):
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
        archive.add(folder, arcname=folder.name)
    return path


def read(path, folder):
    found = data.images(path, folder / "cache")
    return found, found.train.pixels.numpy(), found.test.pixels.numpy()


def test_folder_of_classes(pixels, tmp_path):
    folder = folder_of(tmp_path / "pictures", pixels)
    found, train, test = read(folder, tmp_path)
    assert np.array_equal(train, pixels[:6]) and np.array_equal(test, pixels[6:])
    assert found.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.test.labels.tolist() == [0, 1, 2]
    assert found.name == "CIFAR-10"
    assert not (tmp_path / "cache").exists()


def test_archive_is_decoded_once(pixels, tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "pictures", pixels, ".jpg")
    unpacked, train, test = read(folder, tmp_path)
    assert unpacked.name == "CIFAR-10 as JPEG"
    archive_of(tmp_path / "cifar10-jpeg.tar.xz", folder)
    monkeypatch.setenv("BED_DATA", str(tmp_path))
    packed, *same = read(None, tmp_path)
    assert np.array_equal(same[0], train) and np.array_equal(same[1], test)
    assert packed.name == unpacked.name and packed.checksum() == unpacked.checksum()

    decoded, read_again = data.picture, []

    def picture(content, name):
        read_again.append(name)
        return decoded(content, name)

    monkeypatch.setattr(data, "picture", picture)
    assert read(None, tmp_path)[0].checksum() == packed.checksum()
    assert not read_again
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert read(None, tmp_path)[0].checksum() == packed.checksum()
    assert len(read_again) == 9


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_torchvision(pixels, tmp_path, packed):
    path = batches_of(tmp_path / "cifar-10-batches-py", pixels)
    if packed:
        path = archive_of(tmp_path / "cifar-10-python.tar.gz", path)
    for given in (path, tmp_path):
        found, train, test = read(given, tmp_path)
        assert np.array_equal(train, pixels[:6]) and np.array_equal(test, pixels[6:])
        assert found.train.labels.tolist() == [0, 1, 2, 3, 0, 1]
        assert found.name == "CIFAR-10"


class _Command:
    def __reduce__(self):
        return os.mkdir, ("made by a pickled file",)


def test_pickled_files_run_no_code(pixels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = batches_of(tmp_path / "cifar-10-batches-py", pixels)
    (path / "test_batch").write_bytes(pickle.dumps({b"data": _Command()}))
    with pytest.raises(SystemExit, match="mkdir: not read"):
        read(path, tmp_path)
    assert not Path("made by a pickled file").exists()


def test_what_is_missing_is_told(pixels, tmp_path, monkeypatch):
    monkeypatch.delenv("BED_DATA", raising=False)
    with pytest.raises(SystemExit, match="--data PATH, or set BED_DATA"):
        read(None, tmp_path)
    with pytest.raises(SystemExit, match="does not exist"):
        read(tmp_path / "nowhere", tmp_path)
    with pytest.raises(SystemExit, match="holds no train pictures"):
        read(tmp_path, tmp_path)
    (tmp_path / "file").write_bytes(b"no archive")
    with pytest.raises(SystemExit, match="no archive that can be read"):
        read(tmp_path / "file", tmp_path)
    folder_of(tmp_path / "small", pixels[..., :31])
    with pytest.raises(SystemExit, match="is 32 × 31, not 32 × 32"):
        read(tmp_path / "small", tmp_path)
    broken = folder_of(tmp_path / "broken", pixels)
    (broken / "test" / "cat" / "0008.png").write_bytes(b"no picture")
    with pytest.raises(SystemExit, match=r"cat/0008\.png cannot be read"):
        read(broken, tmp_path)
    folder_of(tmp_path / "untested", pixels[:6])
    with pytest.raises(SystemExit, match="holds no test pictures"):
        read(tmp_path / "untested", tmp_path)


def test_without_pillow_it_is_told(pixels, tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "pictures", pixels)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SystemExit, match="pip install pillow"):
        read(folder, tmp_path)


def test_generated_pictures_tell_their_class():
    train, test, name = data.generated()
    assert name == "generated" and len(train.labels) == 512 and len(test.labels) == 256
    colours = [part.pixels.double().mean((2, 3)) for part in (train, test)]
    of_class = torch.stack([colours[0][train.labels == i].mean(0) for i in range(10)])
    found = torch.cdist(colours[1], of_class).argmin(1)
    assert (found == test.labels).double().mean() > 0.9


def test_batches_go_on_from_their_state():
    part = data.generated(40, 10).train
    steady = data.Batches(part, 8, seed=3)
    expected = [batch for _ in range(2) for batch in steady]
    stopped = data.Batches(part, 8, seed=3)
    found = list(islice(stopped, 2))
    kept = io.BytesIO()
    torch.save(stopped.state_dict(), kept)
    kept.seek(0)
    again = data.Batches(part, 8, seed=4)
    again.load_state_dict(torch.load(kept))
    found += [*again, *again]
    assert len(found) == len(expected) == 10
    for (x, y), (u, v) in zip(found, expected, strict=True):
        assert torch.equal(x, u) and torch.equal(y, v)
    orders = [torch.cat([y for _, y in expected[i : i + 5]]) for i in (0, 5)]
    assert not torch.equal(*orders)
    assert torch.equal(orders[0].bincount(), orders[1].bincount())


def test_too_few_pictures_for_a_batch():
    with pytest.raises(SystemExit, match="24 pictures make no batch of 25"):
        data.Batches(data.generated(24, 8).train, 25, seed=0)


def test_crops_and_flips():
    x = torch.from_numpy(
        np.random.default_rng(5).integers(1, 256, (64, 3, 32, 32), "u1")
    )
    found = data.crop_and_flip(x, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    seen = set()
    for one, of in zip(found, padded, strict=True):
        views = {
            (i, j, flip): of[:, i : i + 32, j : j + 32].flip([-1] * flip)
            for i in range(9)
            for j in range(9)
            for flip in (0, 1)
        }
        (view,) = (name for name, view in views.items() if torch.equal(view, one))
        seen.add(view)
    assert {flip for _, _, flip in seen} == {0, 1}
    assert {i for i, _, _ in seen} == {j for _, j, _ in seen} == set(range(9))
