"""A run as a model."""

from typing import TYPE_CHECKING

from magnet.export.description import Description, NetworkPart, ViewsPart, VotesPart
from magnet.export.model import Model

if TYPE_CHECKING:
    from magnet.training.run import Run


def model_of(run: "Run | Model") -> Model:
    """What a run has learnt, apart from its data; a model is given back as it is."""
    if isinstance(run, Model):
        return run
    config, network, method, rule = run.config, run.learner.network, run.learner.method, run.rule("knc")
    size, calibration = config.image_size, run.calibration
    description = Description(
        method=config.method,
        classes=tuple(run.classes),
        network=NetworkPart(
            backbone=config.backbone.removesuffix("@pretrained"),
            shape=run.bench.data.shape if network.kind == "vectors" else (3, size, size),
            dim=config.dim,
            hidden=config.hidden,
            normalised=method.normalised,
        ),
        views=ViewsPart(
            size=max(size, 1), rescale=config.rescale, flip=config.flip, draws=run.bench.views.draws, seed=config.seed
        ),
        votes=VotesPart(
            variance=rule.variance,
            scaling=rule.scaling,
            neighbours=config.neighbours,
            temperature=calibration.temperatures["knc"],
            novelty_threshold=calibration.novelty_threshold,
            calibrated_on=f"{calibration.examples} examples of the {calibration.held_out} part",
            clusters_per_class=config.clusters_per_class,
        ),
    )
    return Model(description, network, run.index, run.references, run.memory.names)
