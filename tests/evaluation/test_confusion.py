import torch

from magnet.evaluation.confusion import worst_classes


def test_worst_first_with_what_they_are_taken_for():
    labels = torch.tensor([0] * 4 + [1] * 4 + [2] * 2)
    predicted = torch.tensor([0, 1, 2, 2, 1, 1, 1, 0, 2, 2])
    assert worst_classes(predicted, labels, ["a", "b", "c"]) == [
        {"class": "a", "n": 4, "error": 0.75, "taken_for": [{"class": "c", "n": 2}, {"class": "b", "n": 1}]},
        {"class": "b", "n": 4, "error": 0.25, "taken_for": [{"class": "a", "n": 1}]},
    ]


def test_is_the_naive_confusion_matrix():
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
