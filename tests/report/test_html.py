import json
import re

import pytest

from magnet.errors import UserError
from magnet.report.html import embedded_json, page, write_whole

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
