"""Trained on coarse labels, judged by fine ones: what is left of the classes that the labels do not tell?

The data brings both levels (``--label coarse --judge fine``: columns, nested folders, CIFAR-100), or the names of its
classes tell their groups: the species of Oxford-IIIT Pet, the 70 families, by last word, of CUB-200-2011. Settings are
chosen by the coarse labels alone. Classifiers are then refitted to the fine labels, on the same representations. On
CIFAR-100 a table of what others report stands beside ours.
"""

from magnet.data import Dataset
from magnet.data.groups import known_groups, merge_groups
from magnet.errors import UserError
from magnet.experiments.hierarchy import hidden_tables, measure_hidden
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table, seeds

PART = "coarse classes"
REPORTED = Table(
    "CIFAR-100, trained on 20 coarse classes, judged by 100 fine ones: as others report, not run here",
    ["method", "reported, in %", "where"],
    [
        [
            "Grafit (Touvron et al., ICCV 2021)",
            "recall@1 60.57, recall@10 89.21",
            "archive of Papers with Code: Learning with coarse labels on cifar100 (whose training, it does not say)",
        ],
        [
            "ANCOR (Bukchin et al., CVPR 2021), ResNet-12, 200 epochs",
            "accuracy from one example a class: 29.84 ± 0.11 of all 100, 74.56 ± 0.70 of five",
            "the authors' code, github.com/guybuk/ANCOR: Pretrained Models",
        ],
    ],
    "They train whole networks on the images and are judged by recall among test images or from one labelled example; "
    "the tables above have errors of classifiers refitted to all fine labels: these numbers do not rank the methods.",
)


def run(lab: Lab) -> Outcome:
    """Every method, with each seed."""
    lab.expect(len(lab.methods) * (lab.tries + lab.seeds))
    data = coarse(lab.data)
    values = {PART: measure_hidden(lab, PART, coarse(lab.held), [data] * lab.seeds)}
    fine = len(data.fine_classes or [])
    how = f"trained on {len(data.classes)} coarse classes, judged by {fine} fine ones, {seeds(lab.seeds)}"
    tables = hidden_tables(lab, how, values[PART])
    return Outcome([*tables, REPORTED] if data.name == "cifar100" else tables, values=values)


def coarse(data: Dataset) -> Dataset:
    """The data with coarse labels, and the fine ones to judge by."""
    if data.fine_labels is not None:
        return data
    groups = known_groups(data.classes)
    if groups is None:
        raise UserError(
            f"{data.name} has one level of labels: name both, as --label COARSE --judge FINE; the names of its classes "
            "tell of no groups"
        )
    return merge_groups(data, groups)
