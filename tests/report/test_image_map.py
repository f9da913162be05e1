import numpy as np
import pytest
from PIL import Image

from magnet.report.colours import class_colours
from magnet.report.densities import Frame
from magnet.report.image_map import EDGE, draw_image_map, mosaic, place


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
