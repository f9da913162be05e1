import pytest
import torch

from magnet.evaluation.errors import calibration_error, choose_temperature, fit_temperature, log_losses, temper


def naive(confidence, correct, bins):
    total = 0.0
    for b in range(bins):
        inside = [i for i, c in enumerate(confidence.tolist()) if b / bins < c <= (b + 1) / bins or (b == 0 and c == 0)]
        if inside:
            accuracy = sum(bool(correct[i]) for i in inside) / len(inside)
            mean = sum(float(confidence[i]) for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return total


def test_is_the_naive_computation():
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(500, generator=generator, dtype=torch.double)
    correct = torch.rand(500, generator=generator) < 0.5
    for bins in (1, 10, 15):
        assert calibration_error(confidence, correct, bins) == pytest.approx(naive(confidence, correct, bins))


def test_certain_and_right_is_calibrated_and_certain_and_wrong_is_not():
    assert calibration_error(torch.ones(4), torch.ones(4, dtype=torch.bool)) == 0
    assert calibration_error(torch.ones(4), torch.zeros(4, dtype=torch.bool)) == 1


def test_over_and_underconfidence_in_different_bins_do_not_cancel():
    confidence = torch.tensor([0.2, 0.8])
    assert calibration_error(confidence, torch.tensor([True, False])) == pytest.approx(0.8)


def drawn(sharpness: float, n: int = 20_000, seed: int = 0):
    """Labels drawn from probabilities, and those probabilities with their logits stretched."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 5, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
    return (logits * sharpness).softmax(dim=1), labels


@pytest.mark.parametrize("sharpness", [0.25, 1.0, 3.0])
def test_the_temperature_undoes_over_and_underconfidence(sharpness):
    p, labels = drawn(sharpness)
    temperature = fit_temperature(p, labels)
    assert temperature == pytest.approx(sharpness, rel=0.05)
    confidence, guess = temper(p, temperature).max(dim=1)
    assert calibration_error(confidence, guess == labels) < 0.02


def test_tempering_keeps_the_order_of_the_classes():
    p, _ = drawn(1.0, 100)
    assert torch.equal(temper(p, 0.3).argsort(dim=1), p.argsort(dim=1))
    assert torch.allclose(temper(p, 1.0), p, atol=1e-6)
    assert torch.allclose(temper(p, 7.0).sum(dim=1), torch.ones(100))


def test_no_mistake_at_all_does_not_ask_for_infinite_certainty():
    p = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).repeat(50, 1)
    few, many = fit_temperature(p[:10], torch.tensor([0, 1] * 5)), fit_temperature(p, torch.tensor([0, 1] * 50))
    assert 1 / 16 < many < few


def test_classes_without_any_vote_do_not_matter():
    p, labels = drawn(2.0, 500)
    wide = torch.cat([p, torch.zeros(500, 20)], dim=1)
    assert fit_temperature(wide, labels) == pytest.approx(fit_temperature(p, labels), rel=0.05)


def test_a_few_dozen_well_calibrated_examples_keep_the_temperature_at_one():
    found = [choose_temperature(*drawn(1.0, 56, seed)) for seed in range(20)]
    assert [seed for seed, chosen in enumerate(found) if chosen.temperature != 1] == []
    assert any(abs(fit_temperature(*drawn(1.0, 56, seed)) - 1) > 0.2 for seed in range(20))  # which was taken before


@pytest.mark.parametrize("sharpness", [0.4, 3.0])
def test_a_temperature_that_helps_on_other_examples_is_kept(sharpness):
    chosen = choose_temperature(*drawn(sharpness, 300, seed=1))
    assert chosen.temperature == fit_temperature(*drawn(sharpness, 300, seed=1))
    assert chosen.log_loss_tempered < chosen.log_loss
    p, labels = drawn(sharpness, 5000, seed=2)
    calibrated = temper(p, chosen.temperature)
    losses = [float(log_losses(each, torch.arange(5), labels).mean()) for each in (p, calibrated)]
    assert losses[1] < losses[0]
    assert losses == pytest.approx([chosen.log_loss, chosen.log_loss_tempered], rel=0.2)  # what was recorded is so
    errors = [calibration_error(each.max(dim=1).values, each.argmax(dim=1) == labels) for each in (p, calibrated)]
    assert errors[1] < errors[0] / 2


def test_one_vote_that_is_lost_does_not_decide_the_temperature():
    p, labels = drawn(2.0, 500)
    p[0], labels[0] = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]), 1
    assert fit_temperature(p, labels) == pytest.approx(fit_temperature(p[1:], labels[1:]), rel=0.1)


def test_one_example_cannot_tell_whether_a_temperature_helps():
    assert choose_temperature(torch.tensor([[0.9, 0.1]]), torch.tensor([1])).temperature == 1
