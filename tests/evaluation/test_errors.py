import math

import pytest
import torch
from torch import nn

from magnet.classify import SoftNeighbours
from magnet.evaluation.errors import Ranking, judge, linear_probe, log_losses, worst_classes
from magnet.index import ClusterIndex
from magnet.methods import method_class
from magnet.methods.base import Options, Setting

LABELS = torch.tensor([0, 0, 1, 1, 2, 2])


def judged(name, representations, queries, truth, **more):
    method = method_class(name)(Setting(LABELS, 3, representations.shape[1]), Options(**more))
    index = ClusterIndex.fit(representations, LABELS, 1)
    return method, judge(*method.own_rule(index, representations, LABELS, 2), queries, truth)


def test_the_log_loss_is_that_of_the_true_class():
    p = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0]])
    found = log_losses(p, torch.tensor([3, 5, 7]), torch.tensor([5, 5]))
    assert found.tolist() == pytest.approx([math.log(4), -math.log(0.9)])


def test_the_log_loss_of_a_vote_that_is_lost_is_finite():
    p = torch.tensor([[1.0, 0.0], [1.0, 1e-38], [1.0, 0.0], [1.0, 0.0]])
    found = log_losses(p, torch.tensor([1, 4]), torch.tensor([4, 4, 2, 9]))
    assert found.tolist() == pytest.approx([15.94] * 4, abs=0.01)


@pytest.mark.parametrize("name", ["magnet", "triplet"])
def test_votes_of_clusters_and_of_examples_are_judged_by_error_and_log_loss(name):
    # Classes at 0, 10 and 200; the last query is of a class that is not among its two nearest.
    r = torch.tensor([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [200.0, 0.0], [200.0, 1.0]])
    queries, truth = torch.tensor([[0.0, 0.5], [10.0, 0.5], [0.0, 0.5], [0.0, 0.5]]), torch.tensor([0, 1, 1, 2])
    _, found = judged(name, r, queries, truth)
    assert found.error == 0.5
    assert 8 < found.log_loss / 0.5 < 16  # the two that are right cost next to nothing


def test_the_head_of_softmax_is_judged_by_its_own_probabilities():
    generator = torch.Generator().manual_seed(0)
    queries, truth = torch.randn(50, 4, generator=generator), torch.randint(3, (50,), generator=generator)
    method, found = judged("softmax", torch.randn(6, 4, generator=generator), queries, truth)
    logits = method.logits(queries)
    assert found.log_loss == pytest.approx(nn.functional.cross_entropy(logits, truth).item(), rel=1e-5)
    assert found.error == pytest.approx((logits.argmax(dim=1) != truth).double().mean().item())


def ranked(scores: torch.Tensor, classes: torch.Tensor, top: int = 5) -> Ranking:
    return Ranking.of([(torch.arange(len(classes)).expand(len(scores), -1), scores)], classes, 1.0, top)


def test_a_label_is_a_hit_if_it_is_among_the_best_scored_classes_that_have_a_score():
    scores = torch.tensor([[0.0, -1.0, -9.0, -torch.inf], [-1e5, 0.0, -1e6, -1e7]])
    classes = torch.tensor([2, 3, 5, 7])
    expected = {2: (0.5, 0.0), 3: (0.5, 0.0), 5: (1.0, 0.0), 7: (1.0, 1.0)}
    found, three = ranked(scores, classes), ranked(scores, classes, top=3)
    for label, (first, third) in expected.items():
        truth = torch.tensor([label] * 2)
        assert found.errors(truth)["error"] == first
        assert three.errors(truth) == {"error": first, "error@5": third}  # among the three that were kept
    assert found.errors(torch.tensor([7, 7]))["error@5"] == 0.5  # a class without votes


def test_an_error_is_the_number_of_wrong_labels_divided_by_all_to_the_last_digit():
    scores = torch.tensor([[0.0, -1.0]] * 240)
    labels = torch.zeros(240, dtype=torch.long)
    labels[:39] = 1
    assert ranked(scores, torch.arange(2)).errors(labels)["error"] == 39 / 240  # which 1 - 201 / 240 is not


