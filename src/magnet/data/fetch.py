"""Download a benchmark set from its official site, verify it, and unpack it."""

import logging
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from magnet.data.benchmarks import SOURCES
from magnet.data.benchmarks.source import Archive, Source
from magnet.errors import UserError, did_you_mean

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # this machine, where nobody is on the way
Progress = Callable[[str, int, int], None]


def fetch(
    name: str, folder: str | Path, progress: Progress | None = None, *, sources: Mapping[str, Source] = SOURCES
) -> Path:
    """Download the set ``name`` into ``folder``; afterwards ``name:folder`` opens it.

    The archives are kept in ``folder/archives``: what is there with the right checksum is not downloaded again.

    Args:
        progress: called with (file name, bytes done, bytes in all; 0 if unknown) while a file comes in.
        sources: the registry to look ``name`` up in.
    """
    if name not in sources:
        known = [key for key, source in sources.items() if source.archives]
        raise UserError(f"no set is called {name!r}{did_you_mean(name, known)} There are: {', '.join(known)}.")
    source = sources[name]
    if not source.archives:
        raise UserError(f"{name} cannot be fetched: {source.ask}")
    folder = Path(folder).expanduser()
    kept = folder / "archives"
    kept.mkdir(parents=True, exist_ok=True)
    for archive in source.archives:
        _unpack(_download(archive, kept, progress), folder)
    return folder


class _Bar:
    """The part of tqdm's interface that pooch uses, passed on to a plain function."""

    def __init__(self, file: str, progress: Progress) -> None:
        self.file, self.progress = file, progress
        self.total = self.done = 0

    def update(self, count: int) -> None:
        self.done += count
        # pooch counts whole blocks, so the last one overshoots.
        self.progress(self.file, min(self.done, self.total) if self.total else self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _download(archive: Archive, folder: Path, progress: Progress | None) -> Path:
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    failures = []
    for url in archive.urls:
        place = urlsplit(url)
        if place.scheme != "https" and place.hostname not in LOOPBACK:
            failures.append(f"{url}: not https, so that anybody on the way could read and change it")
            continue
        bar = _Bar(archive.file, progress) if progress else False
        try:
            found = pooch.retrieve(
                url,
                f"sha256:{archive.sha256}",
                fname=archive.file,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar, timeout=60),
            )
            return Path(found)
        except OSError as error:  # requests, which pooch downloads with, raises kinds of it
            failures.append(f"{url}: {error}")
        except ValueError as error:  # pooch's word for a wrong checksum
            failures.append(f"{url}: not the official file ({error})")
    raise UserError(f"{archive.file} could not be downloaded.\n  " + "\n  ".join(failures))


def _unpack(file: Path, folder: Path) -> None:
    if not tarfile.is_tarfile(file):
        shutil.copyfile(file, folder / file.name)
        return
    try:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter=_plain)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UserError(f"{file}: cannot be unpacked ({error}).") from error


def _plain(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """A member of an archive, if it is a file or a folder that lands inside; no set has links, and some versions of
    Python can be led out of the folder by them.
    """
    if not (member.isreg() or member.isdir()):
        raise tarfile.ReadError(f"{member.name!r} is neither a file nor a folder")
    return tarfile.data_filter(member, folder)
