"""Runs that are killed, disks that are full, readers beside a trainer."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from faults.damage import commands
from faults.outcomes import HANG, SAID, SAME, SILENT, TRACEBACK, Outcome, command, printed
from magnet.training import loop
from magnet.training.folder import FOLDER, checkpoints
from training.short_runs import SMALL, differences, flags, run, settings, start, write_images, write_vectors

LONG = {"epochs": 60, "checkpoint_every": 2, "refresh_every": 7, "preset": "paper/default", "quiet": True}


def killed_runs(folder: Path, kills: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """Trainings that are killed at random moments until they end, each like one that was not."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    data = write_vectors(folder / "x.npz")
    whole = run(folder / "whole", data, **LONG)
    number = done = 0
    while done < kills:
        number, before = number + 1, done
        out = folder / f"killed-{number}"
        words = ["train", *flags(settings(out, data, **LONG))]
        for _ in range(3):
            process = forked(words, folder / "output")
            while process.exitcode is None and not checkpoints(out / FOLDER):
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.5))
            process.kill()
            process.join()
            words = ["train", "--resume", str(out), "--quiet"]
            if process.exitcode != -signal.SIGKILL:  # it had ended before
                break
            done += 1
        process = forked(words, folder / "output")
        process.join()
        output = (folder / "output").read_text()
        finished = process.exitcode == 0 or "is finished" in output
        same = finished and not differences(whole, out)
        for kill in range(before, done):
            yield f"kill {kill} in run {number}", Outcome(SAME if same else TRACEBACK, output[-300:])
        shutil.rmtree(out)