@pytest.mark.parametrize("variance", [1.0, 1e-3, 1e-30, 1e-310])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_votes_that_underflow_keep_their_rank(variance, dtype):
    places = torch.tensor([0.0, 3.0, 1.0, 7.0, 2.0, 5.0, 11.0], dtype=dtype)[:, None] * 100
    rule = SoftNeighbours(places, torch.arange(7), 6, variance=variance)
    query = torch.tensor([[10.0]], dtype=dtype)
    logs = rule.predict_log_proba(query)
    assert logs.argsort(dim=1, descending=True).tolist() == [[0, 2, 4, 1, 5, 3, 6]]
    assert logs.isinf().tolist() == [[False] * 6 + [True]]  # six neighbours vote
    errors = [ranked(logs, rule.classes).errors(torch.tensor([label]))["error@5"] for label in range(7)]
    assert errors == [0, 0, 0, 1, 0, 0, 1]


def test_the_worst_classes_come_first_with_what_they_are_taken_for():
    labels = torch.tensor([0] * 4 + [1] * 4 + [2] * 2)
    predicted = torch.tensor([0, 1, 2, 2, 1, 1, 1, 0, 2, 2])
    assert worst_classes(predicted, labels, ["a", "b", "c"]) == [
        {"class": "a", "n": 4, "error": 0.75, "taken_for": [{"class": "c", "n": 2}, {"class": "b", "n": 1}]},
        {"class": "b", "n": 4, "error": 0.25, "taken_for": [{"class": "a", "n": 1}]},
    ]


def test_the_worst_classes_are_those_of_the_naive_confusion_matrix():
    generator = torch.Generator().manual_seed(0)
    labels, predicted = torch.randint(5, (2, 200), generator=generator)
    matrix = [[int(((labels == t) & (predicted == p)).sum()) for p in range(5)] for t in range(5)]
    found = worst_classes(predicted, labels, list("01234"), mistakes=5)
    assert [row["error"] for row in found] == sorted((row["error"] for row in found), reverse=True)
    for row in found:
        true = matrix[int(row["class"])]
        assert row["n"] == sum(true)
        assert {int(m["class"]): m["n"] for m in row["taken_for"]} == {
            p: n for p, n in enumerate(true) if n and p != int(row["class"])
        }


def test_classes_without_examples_or_errors_are_not_listed():
    assert worst_classes(torch.tensor([0, 1]), torch.tensor([0, 1]), ["a", "b", "never"]) == []


def test_count_limits_the_list_and_more_errors_break_ties():
    labels = torch.tensor([0, 1, 1, 2])
    found = worst_classes(torch.tensor([1, 0, 0, 2]), labels, ["a", "b", "c"], count=1)
    assert [row["class"] for row in found] == ["b"]


def test_the_linear_probe_minimises_its_objective() -> None:
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (400,), generator=source)
    r = torch.randn(400, 10, generator=source) + 2.1 * nn.functional.one_hot(labels, 10)
    x = (r - r[:300].mean(0)) / (r[:300] - r[:300].mean(0)).square().mean().sqrt()
    head = nn.Linear(10, 5)
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def objective() -> torch.Tensor:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(head(x[:300]), labels[:300]) + 1e-3 / 2 * head.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(objective)
    found = linear_probe(r[:300], labels[:300] * 3, r[300:])
    assert (found == head(x[300:]).argmax(dim=1) * 3).float().mean() > 0.98


def test_the_linear_probe_recovers_labels_that_are_linear_in_the_representation() -> None:
    r = torch.randn(500, 6, generator=torch.Generator().manual_seed(1))
    labels = r[:, :3].argmax(dim=1)
    assert (linear_probe(r[:400], labels[:400], r[400:]) == labels[400:]).float().mean() > 0.95
