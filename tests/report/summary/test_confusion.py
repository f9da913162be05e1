import torch

from magnet.index import ClusterIndex
from magnet.report.summary.findings import confused_most, confusion_findings, nearest_to_centres, order_by_similarity
from magnet.runs.run import Run


def test_similar_classes_stand_side_by_side_and_a_class_without_examples_last():
    points = torch.tensor([[0.0], [10.0], [0.5], [10.5], [5.0]])
    order = order_by_similarity(points, torch.arange(5), [0, 1, 2, 3, 4, 7])
    assert order[-1] == 7
    where = {label: place for place, label in enumerate(order)}
    assert abs(where[0] - where[2]) == 1
    assert abs(where[1] - where[3]) == 1


def test_the_classes_of_a_matrix_are_those_with_most_mistakes_in_and_out():
    matrix = torch.tensor([[9, 0, 0], [0, 5, 3], [0, 1, 6]])
    assert confused_most(matrix)[2] == 0


def test_exemplars_take_turns_among_the_clusters_the_largest_first():
    points = torch.tensor([[0.0], [0.1], [0.5], [9.0], [9.2], [50.0]])
    index = ClusterIndex(
        torch.tensor([[0.0], [9.0], [50.0]]),
        torch.tensor([0, 0, 1]),
        torch.tensor([0, 0, 0, 1, 1, 2]),
        torch.tensor(1.0),
    )
    assert nearest_to_centres(points, index, 0) == [0, 3, 1, 4, 2]
    assert nearest_to_centres(points, index, 5) == []


def test_photographs_and_digits_have_pictures_and_tables_have_none(photos, digits_magnet, wine):
    found = confusion_findings(Run(photos))
    assert sum(found["n"]) == len(Run(photos).data.indices("test"))
    assert all(one["source"].startswith("data:image/webp") for some in found["exemplars"].values() for one in some)
    assert all(found["exemplars"].values())
    assert not found["small"]
    digits = confusion_findings(Run(digits_magnet))
    assert digits["small"]
    assert len(digits["exemplars"]["3"]) == 6
    assert not any(confusion_findings(Run(wine))["exemplars"].values())
