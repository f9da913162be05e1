import functools
import hashlib
import http.server
import io
import tarfile
import threading

import pytest

from magnet.data.benchmarks import SOURCES
from magnet.data.benchmarks.source import Archive, Source
from magnet.data.fetch import fetch
from magnet.errors import UserError


def tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def server(tmp_path):
    """A web server of the folder ``site``; yields (folder, address, requested paths)."""
    site, requested = tmp_path / "site", []
    site.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requested.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site)) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site, f"http://127.0.0.1:{httpd.server_port}", requested
        httpd.shutdown()
        thread.join()


def registry(*archives, ask=""):
    return {"toy": Source("toy", "Toy", 2, 2, "", "", "", archives, ask)}


def test_archives_are_downloaded_checked_and_unpacked_and_plain_files_laid_beside(server, tmp_path):
    site, address, _ = server
    images = tar(site / "images.tar.gz", {"images/a.txt": b"a"})
    (site / "list.mat").write_bytes(b"list")
    sources = registry(
        Archive((f"{address}/images.tar.gz",), sha256(images), ("images",)),
        Archive((f"{address}/list.mat?download=1",), sha256(site / "list.mat"), ("list.mat",)),
    )
    folder = fetch("toy", tmp_path / "to", sources=sources)
    assert (folder / "images" / "a.txt").read_bytes() == b"a"
    assert (folder / "list.mat").read_bytes() == b"list"


def test_progress_is_told_until_the_end(server, tmp_path):
    site, address, _ = server
    (site / "list.mat").write_bytes(bytes(50_000))
    told = []
    sources = registry(Archive((f"{address}/list.mat",), sha256(site / "list.mat"), ("list.mat",)))
    fetch("toy", tmp_path / "to", lambda *state: told.append(state), sources=sources)
    assert told[-1] == ("list.mat", 50_000, 50_000)
    assert all(done <= total for _, done, total in told)


def test_what_is_there_is_not_downloaded_again(server, tmp_path):
    site, address, requested = server
    (site / "list.mat").write_bytes(b"list")
    sources = registry(Archive((f"{address}/list.mat",), sha256(site / "list.mat"), ("list.mat",)))
    for _ in range(2):
        fetch("toy", tmp_path / "to", sources=sources)
    assert len(requested) == 1


def test_a_wrong_checksum_is_refused_and_nothing_unpacked(server, tmp_path):
    site, address, _ = server
    tar(site / "images.tar.gz", {"images/a.txt": b"a"})
    sources = registry(Archive((f"{address}/images.tar.gz",), "0" * 64, ("images",)))
    with pytest.raises(UserError, match="not the official file"):
        fetch("toy", tmp_path / "to", sources=sources)
    assert not (tmp_path / "to" / "images").exists()


def test_the_second_address_is_tried_when_the_first_fails(server, tmp_path):
    site, address, _ = server
    (site / "list.mat").write_bytes(b"list")
    urls = (f"{address}/gone/list.mat", f"{address}/list.mat")
    fetch("toy", tmp_path / "to", sources=registry(Archive(urls, sha256(site / "list.mat"), ("list.mat",))))
    assert (tmp_path / "to" / "list.mat").exists()


def test_a_failed_download_names_every_address(server, tmp_path):
    _, address, _ = server
    urls = (f"{address}/a/list.mat", f"{address}/b/list.mat")
    with pytest.raises(UserError, match=r"(?s)a/list\.mat.*b/list\.mat"):
        fetch("toy", tmp_path / "to", sources=registry(Archive(urls, "0" * 64, ("list.mat",))))


def test_an_archive_cannot_write_outside_the_folder(server, tmp_path):
    site, address, _ = server
    evil = tar(site / "images.tar", {"../../escaped.txt": b"x"}, "w")
    sources = registry(Archive((f"{address}/images.tar",), sha256(evil), ("images",)))
    with pytest.raises(UserError, match="cannot be unpacked"):
        fetch("toy", tmp_path / "a" / "to", sources=sources)
    assert not list(tmp_path.rglob("escaped.txt"))


def test_an_archive_with_links_is_refused(server, tmp_path):
    site, address, _ = server
    with tarfile.open(site / "images.tar", "w") as archive:
        member = tarfile.TarInfo("images")
        member.type, member.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(member)
    sources = registry(Archive((f"{address}/images.tar",), sha256(site / "images.tar"), ("images",)))
    with pytest.raises(UserError, match="'images' is neither a file nor a folder"):
        fetch("toy", tmp_path / "to", sources=sources)
    assert not (tmp_path / "to" / "images").is_symlink()


def test_an_address_without_https_is_not_asked(tmp_path):
    sources = registry(Archive(("http://example.org/list.mat",), "0" * 64, ("list.mat",)))
    with pytest.raises(UserError, match=r"example\.org/list\.mat: not https"):
        fetch("toy", tmp_path / "to", sources=sources)


def test_what_cannot_be_fetched_says_where_to_ask(tmp_path):
    with pytest.raises(UserError, match=r"account at https://image-net\.org"):
        fetch("imagenet-attributes", tmp_path)
    with pytest.raises(UserError, match="comes with scikit-learn"):
        fetch("digits", tmp_path)
    with pytest.raises(UserError, match="There are: pets, flowers, dogs, cub, fashion-mnist"):
        fetch("puppies", tmp_path)


def test_every_official_file_has_a_sha256_and_is_fetched_by_https():
    for source in SOURCES.values():
        for archive in source.archives:
            assert len(bytes.fromhex(archive.sha256)) == 32
            assert all(url.startswith("https://") for url in archive.urls)
