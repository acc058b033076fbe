"""Pictures in and out: what is read from image files, what is done to pixels, and what is shown of a counterexample."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from command import REAL, run
from PIL import Image
from test_cli_robust import classifier

from netproof.cli.robust.files import read_picture
from netproof.cli.robust.preprocess import read_preprocessing
from netproof.cli.show.picture import FRAME, GAP, HEAD, MARGIN, PANEL, draw_counterexample
from netproof.cli.show.summary import summary
from netproof.core.shown.seen import Seen
from netproof.errors import UsageError
from netproof.run.record import Record

GREY, COLOUR = (1, 1, 2, 2), (1, 3, 2, 2)
PIXELS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], dtype=np.uint8)


def transparent(image: Image.Image) -> Image.Image:
    image.putalpha(Image.fromarray(np.array([[0, 255], [255, 255]], dtype=np.uint8)))
    return image


KINDS: dict[str, tuple[Callable[[Image.Image], Image.Image], tuple[int, ...], object, str]] = {
    "colours as they are": (lambda image: image, COLOUR, PIXELS, ""),
    "a palette": (lambda image: image.convert("P"), COLOUR, PIXELS, ""),
    "opaque": (lambda image: image.convert("RGBA"), COLOUR, PIXELS, ""),
    "transparent": (transparent, COLOUR, np.where(np.eye(2)[..., None] * [[[1], [0]]] > 0, 255, PIXELS), "white"),
    "grey of colours": (lambda image: image, GREY, [[76, 150], [29, 255]], "converted to grey"),
    "colours of grey": (
        lambda image: image.convert("L"),
        COLOUR,
        np.array([[76, 150], [29, 255]])[..., None] * np.ones(3),
        "three equal channels",
    ),
    "black and white": (lambda image: image.convert("L").convert("1", dither=0), GREY, [[0, 255], [0, 255]], ""),
    "scaled": (lambda image: image.resize((4, 4), Image.Resampling.NEAREST), COLOUR, None, "scaled from 4x4 to 2x2"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_fit_the_network(kind: str, tmp_path: Path) -> None:
    change, shape, expected, note = KINDS[kind]
    change(Image.fromarray(PIXELS)).save(tmp_path / "x.png")
    found = read_picture(str(tmp_path / "x.png"), shape, resize=kind == "scaled")
    assert (note in " ".join(found.notes)) if note else not found.notes
    assert found.white == 255
    if expected is not None:
        np.testing.assert_array_equal(found.pixels, expected)
    assert found.pixels.shape == ((2, 2, 3) if shape == COLOUR else (2, 2))


def test_a_jpeg_lies_as_its_camera_was_held(tmp_path: Path) -> None:
    tall = np.zeros((4, 2, 3), dtype=np.uint8)
    tall[:2] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.fromarray(tall).resize((16, 32), Image.Resampling.NEAREST).save(tmp_path / "x.jpg", exif=exif, quality=100)
    found = read_picture(str(tmp_path / "x.jpg"), (1, 3, 16, 32), resize=False)
    assert found.pixels.shape == (16, 32, 3)
    assert found.pixels[:, -4:].min() > 200 > 50 > found.pixels[:, :4].max()


def test_transparency_of_many_bits_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((2, 2), dtype=np.uint16)).save(tmp_path / "x.png", transparency=7)
    with pytest.raises(UsageError, match="transparency of colour mode I;16"):
        read_picture(str(tmp_path / "x.png"), GREY, resize=False)


def test_what_is_no_image_is_not_scaled(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "x.png")
    with pytest.raises(UsageError, match="is not an image"):
        read_picture(str(tmp_path / "x.png"), (1, 12), resize=True)


def png_of_16_bits(colour_type: int, samples: int) -> bytes:
    """Make a PNG of one pixel by hand: Pillow writes none with colours of 16 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 16, colour_type, 0, 0, 0)
    pixels = zlib.compress(b"\0" + b"\x80\xff" * samples)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("colour_type", "samples"), [(2, 3), (4, 2), (6, 4)], ids=["RGB", "grey and alpha", "RGBA"])
def test_colours_of_16_bits_are_not_cut(colour_type: int, samples: int, tmp_path: Path) -> None:
    """What is proved must be about the picture, not about its upper bytes."""
    (tmp_path / "x.png").write_bytes(png_of_16_bits(colour_type, samples))
    with pytest.raises(UsageError, match="16 bits are not read exactly"):
        read_picture(str(tmp_path / "x.png"), (1, 3, 1, 1), resize=False)


