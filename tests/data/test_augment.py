from itertools import islice

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from magnet.data import Augmentation, normalise
from magnet.data.images import decode
from magnet.errors import UserError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def ramp(side, count=1):
    """Images whose first channel is the x and second the y position of a pixel's centre, from 0 to 1."""
    at = (torch.arange(side) + 0.5) / side
    x, y = at.expand(side, side), at[:, None].expand(side, side)
    return torch.stack([x, y, torch.zeros(side, side)]).repeat(count, 1, 1, 1)


def smooth(count):
    """Images with large patches of colour."""
    patches = torch.rand(count, 3, 5, 5, generator=seeded())
    return F.interpolate(patches, size=32, mode="bicubic", align_corners=False)


def windows(views, size):
    """Left, right, top and bottom of each view of a ramp, read off pixels away from the border."""

    def ends(profile):
        inner, half = profile[:, 3:-3], (size - 6) // 2
        step = (inner[:, -half:].mean(dim=1) - inner[:, :half].mean(dim=1)) / (size - 6 - half)
        middle = inner.mean(dim=1)
        return middle - size / 2 * step, middle + size / 2 * step

    return *ends(views[:, 0].mean(dim=1)), *ends(views[:, 1].mean(dim=2))


def test_views_are_windows_between_the_whole_image_and_one_enlarged_by_the_rescale():
    size = 50
    left, right, top, bottom = windows(Augmentation(size, 0.3)(ramp(65, 400), seeded()), size)
    scale = 1 / (right - left)
    # Bicubic resampling moves a ramp by up to a tenth of a pixel.
    torch.testing.assert_close(scale, 1 / (bottom - top), atol=0.01, rtol=0)
    assert scale.min() > 0.995
    assert scale.max() < 1.305
    assert abs(scale.mean() - 1.15) < 0.02
    for low, high in ((left, right), (top, bottom)):
        assert low.min() > -0.005
        assert high.max() < 1.005
        # The window is uniform in the room that the enlargement leaves, independent of the scale.
        place = low / (1 - 1 / scale)
        assert abs(place[scale > 1.05].mean() - 0.5) < 0.06


def test_without_rescaling_every_view_is_the_centre_view():
    images = torch.rand(3, 3, 26, 26)
    augment = Augmentation(20, rescale=0.0)
    torch.testing.assert_close(augment(images, seeded()), augment.centre(images))


def test_without_rescaling_the_centre_view_is_the_whole_image_resized():
    images = torch.rand(3, 3, 26, 26)
    resized = F.interpolate(images, size=(20, 20), mode="bicubic", align_corners=False)
    torch.testing.assert_close(Augmentation(20, rescale=0.0).centre(images), resized)


def test_the_centre_view_lies_in_the_middle_of_the_range_of_the_random_views():
    for size in (28, 50, 96, 224):
        augment = Augmentation(size, 0.3)
        left, right, top, bottom = (float(x) for x in windows(augment.centre(ramp(round(1.3 * size))), size))
        assert abs(1 / (right - left) - 1.15) <= 1 / size
        for low, high in ((left, right), (top, bottom)):
            assert abs(low + high - 1) < 1e-3


@pytest.mark.parametrize("size", [15, 20, 96])
def test_the_centre_view_is_the_image_resized_to_the_short_side_and_cropped(size):
    augment = Augmentation(size, 0.3)
    cut, odd = divmod(augment.short_side - size, 2)
    assert odd == 0
    images = torch.rand(2, 3, 130, 130)
    resized = F.interpolate(images, size=(augment.short_side,) * 2, mode="bicubic", align_corners=False)
    expected = resized[..., cut : cut + size, cut : cut + size]
    torch.testing.assert_close(augment.centre(images), expected, atol=1e-4, rtol=0)


def test_the_centre_view_of_a_wide_image_is_its_middle():
    images = torch.zeros(1, 3, 10, 30)
    images[..., 10:20] = 1
    assert Augmentation(10).centre(images).min() > 0.95


def test_bytes_come_out_between_0_and_1():
    images = torch.full((2, 3, 13, 13), 255, dtype=torch.uint8)
    views = Augmentation(10)(images, seeded())
    assert views.dtype == torch.float32
    torch.testing.assert_close(views, torch.ones(2, 3, 10, 10))
    images[..., :6] = 0  # an edge, which bicubic resampling overshoots
    views = Augmentation(10)(images, seeded())
    assert (views.min(), views.max()) == (0, 1)


def test_a_view_of_an_image_that_was_resized_for_it_is_as_sharp_as_one_resized_directly():
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 256, (300, 300, 3), dtype=np.uint8))
    augment = Augmentation(96)
    direct = decode(photo, augment.short_side)[:, 7:103, 7:103] / 255
    assert augment.centre(decode(photo, 125)[None]).std() > 0.95 * direct.std()


