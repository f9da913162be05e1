"""tune: many short runs with other settings, judged on validation data; the test part is never looked at."""

import multiprocessing
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console

from magnet.data import Dataset
from magnet.errors import UserError
from magnet.training.checkpoint import find_checkpoint, read_progress
from magnet.training.search import Search
from magnet.training.search_space import draw
from magnet.training.study import Study
from magnet.training.train import train
from magnet.training.workbench import open_for


def tune(search: Search, *, report: Callable[[Study], None], console: Console | None = None) -> Study:
    """Search until there are as many trials as wanted; ``report`` is called whenever something may be new."""
    data = open_validated(search)
    study = search.open(data)
    study.release_lost()
    report(study)
    try:
        if search.jobs == 1:
            work(search, study, data, report=report, console=console)
        else:
            _work_side_by_side(search, study, report)
    except KeyboardInterrupt:
        done = len(study.ended())
        raise KeyboardInterrupt(f"stopped with {done} of {search.trials} trials; the same command goes on") from None
    if not study.ranked():
        reasons = {str(trial.user_attrs.get("failure")) for trial in study.ended()}
        raise UserError(f"all {len(study.ended())} trials failed, for instance: {sorted(reasons)[0]}")
    return study


def open_validated(search: Search) -> Dataset:
    """The data, with a validation part that is not empty."""
    data = open_for(search.base)
    if not len(data.indices("validation")):
        raise UserError(f"{search.config.data} leaves no examples for validation: give a larger --validation")
    return data


def work(
    search: Search, study: Study, data: Dataset, *, report: Callable[[Study], None], console: Console | None = None
) -> None:
    """Run one trial after the other."""
    while (trial := study.claim(search.trials)) is not None:
        try:
            study.complete(trial, _error(search, trial.number, draw(trial, search.space), data, console))
        except (FloatingPointError, torch.OutOfMemoryError) as failure:
            study.fail(trial, str(failure))
        except BaseException:  # interrupted, or broken: as if it had never been
            study.abandon(trial.number)
            shutil.rmtree(search.run_folder(trial.number), ignore_errors=True)
            raise
        if not search.keep:
            _tidy(search, study)
        report(study)


def _error(search: Search, number: int, drawn: dict[str, Any], data: Dataset, console: Console | None) -> float:
    """The lowest validation error of a run with the drawn settings."""
    folder = search.run_folder(number)
    shutil.rmtree(folder, ignore_errors=True)
    silent = console is None or not console.is_terminal or search.config.quiet
    train(replace(search.base, out=folder, **drawn), data=data, console=console, silent=silent)
    error = read_progress(find_checkpoint(folder / "checkpoint", "last")).get("lowest_error")
    if error is None:
        raise UserError("a trial ended without a validation: give more --epochs or --steps")
    return float(error)


def _tidy(search: Search, study: Study) -> None:
    """Delete the weights of all trials but the best; their settings and curves stay."""
    ranked = study.ranked()
    failed = [trial for trial in study.ended() if trial.value is None]
    for trial in ranked[1:] + failed:
        for run in (search.run_folder(trial.number), search.run_folder(trial.number) / "warm-start"):
            shutil.rmtree(run / "checkpoint", ignore_errors=True)


def _work_side_by_side(search: Search, study: Study, report: Callable[[Study], None]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work_alone, args=(search,)) for _ in range(search.jobs)]
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            time.sleep(0.2)
            report(study)
        report(study)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
        signal.signal(signal.SIGTERM, before)
    if any(process.exitcode for process in processes):
        raise UserError("a process of the search failed; what it said is above")


def _work_alone(search: Search) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // search.jobs))
    try:
        data = open_validated(search)
        work(search, search.open(data), data, report=lambda study: None)
    except KeyboardInterrupt:
        sys.exit(0)
    except UserError as error:
        print(f"magnet: {error}", file=sys.stderr)
        sys.exit(2)
