import warnings

import numpy as np
import pytest
from PIL import Image

from magnet.data import open_data
from magnet.report.maps import (
    EDGE,
    Callout,
    DensityMap,
    Frame,
    Map,
    draw_attribute_maps,
    draw_density_maps,
    draw_image_map,
    draw_maps,
    mosaic,
    place,
    thumbnails,
)
from magnet.report.plots import class_colours, plain


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    positions = rng.normal(size=(90, 2)) + 5 * np.array([[0, 0], [1, 1], [0, 2]])[labels]
    centres = np.stack([positions[labels == c].mean(axis=0) for c in range(3)])
    pictures = rng.integers(0, 255, (4, 8, 8, 3)).astype(np.uint8)
    with_pictures = Callout(centres[0], [0, 0, 1, 0], pictures, ["a", "b", "c", "d"])
    with_names = Callout(centres[1], [1, 1, 2], None, ["a name that is far too long for its place", "$x$", "_"])
    return DensityMap("Magnet", positions, labels, centres, [with_pictures, with_names])


def test_maps_are_drawn_whatever_the_classes_are_called(panel, tmp_path):
    names = ["_hidden", r"$\bad$", "tab\tand\nline"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = draw_density_maps([panel, panel], names, tmp_path / "new" / "maps.png", title="two maps")
        has = np.arange(90) % 2 == 0
        shown = {"striped": has, "$": ~has}
        overlay = draw_attribute_maps([panel, panel], names, shown, tmp_path / "attributes.png", title="attributes")
    for file in (path, overlay):
        with Image.open(file) as image:
            assert image.width > 1000
            assert np.asarray(image.convert("L")).std() > 5  # not a blank page
    assert sorted(p.name for p in tmp_path.rglob("*.part")) == []


def test_orange_is_drawn_only_where_somebody_has_the_attribute(panel, tmp_path):
    def orange(has):
        file = draw_attribute_maps([panel], ["a", "b", "c"], {"x": has}, tmp_path / "x.png", title="")
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGB")).astype(int)
        return (np.abs(pixels - [245, 124, 0]).sum(axis=2) < 60).sum()

    nobody, everybody = orange(np.zeros(90, bool)), orange(np.ones(90, bool))
    assert everybody > 20 * max(nobody, 1)  # the legend's dot is always there


def test_many_classes_need_no_legend(tmp_path):
    rng = np.random.default_rng(0)
    panel = DensityMap("softmax", rng.normal(size=(400, 2)), np.arange(400) % 50, rng.normal(size=(5, 2)))
    names = [f"class {c}" for c in range(50)]
    with Image.open(draw_density_maps([panel], names, tmp_path / "many.png", title="many")) as image:
        assert image.height < 1.5 * image.width


def test_the_demo_s_maps_are_drawn(panel, tmp_path):
    path = tmp_path / "demo.png"
    draw_maps([Map("magnet", panel.positions, panel.labels, panel.centres)], ["a", "b", "c"], path, title="demo")
    assert path.stat().st_size > 5000


def test_names_are_one_plain_line():
    assert plain("two\nlines") == "two lines"
    assert plain("a" * 30 + "z", 11) == "aaaaa…aaaaz"
    assert len(plain("x" * 100, 20)) == 20
    assert plain("5$") == r"5\$"
    assert plain("\x00") == " "


def test_thumbnails_of_digits_are_ink_on_paper_and_vectors_have_none(tmp_path):
    data = open_data("digits")
    rows = np.array([3, 5])
    found = thumbnails(data, rows, 16)
    assert found.shape == (2, 16, 16, 3)
    expected = np.round(255 * (1 - data.vectors[5].reshape(8, 8)))
    np.testing.assert_array_equal(found[1, ::2, ::2, 0], expected)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "v.npz", X=rng.normal(size=(20, 64)), y=np.arange(20) % 2)
    assert thumbnails(open_data(str(tmp_path / "v.npz")), rows, 16) is None


def test_thumbnails_of_images_are_the_images(tmp_path):
    for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (40, 30), colour).save(tmp_path / name / f"{i}.png")
    data = open_data(str(tmp_path))
    found = thumbnails(data, np.arange(len(data)), 24)
    assert found.shape == (6, 24, 24, 3)
    for picture, label in zip(found, data.labels.tolist(), strict=True):
        assert (picture == {"red": (255, 0, 0), "blue": (0, 0, 255)}[data.classes[label]]).all()


@pytest.fixture
def points():
    rng = np.random.default_rng(1)
    return np.concatenate([rng.normal(size=(200, 2)) * 0.2, rng.normal(4, size=(100, 2))])


def test_no_two_examples_share_a_cell_and_none_is_shown_twice(points):
    found = place(points, 20)
    assert len(set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))) == len(found.examples)
    assert len(set(found.examples.tolist())) == len(found.examples) > 60
    assert found.rows.max() < 20
    assert found.columns.max() < 20


def test_every_example_lies_within_a_cell_of_its_position(points):
    found = place(points, 20)
    at = Frame.around(points).unit(points)[found.examples] * 20
    centres = np.stack([found.columns, found.rows], axis=1) + 0.5
    assert np.sqrt(((at - centres) ** 2).sum(axis=1)).max() <= 1


def test_an_empty_cell_has_no_example_left_to_show(points):
    found = place(points, 20)
    at = Frame.around(points).unit(points) * 20
    left = np.setdiff1d(np.arange(len(points)), found.examples)
    filled = set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
    for row in range(20):
        for column in range(20):
            if (row, column) not in filled and len(left):
                assert np.sqrt(((at[left] - [column + 0.5, row + 0.5]) ** 2).sum(axis=1)).min() > 1


def test_an_example_alone_in_a_cell_is_shown_there():
    found = place(np.array([[0.0, 0.0], [9.0, 9.0]]), 10)
    at = (Frame.around(np.array([[0.0, 0.0], [9.0, 9.0]])).unit(np.array([[0.0, 0.0], [9.0, 9.0]])) * 10).astype(int)
    order = found.examples.argsort()
    np.testing.assert_array_equal(found.columns[order], at[:, 0])
    np.testing.assert_array_equal(found.rows[order], at[:, 1])


def test_a_mosaic_shows_each_picture_in_its_cell_with_the_edge_of_its_class(tmp_path):
    positions = np.array([[0.0, 0.0], [9.0, 9.0]])
    found = place(positions, 10)
    shades = np.array([50, 200], np.uint8)
    pictures = np.repeat(shades[found.examples], 12 * 12 * 3).reshape(2, 12, 12, 3)
    labels = np.array([0, 1])[found.examples]
    picture = mosaic(found, pictures, labels, 2)
    colours = np.round(255 * class_colours(2)).astype(np.uint8)
    # Cut to what is used: the first lies bottom left, the second top right.
    np.testing.assert_array_equal(picture[-1, 0], colours[0])
    np.testing.assert_array_equal(picture[0, -1], colours[1])
    np.testing.assert_array_equal(picture[-1 - EDGE, EDGE], [50] * 3)
    np.testing.assert_array_equal(picture[EDGE, -1 - EDGE], [200] * 3)
    np.testing.assert_array_equal(picture[0, 0], [255] * 3)

    # The file holds the mosaic pixel by pixel.
    with Image.open(draw_image_map(picture, ["a", "$b$"], tmp_path / "map.png", title="two")) as image:
        drawn = np.asarray(image.convert("RGB"))
    for shade, expected in ((50, (12 - 2 * EDGE) ** 2), (200, (12 - 2 * EDGE) ** 2)):
        assert (drawn == [shade] * 3).all(axis=2).sum() >= expected