def test_the_same_seed_gives_the_same_views_and_another_seed_others():
    images, augment = torch.rand(4, 3, 26, 26), Augmentation(20, flip=True)
    assert torch.equal(augment(images, seeded(1)), augment(images, seeded(1)))
    assert not torch.equal(augment(images, seeded(1)), augment(images, seeded(2)))


def test_the_global_random_state_is_neither_used_nor_changed():
    images, augment = torch.rand(4, 3, 26, 26), Augmentation(20)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    augment(images, seeded())
    assert torch.equal(state, torch.get_rng_state())


def test_examples_of_a_batch_get_views_of_their_own():
    views = Augmentation(20)(torch.rand(1, 3, 26, 26).repeat(2, 1, 1, 1), seeded())
    assert not torch.equal(views[0], views[1])


def test_a_shared_draw_gives_all_images_of_a_batch_the_same_window():
    augment, images = Augmentation(20, flip=True), torch.rand(5, 3, 26, 26)
    together = augment(images, seeded(), shared=True)
    for image, view in zip(images, together, strict=True):
        torch.testing.assert_close(augment(image[None], seeded(), shared=True)[0], view)


def test_views_to_average_begin_with_the_plain_one_and_its_mirror_image_and_show_all_images_the_same_window():
    augment, images = Augmentation(20, flip=True), torch.rand(5, 3, 26, 26)
    views = list(islice(augment.shared(images, seeded()), 6))
    assert torch.equal(views[0], augment.centre(images))
    assert torch.equal(views[1], augment.centre(images).flip(-1))
    assert all(not torch.equal(views[0], view) for view in views[1:])
    for view, alone in zip(views, augment.shared(images[3:4], seeded()), strict=False):
        torch.testing.assert_close(view[3:4], alone)


def test_a_pair_of_views_is_as_far_on_either_side_of_the_middle_and_mirrored():
    size, pairs = 50, Augmentation(50, rescale=0.3, flip=True).shared(ramp(65), seeded())
    first, second = islice(pairs, 2, 4)
    left, right, top, bottom = windows(first, size)
    other_left, other_right, other_top, other_bottom = windows(second.flip(-1), size)
    enlarged = 1 / (right - left) + 1 / (other_right - other_left)
    torch.testing.assert_close(enlarged, torch.tensor([2 + 0.3]), atol=0.02, rtol=0)
    # 0 at one border of the image, 1 at the other
    torch.testing.assert_close(
        left / (1 - right + left), 1 - other_left / (1 - other_right + other_left), atol=0.05, rtol=0
    )
    torch.testing.assert_close(
        top / (1 - bottom + top), 1 - other_top / (1 - other_bottom + other_top), atol=0.05, rtol=0
    )


def test_the_mean_over_a_few_balanced_views_is_nearer_to_that_over_many_than_by_chance():
    augment, images = Augmentation(16, rescale=1.0, flip=True), smooth(8)
    many = torch.stack(list(islice(augment.shared(images, seeded(99)), 512))).mean(dim=0)
    far = {"balanced": 0.0, "by chance": 0.0}
    for seed in range(20):
        few = {"balanced": list(islice(augment.shared(images, seeded(seed)), 4))}
        generator = seeded(seed)
        few["by chance"] = [augment(images, generator, shared=True) for _ in range(4)]
        for how, views in few.items():
            far[how] += float((torch.stack(views).mean(dim=0) - many).square().mean())
    assert far["balanced"] < 0.8 * far["by chance"]


def test_without_mirror_images_views_to_average_are_drawn_alike():
    augment, images, generator = Augmentation(20), torch.rand(2, 3, 26, 26), seeded()
    for view in islice(augment.shared(images, seeded()), 3):
        assert torch.equal(view, augment(images, generator, shared=True))


def test_half_of_the_views_are_mirrored_when_asked():
    views = Augmentation(20, rescale=0.0, flip=True)(ramp(26, 400), seeded())
    mirrored = views[:, 0, :, 0].mean(dim=1) > 0.5
    assert 160 < mirrored.sum() < 240
    assert (views[:, 1, 0].mean(dim=1) < 0.5).all()


def test_normalising_takes_the_mean_off_each_channel_and_divides():
    images = torch.full((2, 3, 4, 4), 51, dtype=torch.uint8)
    found = normalise(images, [0.2, 0.1, 0.0], [1.0, 0.5, 0.1])
    torch.testing.assert_close(found[0, :, 0, 0], torch.tensor([0.0, 0.2, 2.0]))


def test_a_size_of_zero_is_refused():
    with pytest.raises(UserError, match="size is 0"):
        Augmentation(0)
