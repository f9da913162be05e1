import numpy as np
import pytest
import torch
from PIL import Image

from magnet.data import open_data
from magnet.data.images import decode, room
from magnet.errors import UserError

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def colours(image):
    """The mean colour of an image (3, S, S), rounded."""
    return tuple(image.float().mean(dim=(1, 2)).round().int().tolist())


def near(found, expected, by=4):
    return all(abs(a - b) <= by for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("mode", "suffix", "fill", "expected"),
    [
        ("RGB", ".png", RED, RED),
        ("RGB", ".jpg", RED, RED),
        ("L", ".png", 77, (77, 77, 77)),
        ("L", ".jpg", 77, (77, 77, 77)),
        ("1", ".png", 1, WHITE),
        ("LA", ".png", (0, 0), WHITE),
        ("CMYK", ".jpg", (0, 255, 255, 0), RED),
        ("CMYK", ".tif", (0, 255, 255, 0), RED),
        ("RGB", ".bmp", BLUE, BLUE),
        ("RGB", ".webp", BLUE, BLUE),
        ("RGB", ".ppm", GREEN, GREEN),
    ],
)
def test_an_image_of_any_mode_is_read_as_rgb(tmp_path, mode, suffix, fill, expected):
    path = tmp_path / f"image{suffix}"
    Image.new(mode, (12, 9), fill).save(path)
    image = decode(path, 10)
    assert (image.dtype, image.shape) == (torch.uint8, (3, 10, 10))
    assert near(colours(image), expected)


def test_a_16_bit_grey_image_keeps_its_greys(tmp_path):
    for value, grey in ((0, 0), (257 * 40, 40), (65535, 255)):
        Image.fromarray(np.full((8, 8), value, np.uint16)).save(tmp_path / "grey.png")
        assert colours(decode(tmp_path / "grey.png", 8)) == (grey, grey, grey)


def test_a_float_image_between_0_and_1_is_scaled(tmp_path):
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "grey.tiff")
    assert near(colours(decode(tmp_path / "grey.tiff", 8)), (127, 127, 127))


def test_transparency_lies_on_white(tmp_path):
    Image.new("RGBA", (8, 8), (*BLUE, 0)).save(tmp_path / "clear.png")
    assert colours(decode(tmp_path / "clear.png", 8)) == WHITE
    Image.new("RGBA", (8, 8), (*BLUE, 255)).save(tmp_path / "full.png")
    assert colours(decode(tmp_path / "full.png", 8)) == BLUE


def test_a_palette_image_is_read_with_and_without_transparency(tmp_path):
    image = Image.new("RGB", (8, 8), GREEN).quantize(4)
    image.save(tmp_path / "palette.gif")
    image.save(tmp_path / "clear.png", transparency=image.getpixel((0, 0)))
    assert near(colours(decode(tmp_path / "palette.gif", 8)), GREEN)
    assert colours(decode(tmp_path / "clear.png", 8)) == WHITE


def test_the_first_frame_of_an_animation_is_taken(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert near(colours(decode(tmp_path / "moving.gif", 8)), RED)


def test_an_image_is_turned_upright_by_its_exif_orientation(tmp_path):
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255  # white above black
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif, quality=100)
    image = decode(tmp_path / "turned.jpg", 16).float()
    assert image[:, :, 9:].mean() > 250
    assert image[:, :, :7].mean() < 5


def test_the_centre_of_the_long_side_is_kept(tmp_path):
    pixels = np.zeros((10, 50, 3), np.uint8)
    pixels[:, 20:30] = GREEN
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert colours(decode(tmp_path / "wide.png", 10)) == GREEN
    Image.fromarray(pixels.transpose(1, 0, 2)).save(tmp_path / "high.png")
    assert colours(decode(tmp_path / "high.png", 10)) == GREEN


def test_a_very_long_image_needs_no_more_memory_than_its_own(tmp_path):
    Image.new("L", (60_000, 1), 9).save(tmp_path / "line.png")
    assert decode(tmp_path / "line.png", 300).shape == (3, 300, 300)


def test_the_quick_decoding_of_a_large_jpeg_looks_like_the_full_one(tmp_path):
    x, y = np.meshgrid(np.linspace(0, 1, 800), np.linspace(0, 1, 800))
    pixels = np.stack([255 * x, 255 * y, 127 + 127 * np.sin(20 * x)], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "large.jpg", quality=95)
    Image.open(tmp_path / "large.jpg").save(tmp_path / "large.png")
    quick, full = (decode(tmp_path / f"large.{suffix}", 50).float() for suffix in ("jpg", "png"))
    assert (quick - full).abs().mean() < 2


@pytest.mark.parametrize("size", [1, 10, 28, 96, 100, 128, 224])
def test_the_stored_side_is_never_less_than_130_percent(size):
    assert 1.3 * size <= room(size) + 1e-9 < 1.3 * size + 1


@pytest.fixture
def with_bad_files(class_folders, picture):
    whole = picture(class_folders / "cat" / "whole.jpg", size=(200, 200)).read_bytes()
    (class_folders / "cat" / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (class_folders / "cat" / "truncated.png").write_bytes((class_folders / "cat" / "0.png").read_bytes()[:90])
    (class_folders / "dog" / "text.jpg").write_text("no image")
    (class_folders / "dog" / "empty.png").write_bytes(b"")
    return class_folders


def test_a_bad_image_is_named_when_it_is_met(with_bad_files):
    data = open_data(str(with_bad_files))
    assert data.skipped == []
    for bad in ("cat/truncated.jpg", "cat/truncated.png", "dog/text.jpg", "dog/empty.png"):
        with pytest.raises(UserError, match=bad):
            data[data.names.index(bad)]


def test_bad_images_are_skipped_and_listed_when_asked(with_bad_files):
    data = open_data(str(with_bad_files), on_bad_image="skip")
    assert len(data) == 21
    found = {path.removeprefix(f"{with_bad_files}/"): reason for path, reason in data.skipped}
    assert sorted(found) == ["cat/truncated.jpg", "cat/truncated.png", "dog/empty.png", "dog/text.jpg"]
    assert "truncated" in found["cat/truncated.jpg"]
    assert all(data[i].shape == data.shape for i in range(len(data)))
    assert [data.classes[label] for label in data.labels] == [name.split("/")[0] for name in data.names]


def test_an_image_that_vanishes_after_opening_is_named(class_folders):
    data = open_data(str(class_folders))
    (class_folders / "cat" / "0.png").unlink()
    with pytest.raises(UserError, match=r"cat/0\.png: the image is no longer there"):
        data[0]


def test_closer_crops_are_decoded_with_more_pixels(class_folders):
    data = open_data(str(class_folders))
    assert data.with_image_size(10).shape == (3, 13, 13)
    assert data.with_image_size(10, 0.0).shape == (3, 13, 13)
    assert data.with_image_size(10, 5.0).shape == (3, 20, 20)  # at most twice the size
    close = data.with_image_size(10, 1.0)
    assert close.shape == close[0].shape == (3, 20, 20)
