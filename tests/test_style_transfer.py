"""scripts/applications/style_transfer.py, in its smoke size, and killed."""

import numpy as np
import pytest

from application_runs import killed_and_run_again, module, without_times

torch = pytest.importorskip("torch")
pillow = pytest.importorskip("PIL.Image")
script = module("style_transfer")
decoders = module("_decoders")
images = module("_style_images")
transfer = module("_transfer")
vgg = module("_vgg")
functional = pytest.importorskip("bed.nn.functional")
pytestmark = pytest.mark.usefixtures("steady_process")


def test_smoke(tmp_path, capsys):
    words = ["--smoke", "--out", str(tmp_path), "--solver", "bed", "torch_svd"]
    assert script.main(words) == 0
    found = without_times(tmp_path / "style_transfer.csv")
    told = [(row["groups"], row["solver"]) for row in found]
    assert told == [(g, s) for g in "842" for s in ("bed", "torch_svd")]
    for row in found:
        assert -1 <= float(row["ssim"]) <= 1
        assert all(
            float(row[name]) > 0 for name in ("gram_distance", "covariance_distance")
        )
    levels = [
        row["level"] for row in without_times(tmp_path / "style_transfer_decoders.csv")
    ]
    assert levels == sorted("1234" * 2)
    for end, columns in (("", 5), ("_solvers", 8)):
        with pillow.open(tmp_path / f"style_transfer{end}.webp") as sheet:
            assert sheet.format == "WEBP"
            assert sheet.width / sheet.height == pytest.approx(columns * 1.2, rel=0.02)
    assert "torch_svd" in capsys.readouterr().out


def test_pictures_of_ones_own(tmp_path, rng, capsys):
    paths = [tmp_path / name for name in ("my.png", "painting.jpg")]
    for path, shape in zip(paths, ((37, 50, 3), (64, 40, 3)), strict=True):
        pillow.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(path)
    out = tmp_path / "out.png"
    words = [*map(str, paths), "--smoke", "--decoders", str(tmp_path / "decoders")]
    assert script.main([*words, "--out", str(out)]) == 0
    assert "decoders are trained first" in capsys.readouterr().out
    first = np.asarray(pillow.open(out))
    assert first.shape == (40, 48, 3) and first.std() > 0
    # The second time they are there, with the same result.
    assert script.main([*words, "--out", str(out)]) == 0
    assert "trained" not in capsys.readouterr().out
    assert (np.asarray(pillow.open(out)) == first).all()
    with pytest.raises(SystemExit, match="belongs to another encoder"):
        script.main([*words, "--out", str(out), "--seed", "1"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "there are no data: pass --data FOLDER"),
        (["--data", "."], "holds no vgg16_hed_conv1-4.npz"),
        (["--smoke", "--groups", "3"], "--groups 3 does not divide channels: 8, 16"),
    ],
)
def test_what_is_missing(tmp_path, monkeypatch, words, told):
    monkeypatch.delenv("BED_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=told):
        script.main(["--out", str(tmp_path), *words])


def test_pillow_is_asked_for_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install pillow"):
        script.main(["--smoke", "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("solver", script.SOLVERS)
def test_transform_is_that_of_the_layer(solver):
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(1, 8, *s, generator=generator) for s in ((9, 7), (5, 11)))
    found = transfer.wct(x, y, 0.6, 2, script.roots(solver))
    expected = functional.wct(x, y, 0.6, num_groups=2, eps=transfer.EPS)
    assert (found - expected).abs().max() < 1e-5


def test_all_detail_of_the_same_features_is_the_picture():
    """Also with a decoder that was never trained."""
    encoder = vgg.random_encoder(4, 0)
    decoder = vgg.Decoder(encoder.channels).requires_grad_(False)
    x = torch.rand(1, 3, 16, 24, generator=torch.Generator().manual_seed(5))
    styles = encoder(x)
    found = [
        transfer.stylised(encoder, decoder, x, styles, lambda f, y: f, detail)
        for detail in (1.0, 0.0)
    ]
    assert (found[0] - x).abs().max() < 1e-6 < 0.1 < (found[1] - x).abs().max()


def test_measures():
    generator = torch.Generator().manual_seed(5)
    a = torch.rand(1, 3, 24, 32, generator=generator)
    assert transfer.similarity(a, a) == pytest.approx(1, abs=1e-5)
    assert transfer.similarity(a, 1 - a) < 0
    assert 0 < transfer.similarity(a, 0.9 * a + 0.05) < 1
    features = vgg.random_encoder(4, 0)(a)
    assert set(transfer.distances(features, features).values()) == {0.0}
    # A shift of every sample changes what is not centred alone.
    found = transfer.distances([x + 1 for x in features], features)
    assert found["gram_distance"] > 0.1 > 1e-5 > found["covariance_distance"]


def test_pictures_come_back_from_features(tmp_path):
    """Of the first level, where a convolution loses little."""
    pictures = images.small()
    train, test = list(pictures.photos.values()), list(pictures.paintings.values())
    plan = decoders.Plan((100, 1, 1, 1), 2, 32, 1, 64, 0)
    encoder = vgg.random_encoder(16, 0)
    _, found = decoders.decoder(
        encoder, decoders.Pictures(train, test, ""), plan, tmp_path, 50
    )
    assert found[0]["picture_error"] < 0.2


def test_pictures_of_a_camera_are_upright(tmp_path, rng):
    pixels = rng.integers(0, 256, (2, 3, 3), dtype=np.uint8)
    image, exif = pillow.fromarray(pixels), pillow.Exif()
    exif[0x0112] = 6  # of a camera that was turned to the left
    image.save(tmp_path / "turned.png", exif=exif)
    found = images.read(str(tmp_path / "turned.png")).numpy().transpose(1, 2, 0)
    assert (found == np.rot90(pixels, -1)).all()
    (tmp_path / "no.png").write_bytes(b"no picture")
    for name in ("no.png", "none.png"):
        with pytest.raises(SystemExit, match=f"{name} cannot be read"):
            images.read(str(tmp_path / name))


def test_sheet_is_small(rng):
    sheet = module("_style_sheet")
    noise = rng.integers(0, 256, (500, 1000, 3), dtype=np.uint8)
    assert len(sheet._encoded(pillow.fromarray(noise))) < sheet.LIMIT


@pytest.mark.slow
def test_killed_and_run_again(tmp_path):
    words = ["--smoke", "--solver", "bed", "--every", "1", "--epochs", "4"]
    killed_and_run_again(
        "style_transfer",
        tmp_path,
        words,
        lambda x: (x / "decoders/level2.checkpoint").exists(),
    )
    for name in ("style_transfer.csv", "style_transfer_decoders.csv"):
        killed, steady = (tmp_path / x / name for x in ("killed", "steady"))
        assert without_times(killed) == without_times(steady)