def test_grey_of_16_bits_is_read_exactly(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png_of_16_bits(0, 1))
    found = read_picture(str(tmp_path / "x.png"), (1, 1, 1, 1), resize=False)
    assert (found.pixels.item(), found.white) == (0x80FF, 65535)


@pytest.mark.parametrize("given", [("", None), (None, ""), ("mnist", "")], ids=str)
def test_a_variable_that_is_not_set_is_not_no_preprocessing(given: tuple[str | None, str | None]) -> None:
    name, empty = ("mnist", "") if given[0] == "mnist" else (None, given[0])
    with pytest.raises(UsageError):
        read_preprocessing(name, empty, given[1], resize=False)


def test_preprocessing_is_given_once(tmp_path: Path) -> None:
    mean, std = Fraction("0.485"), Fraction("0.229")
    named = read_preprocessing("imagenet", None, None, resize=False)
    assert named.mean is not None
    assert named.std is not None
    assert (named.mean[0], named.std[0]) == (mean, std)
    file = tmp_path / "p.json"
    file.write_text('{"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "size": 224}')
    assert read_preprocessing(str(file), None, None, resize=False) == named
    file.write_text('{"mean": 0.5, "std": 0.25}')
    assert read_preprocessing(str(file), None, None, resize=True).mean == (Fraction(1, 2),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "neither a name nor a file.*names are cifar10"),
        ("{", "not readable JSON"),
        ("[1]", "not an object"),
        ('{"mean": [0.5]}', "std is not a list of numbers"),
        ('{"mean": [0.5], "std": [0]}', "std is not positive"),
        ('{"mean": ["a"], "std": [1]}', "mean: .*is not a number"),
        ('{"mean": [], "std": [1]}', "mean is not a list"),
    ],
)
def test_bad_preprocessing_is_said(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_preprocessing(str(file), None, None, resize=False)


def test_preprocessing_is_not_said_twice() -> None:
    with pytest.raises(UsageError, match="--preprocess already sets the mean"):
        read_preprocessing("mnist", "0.5", None, resize=False)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Seen(3, 5, 0.1), "read as 3 (was 5), changed by at most 0.1"),
        (Seen(5, 5, 0.1), "still read as 5, changed by at most 0.1"),
        (Seen(None, None, 1 / 3), "changed by at most 0.3333"),
        (Seen(3, 5, 0.1, start="middle"), "read as 3 (was 5 in the middle), changed by at most 0.1"),
    ],
)
def test_a_counterexample_in_words(seen: Seen, words: str) -> None:
    assert seen.words == words
    assert words in summary(Record(verdict="sat"), method="auto", device="cpu", seen=seen)


def panels(drawn: bytes) -> list[np.ndarray]:
    with Image.open(io.BytesIO(drawn)) as file:
        pixels = np.asarray(file)
    lefts = [MARGIN + k * (PANEL + GAP) for k in range(3)]
    return [pixels[HEAD : HEAD + PANEL, left : left + PANEL] for left in lefts]


