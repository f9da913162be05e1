"""The record of a search: an SQLite file that processes share and that a later command goes on with."""

import os
import socket
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from magnet.errors import UserError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

FILE = "study.db"
Sampler = Literal["random", "tpe"]


def import_optuna() -> Any:
    """Optuna, with its log switched off."""
    try:
        import optuna
    except ImportError as error:
        raise UserError("magnet tune needs Optuna: pip install 'magnet[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


class Study:
    """Trials by number. Trial n of a random search depends on (seed, n) alone, whoever runs it and when.

    A trial ends complete, failed (its run diverged) or abandoned (its process was stopped; Optuna calls it pruned).
    Abandoned ones do not count.

    Args:
        folder: where the file is, or is to be.
        settings: what must be the same for all trials; another search in the same folder is refused.
        sampler: "random", as in the paper, or "tpe".
        seed: of the search.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, sampler: Sampler = "random", seed: int = 0) -> None:
        self._optuna = import_optuna()
        self._kind, self._seed = sampler, seed
        folder.mkdir(parents=True, exist_ok=True)
        storage = self._optuna.storages.RDBStorage(
            f"sqlite:///{folder / FILE}", engine_kwargs={"connect_args": {"timeout": 60}}
        )
        self._study = self._optuna.create_study(
            storage=storage, study_name="magnet", direction="minimize", load_if_exists=True
        )
        settings = settings | {"sampler": sampler}
        known = self._study.user_attrs.get("settings")
        if known is None:
            self._study.set_user_attr("settings", settings)
            return
        # A search of an earlier version does not know of every setting that there is now.
        differ = sorted(name for name in known if known[name] != settings.get(name))
        if differ:
            raise UserError(f"{folder} holds a search with other settings ({', '.join(differ)}): give another --out")

    def claim(self, wanted: int) -> "Trial | None":
        """A new trial, or None if there are as many as wanted."""
        if len(self._counting()) >= wanted:
            return None
        trial = self._study.ask()
        trial.set_user_attr("owner", [socket.gethostname(), os.getpid()])
        if sum(t.number < trial.number for t in self._counting()) >= wanted:  # another process was faster
            self.abandon(trial.number)
            return None
        kinds = {"random": self._optuna.samplers.RandomSampler, "tpe": self._optuna.samplers.TPESampler}
        self._study.sampler = kinds[self._kind](seed=self._seed * 100_003 + trial.number)
        return trial

    def complete(self, trial: "Trial", error: float) -> None:
        """Note the validation error of a trial."""
        self._study.tell(trial, error)

    def fail(self, trial: "Trial", reason: str) -> None:
        """Note that a trial came to nothing."""
        trial.set_user_attr("failure", reason)
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def abandon(self, number: int) -> None:
        """Take a trial out of the count."""
        self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED)

    def release_lost(self) -> None:
        """Abandon trials whose process is gone."""
        for trial in self._counting():
            if trial.state == self._optuna.trial.TrialState.RUNNING and _is_lost(trial):
                self.abandon(trial.number)

    def ranked(self) -> "list[FrozenTrial]":
        """Complete trials, best first."""
        done = [t for t in self._counting() if t.state == self._optuna.trial.TrialState.COMPLETE]
        return sorted(done, key=lambda t: (t.value or 0.0, t.number))

    def ended(self) -> "list[FrozenTrial]":
        """Complete and failed trials, by number."""
        return [t for t in self._counting() if t.state.is_finished()]

    def _counting(self) -> "list[FrozenTrial]":
        pruned = self._optuna.trial.TrialState.PRUNED
        return [t for t in self._study.get_trials(deepcopy=False) if t.state != pruned]


def _is_lost(trial: "FrozenTrial") -> bool:
    host, process = trial.user_attrs.get("owner", (None, 0))
    if host is None:  # stopped before it could sign
        return trial.datetime_start is None or datetime.now() - trial.datetime_start > timedelta(minutes=1)
    if host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return process == os.getpid()