def forked(words: list[str], output: Path) -> BaseProcess:
    """A command in a process of its own, which does not wait for torch to be imported."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["__main__", "magnet.commands.train", "magnet.training.train"])
    process = context.Process(target=_command, args=(words, output))
    process.start()
    return process


def _command(words: list[str], output: Path) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    from magnet.cli import main

    sys.exit(main(words))


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of so many bytes; needs the right to mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def can_mount() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount") is not None


def full_disks(folder: Path, sizes: list[int]) -> Iterator[tuple[str, Outcome]]:
    """Trainings on disks of so many kilobytes: ended in one line, resumed to the same end once there is room."""
    folder.mkdir(parents=True)
    data = write_vectors(folder / "x.npz")
    options = {"epochs": 3, "preset": "paper/default", "quiet": True, "keep_refreshes": 2}
    whole = run(folder / "whole", data, **options)
    for kilobytes in sizes:
        with small_disk(folder / "disk", kilobytes) as disk:
            process = start("train", *flags(settings(disk / "run", data, **options)))
            output, _ = process.communicate(timeout=120)
            said = [line for line in output.splitlines() if line.startswith("magnet: ")]
            one = len(said) == 1 and "kB are free there" in said[0] and ".part" not in said[0]
            ok = "Traceback" not in output and (process.returncode == 0 or one)
            yield f"training on {kilobytes} kB", Outcome(SAID if ok else TRACEBACK, output[-300:])
            drafts = list(disk.rglob("*.part"))
            yield f"drafts on {kilobytes} kB", Outcome(SAME if not drafts else SILENT, str(drafts))
            if process.returncode == 0 or not (disk / "run" / "config.yaml").is_file():
                continue
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            output, _ = (process := start("train", "--resume", str(disk / "run"), "--quiet")).communicate(timeout=120)
            same = process.returncode == 0 and not differences(whole, disk / "run")
            yield f"resumed after {kilobytes} kB", Outcome(SAME if same else TRACEBACK, output[-300:])


def readers_of_full_disks(folder: Path, finished: Path) -> Iterator[tuple[str, Outcome]]:
    """Commands that only read a run, which lies on a disk without any room, or on one that may not be written."""
    folder.mkdir(parents=True, exist_ok=True)
    for what in ("full", "read-only"):
        with small_disk(folder / what, 4096) as disk:
            copy = Path(shutil.copytree(finished, disk / "run", ignore=shutil.ignore_patterns("cache")))
            if what == "full":
                with suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
            else:
                subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            for name, words in commands(finished, folder).items():
                expected = printed(*words).replace(str(finished), str(copy))
                output, _ = start(*[str(copy if word == finished else word) for word in words]).communicate(timeout=120)
                same = output.strip() == expected.strip()
                yield f"{name} on a {what} disk", Outcome(SAME if same else TRACEBACK, output[-300:])


def readers_beside_a_trainer(folder: Path, reads: int) -> Iterator[tuple[str, Outcome]]:
    """A run that is opened again and again while it trains and removes its old checkpoints."""
    from magnet.errors import UserError
    from magnet.runs.run import Run

    folder.mkdir(parents=True)
    data = write_vectors(folder / "x.npz")
    options = LONG | {"epochs": 4000, "checkpoint_every": 1, **SMALL}
    process = start("train", *flags(settings(folder / "run", data, **options)))
    try:
        while not checkpoints(folder / "run" / FOLDER):
            time.sleep(0.01)
        for number in range(reads):
            try:
                found = Run(folder / "run", which="last", device="cpu")
                yield f"read {number}", Outcome(SAME if found.step > 0 and not found.checkpoint.notes else SILENT, "")
            except UserError as error:
                yield f"read {number}", Outcome(TRACEBACK, str(error))
            except Exception as error:
                yield f"read {number}", Outcome(TRACEBACK, f"{type(error).__name__}: {error}")
    finally:
        process.kill()
        process.communicate()


TORCHRUN = ("--standalone", "--nproc-per-node", "2", "-m", "magnet")
ENDS_WITHIN = 60.0  # seconds after a rank was stopped or killed


def broken_ranks(folder: Path, cases: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """A rank of two under torchrun that is stopped or killed at a random moment: all end within a minute and say which
    one it was, and the run, resumed, ends like one that was left alone.
    """
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    options = LONG | {"epochs": 60, "validation": 0.2, "backbone": "mlp"}
    # From a file: torchrun would take --start for an abbreviation of an option of its own.
    settings(folder / "any", "digits", **options).save(folder / "settings.yaml")
    words = ("train", "--config", str(folder / "settings.yaml"), "--out")
    start(*TORCHRUN, *words, str(folder / "whole"), module="torch.distributed.run").communicate(timeout=300)
    for number in range(cases):
        what, rank = ("stopped", "killed")[number % 2], number // 2 % 2
        out = folder / f"run-{number}"
        process = start(*TORCHRUN, *words, str(out), module="torch.distributed.run")
        while process.poll() is None and not checkpoints(out / FOLDER):
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1))
        hit = [pid for pid in _children(process.pid) if f"RANK={rank}".encode() in _environment(pid)]
        for pid in hit:
            os.kill(pid, signal.SIGSTOP if what == "stopped" else signal.SIGKILL)
        begun = time.monotonic()
        try:
            output, _ = process.communicate(timeout=2 * ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            yield f"rank {rank} {what}", Outcome(HANG, "the others did not end")
            continue
        took = time.monotonic() - begun
        # torchrun itself names a rank that has ended, below this title.
        cause = output.partition("Root Cause")[2]
        named = f"rank {rank} has not answered" in output if what == "stopped" else f": {rank} (local_rank" in cause
        ended = bool(hit) and process.returncode != 0 and took < ENDS_WITHIN and named
        yield f"rank {rank} {what}", Outcome(SAID if ended else SILENT, f"after {took:.0f} s: {output[-1500:]}")
        again = start(*TORCHRUN, "train", "--resume", str(out), "--quiet", module="torch.distributed.run")
        output, _ = again.communicate(timeout=300)
        same = again.returncode == 0 and not differences(folder / "whole", out)
        yield f"resumed after rank {rank} was {what}", Outcome(SAME if same else TRACEBACK, output[-1500:])
        shutil.rmtree(out)


def killed_workers(folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Processes that decode images and are killed: said, and the run, resumed, ends like one that was left alone."""
    folder.mkdir(parents=True)
    images, step = write_images(folder / "images", per_class=60), loop.Trainer._step
    config = {
        "backbone": "convnet", "hidden": 0, "image_size": 12, "steps": 40, "workers": 1, "quiet": True,
        "clusters_per_batch": 2, "examples_per_cluster": 2, "preset": "paper/default", "checkpoint_every": 1,
    }  # fmt: skip
    whole = run(folder / "whole", images, **config)
    for moment in (1, 2, 20):

        def killing(trainer: loop.Trainer, moment: int = moment) -> None:
            step(trainer)
            if trainer.step == moment:
                kill_workers()

        out = folder / f"run-{moment}"
        with patch.object(loop.Trainer, "_step", killing):
            outcome = command("train", *flags(settings(out, images, **config)))
        said = "a process that decodes images has ended" in outcome.words and "go on: magnet train" in outcome.words
        yield f"a worker killed at step {moment}", outcome if said else Outcome(SILENT, outcome.words)
        outcome = command("train", "--resume", out, "--quiet")
        same = outcome.kind == SAME and not differences(whole, out)
        yield f"resumed after step {moment}", outcome if same else Outcome(TRACEBACK, outcome.words)


def kill_workers() -> None:
    for worker in active_children():
        worker.kill()


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _environment(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