def test_colours_and_numbers_of_any_range_are_drawn() -> None:
    original = np.zeros((2, 4, 3))
    original[0, 0] = [-2.0, 0.0, 2.0]
    broken = original.copy()
    broken[1, 3, 0] += 0.5
    drawn = draw_counterexample(
        title="x" * 400,
        original=original,
        broken=broken,
        scores=np.array([1.0]),
        broken_scores=np.array([-1.0]),
        label=0,
    )
    first, second, change = panels(drawn)
    assert first[100, 10].tolist() == [0, 128, 255]  # stretched, both alike
    assert second[200, 270].tolist() == [159, 128, 128]
    assert change[100, 10].tolist() == [128, 128, 128]
    assert change[200, 270].tolist() == [255, 128, 128]
    assert first[10, 10].tolist() == list(FRAME)  # twice as wide as it is high


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that reads a picture as 1 where it is bright at the left, else as 0."""
    folder = tmp_path_factory.mktemp("asked")
    classifier(folder / "m.onnx", GREY, np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]))
    Image.fromarray(np.array([[120, 100], [110, 100]], dtype=np.uint8)).save(folder / "x.png")
    box = "".join(f"(assert (>= X_{i} 0.3))(assert (<= X_{i} 0.5))" for i in range(4))
    declared = "".join(f"(declare-const {v} Real)" for v in ("X_0", "X_1", "X_2", "X_3", "Y_0", "Y_1"))
    (folder / "p.vnnlib").write_text(f"{declared}{box}(assert (>= Y_0 (+ Y_1 0.1)))")
    return folder


def test_robust_shows_its_counterexample(asked: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.png", "--eps", "0.1", "--picture", "p.png", "--json", "j.json")
    done = run(*robust, "--device", "cpu", engine=REAL, cwd=asked)
    assert done.stdout.startswith("sat\n((X_0")  # a pipe has the witness
    assert "saved to p.png\n  read as 0 (was 1), changed by at most 0.1\n" in done.stderr
    found = json.loads((asked / "j.json").read_text())["robustness"]
    assert (found["label"], found["predicted"]) == (1, 1)  # the label is what the network reads
    assert found["counterexample"]["read_as"] == 0
    assert found["counterexample"]["changed"] <= 0.1000001
    first, second, change = panels((asked / "p.png").read_bytes())
    assert first[10, 10].tolist() == [120] * 3
    assert second[10, 10].max() < 120
    assert change[10, 10, 2] > change[10, 10, 0]  # darker there is blue
    assert "warning" not in done.stderr


def test_verify_draws_the_middle_of_the_input_set(asked: Path) -> None:
    verify = ("verify", "m.onnx", "p.vnnlib", "--picture", "v.png", "--device", "cpu")
    done = run(*verify, engine=REAL, cwd=asked)
    assert done.stdout.startswith("sat\n")
    assert "  read as 0" in done.stderr.replace("still ", "")
    assert "changed by at most 0.1\n" in done.stderr
    assert panels((asked / "v.png").read_bytes())[0][10, 10].tolist() == [102] * 3


@pytest.mark.parametrize(
    ("how", "why"), [("raise", "ZeroDivisionError: no room for the picture"), ("slow", "the run ended before that")]
)
@pytest.mark.parametrize("command", ["verify", "robust"])
def test_a_picture_takes_nothing_from_the_answer(command: str, how: str, why: str, asked: Path) -> None:
    about = ("p.vnnlib",) if command == "verify" else ("--image", "x.png", "--eps", "0.1", "--label", "1")
    ending = ("--timeout", "1.5", "--device", "cpu", "--picture", "lost.png")
    done = run(command, "m.onnx", *about, *ending, engine="image", cwd=asked, FAKE_PICTURE=how)
    assert done.stdout.startswith("sat\n((X_0"), done.stderr
    assert f"lost.png: --picture: the counterexample could not be drawn: {why} (the answer stands" in done.stderr
    assert done.returncode == 2  # a file that was asked for is not there
    assert not (asked / "lost.png").exists()


def test_an_image_that_is_misread_asks_for_its_preprocessing(asked: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.png", "--eps", "0", "--label", "0")
    done = run(*robust, "--device", "cpu", engine=REAL, cwd=asked)
    assert "reads x.png as 1, not 0; was it trained on pixels that were normalised? (--preprocess" in done.stderr
    done = run(*robust, "--preprocess", "mnist", "--device", "cpu", engine=REAL, cwd=asked)
    assert "reads x.png as 1, not 0\n" in done.stderr


def test_a_data_set_that_is_misread_asks_for_it_too(asked: Path) -> None:
    (asked / "images" / "0").mkdir(parents=True)
    Image.open(asked / "x.png").convert("RGB").save(asked / "images" / "0" / "x.jpg", quality=100)
    certify = ("certify", "m.onnx", "--data", "images", "--eps", "0.01", "--device", "cpu")
    done = run(*certify, engine=REAL, cwd=asked)
    assert done.stdout.splitlines()[-1].startswith("clean 0.0000")
    assert "1 of 1 images are misread; was it trained on pixels that were normalised?" in done.stderr
    assert "warning" not in run(*certify, "--preprocess", "mnist", engine=REAL, cwd=asked).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--picture", "p.jpg"), "--picture draws a PNG"),
        (("--image", "x.npy", "--preprocess", "mnist"), "are for picture files only: an .npy is"),
        (("--image", "flat.npy", "--picture", "p.png"), "is not an image, so --picture cannot draw it"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: tuple[str, ...], message: str, asked: Path) -> None:
    np.save(asked / "x.npy", np.zeros(GREY))
    np.save(asked / "flat.npy", np.zeros((1, 4)))
    classifier(asked / "flat.onnx", (1, 4), np.eye(2, 4))
    model = "flat.onnx" if "flat.npy" in arguments else "m.onnx"
    image = () if "--image" in arguments else ("--image", "x.png")
    done = run("robust", model, "--eps", "0.1", *image, *arguments, engine=REAL, cwd=asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
