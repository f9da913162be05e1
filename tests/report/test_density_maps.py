import numpy as np
import pytest

from magnet.report.maps import Frame, attribute_field, class_fields, density
from magnet.report.plots import ARROW, ATTRIBUTE, class_colours, hex_colour


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) * 2 + [9, 3]])


def test_a_density_integrates_to_one_over_its_frame(points):
    frame = Frame.around(points)
    assert density(points, frame, 200).sum() * (frame.width / 200) ** 2 == pytest.approx(1)


def test_a_density_is_the_sum_of_the_kernels(points):
    frame, side = Frame.around(points), 300
    found = density(points, frame, side)
    centres = (np.arange(side) + 0.5) / side * frame.width
    for row, column in [(150, 60), (90, 200), (140, 150)]:
        at = np.array([frame.left + centres[column], frame.bottom + centres[row]])
        squares = ((points - at) ** 2).sum(axis=1)
        kernels = np.exp(-squares / (2 * frame.bandwidth**2)) / (2 * np.pi * frame.bandwidth**2)
        assert found[row, column] == pytest.approx(kernels.mean(), rel=0.1, abs=1e-4)


def test_a_frame_is_a_square_around_all_points_with_room_for_the_kernel(points):
    frame = Frame.around(points)
    unit = frame.unit(points)
    margin = 4 * frame.bandwidth / frame.width
    assert unit.min() >= margin - 1e-9
    assert unit.max() <= 1 - margin + 1e-9


def test_one_point_and_equal_points_have_a_frame():
    for points in (np.zeros((1, 2)), np.ones((5, 2))):
        frame = Frame.around(points)
        assert density(points, frame, 50).sum() * (frame.width / 50) ** 2 == pytest.approx(1)


def test_a_field_has_the_colour_of_its_class_and_is_clear_far_from_it():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [10.0, 10.0], [10.0, 10.1]])
    frame = Frame.around(points)
    picture = class_fields(points, np.array([0, 0, 1, 1]), 2, frame, 100)
    at = (frame.unit(points) * 100).astype(int)
    for point, label in ((at[0], 0), (at[2], 1)):
        np.testing.assert_allclose(picture[point[1], point[0], :3], class_colours(2)[label], atol=1e-6)
        assert picture[point[1], point[0], 3] > 0.5
    assert picture[5, 95, 3] < 1e-6
    assert picture.min() >= 0
    assert picture.max() <= 1


def test_orange_is_as_opaque_as_the_share_that_has_the_attribute():
    points = np.concatenate([np.zeros((20, 2)), np.full((20, 2), 9.0)])
    has = np.arange(40) < 20  # all of the first place, none of the second
    has[:10] = False  # now half of the first
    frame = Frame.around(points)
    half = attribute_field(points, has, frame, 100)
    whole = attribute_field(points, np.arange(40) < 20, frame, 100)
    x, y = (frame.unit(points[:1])[0] * 100).astype(int)
    assert half[y, x, 3] == pytest.approx(whole[y, x, 3] / 2)
    x, y = (frame.unit(points[-1:])[0] * 100).astype(int)
    assert half[y, x, 3] == pytest.approx(0, abs=1e-9)
    assert attribute_field(points, np.zeros(40, bool), frame, 100)[..., 3].max() == 0


@pytest.mark.parametrize("count", [2, 10, 37, 200])
def test_every_class_has_a_colour_of_its_own_that_is_neither_orange_nor_red(count):
    colours = class_colours(count)
    assert colours.shape == (count, 3)
    assert len(np.unique(colours.round(6), axis=0)) == count
    for reserved in (ARROW, ATTRIBUTE):
        assert np.abs(colours - hex_colour(reserved)).sum(axis=1).min() > 0.3
