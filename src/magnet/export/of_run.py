"""A run as a model, and the error that it was measured to have."""

from typing import TYPE_CHECKING, Any

from magnet.errors import UserError
from magnet.export.description import Description, NetworkPart, ViewsPart, VotesPart
from magnet.export.model import Model
from magnet.runs.evaluate import evaluate, plain_errors

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


def measured(run: "Run | Model", *, plain: bool) -> dict[str, Any] | None:
    """The error of kNC on the run's own test part, as `magnet evaluate` has it.

    Args:
        run: what is exported. A model alone has no test part, and a run whose data is closed only what it has kept.
        plain: of the plain view of images; else of the mean of the run's test views.

    Returns:
        ``classifier``, ``view``, ``error``, ``n`` and ``split``; None where it is not known.
    """
    if isinstance(run, Model):
        return None
    views = run.bench.views.draws
    try:
        found = plain_errors(run) if plain else evaluate(run)
    except UserError:  # no test part, or out of reach
        return None
    error = (found["plain"] if plain else found)["knc"]["error"]
    view = "vector" if run.learner.network.kind == "vectors" else f"mean of {views} test views"
    if view != "vector" and (plain or views == 1):
        view = "plain view"
    return {"classifier": "kNC", "view": view, "error": error, "n": found["n"], "split": found["split"]}
