import hashlib
import json
import re

import pytest

from magnet.errors import UserError, percent
from magnet.report.html import LIST, Folder, embedded_json, page, write_whole

NASTY = "</script><script>alert(1)</script><!-- & \u2028 \u2029 ' \" \udcff"


def test_embedded_json_means_nothing_to_html_and_comes_back():
    text = embedded_json({NASTY: [NASTY, 1.5]})
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == {NASTY: [NASTY, 1.5]}


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError):
        embedded_json({"loss": float("nan")})


def test_a_page_holds_all_and_asks_for_nothing():
    made = page("magnet.report.explorer", NASTY, {"names": [NASTY]})
    assert made.count("</script>") == made.count("<script") == 2  # data and our own
    assert "<title>&lt;/script&gt;" in made
    assert "default-src 'none'" in made
    assert not re.findall(r'(?:src|href)="(?!data:)', made)
    assert made.rindex("start();") > made.index("function readData")  # main.js comes last


def test_a_page_compiles_no_code_and_shows_files_only_where_they_lie_beside_it():
    assert "unsafe-eval" not in page("magnet.report.explorer", "", {})
    assert 'img-src data:"' in page("magnet.report.explorer", "", {})
    assert "img-src data: 'self' file:\"" in page("magnet.report.explorer", "", {}, beside=True)


def test_a_file_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_whole(tmp_path / "file" / "page.html", "text")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        write_whole(tmp_path / "page.html", "text")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "page.html"]


def test_a_share_as_a_percentage():
    assert [percent(share) for share in (0.0625, 1.0, None)] == ["6.2 %", "100.0 %", "-"]


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write_page(path, *files):
    folder = Folder(path)
    for name in (*files, "index.html"):
        folder.keep(name, f"{name} of {len(files)}")
    folder.finish()


def test_a_smaller_page_in_the_same_folder_leaves_nothing_of_the_larger_one_and_all_that_others_put_there(tmp_path):
    site, outside = tmp_path / "site", tmp_path / "0.js"
    outside.write_text("mine")
    write_page(site, "data/0.js", "data/1.js", "data/2.js", "pictures/small-0.webp", "pictures/large-0.webp")
    (site / "data" / "2.js").write_text("changed by hand")
    (site / "data" / "9.js").write_text("put there by hand")
    (site / "notes.txt").write_text("mine")
    known = json.loads((site / LIST).read_text())
    for forged in ("../0.js", str(outside), "data/../../0.js", "notes.txt"):
        known[forged] = hashlib.sha256(b"mine").hexdigest()
    (site / LIST).write_text(json.dumps(known))
    write_page(site, "data/0.js")
    assert names(site) == ["data/0.js", "data/2.js", "data/9.js", LIST, "index.html", "notes.txt"]
    assert (site / "data" / "0.js").read_text() == "data/0.js of 1"
    assert outside.exists()


def test_a_folder_that_holds_something_else_is_refused_and_one_that_was_interrupted_is_not(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "index.html").write_text("mine")
    with pytest.raises(UserError, match=r"photos holds other files: give the name of a new folder"):
        Folder(tmp_path / "photos")
    Folder(tmp_path / "site").keep("data/0.js", "half")
    write_page(tmp_path / "site", "data/0.js")
    (tmp_path / "site" / LIST).write_text("{")
    with pytest.raises(UserError, match="cut short"):
        Folder(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    write_page(tmp_path / "empty")
