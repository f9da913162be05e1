"""Backbones for feature vectors."""

import pytest
import torch
from torch import nn

from magnet import backbones
from magnet.errors import UserError


def _inputs() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(500, 6, generator=generator) * torch.tensor([1.0, 2, 3, 4, 5, 0]) + 1000


def test_fitted_inputs_have_mean_zero_and_squared_norm_d() -> None:
    backbone = backbones.build("linear", example_shape=(6,))
    assert isinstance(backbone, backbones.VectorBackbone)
    x = _inputs()
    backbone.fit_inputs(x)
    standard = (x - backbone.input_mean) / backbone.input_scale
    torch.testing.assert_close(standard.mean(0), torch.zeros(6), atol=1e-3, rtol=0)
    torch.testing.assert_close(standard.square().sum(1).mean(), torch.tensor(6.0), atol=1e-3, rtol=0)


def test_one_scale_for_all_features_keeps_their_relative_sizes() -> None:
    backbone = backbones.build("mlp", example_shape=(6,))
    assert isinstance(backbone, backbones.VectorBackbone)
    backbone.fit_inputs(_inputs())
    assert backbone.input_scale.shape == ()


def test_the_standardisation_is_saved_with_the_weights() -> None:
    fitted = backbones.build("linear", example_shape=(6,), dim=3)
    assert isinstance(fitted, backbones.VectorBackbone)
    fitted.fit_inputs(_inputs())
    fresh = backbones.build("linear", example_shape=(6,), dim=3, seed=9)
    fresh.load_state_dict(fitted.state_dict())
    assert torch.equal(fresh(_inputs()), fitted(_inputs()))


def test_constant_inputs_do_not_divide_by_zero() -> None:
    backbone = backbones.build("linear", example_shape=(6,))
    assert isinstance(backbone, backbones.VectorBackbone)
    backbone.fit_inputs(torch.ones(10, 6))
    assert bool(backbone(torch.ones(10, 6)).isfinite().all())


@pytest.mark.parametrize(
    ("x", "message"),
    [(torch.ones(4, 5), r"\(4, 5\).*\(N, 6\)"), (torch.ones(0, 6), "N >= 1"), (torch.full((4, 6), torch.nan), "NaN")],
)
def test_inputs_that_cannot_be_fitted_are_refused(x: torch.Tensor, message: str) -> None:
    backbone = backbones.build("linear", example_shape=(6,))
    assert isinstance(backbone, backbones.VectorBackbone)
    with pytest.raises(UserError, match=message):
        backbone.fit_inputs(x)


def test_the_mlp_normalises_by_layer_so_examples_of_a_batch_do_not_mix() -> None:
    backbone = backbones.build("mlp", example_shape=(6,), hidden=32, dropout=0.0).train()
    x = _inputs()
    torch.testing.assert_close(backbone(x[:8])[:2], backbone(x[:2]))
    assert any(isinstance(layer, nn.LayerNorm) for layer in backbone.modules())
    assert not backbones.has_batchnorm(backbone)
