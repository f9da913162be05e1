"""Trained on coarse labels, judged by fine ones: what is left of the classes that the labels do not tell?

The data brings both levels (``--label coarse --judge fine``: columns, nested folders, CIFAR-100), or the names of its
classes tell their groups: the species of Oxford-IIIT Pet, the 70 families, by last word, of CUB-200-2011. Settings are
chosen by the coarse labels alone. Classifiers are then refitted to the fine labels, on the same representations.
"""

from magnet.data import Dataset
from magnet.data.groups import merge_groups
from magnet.data.levels import known_groups
from magnet.errors import UserError
from magnet.experiments.hierarchy import hidden_tables, measure_hidden
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, seeds

PART = "coarse classes"


def run(lab: Lab) -> Outcome:
    """Every method, with each seed."""
    lab.expect(len(lab.methods) * (lab.tries + lab.seeds))
    data = coarse(lab.data)
    values = {PART: measure_hidden(lab, PART, coarse(lab.held), [data] * lab.seeds)}
    fine = len(data.fine_classes or [])
    how = f"trained on {len(data.classes)} coarse classes, judged by {fine} fine ones, {seeds(lab.seeds)}"
    return Outcome(hidden_tables(lab, how, values[PART]), values=values)


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
