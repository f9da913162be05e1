from magnet.report.summary.markup import Markup, element, table, text


def test_text_of_others_never_acts():
    evil = "<script>alert(1)</script>"
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert text(evil) == shown
    assert element("td", evil, title='" onload="x') == f'<td title="&quot; onload=&quot;x">{shown}</td>'
    made = table([evil, Markup("<b>ours</b>")], [[evil, 3]])
    assert "<script" not in made
    assert "<b>ours</b>" in made


def test_control_characters_and_undecodable_names_are_shown_as_such():
    assert text("a\x1b[2J\udcff‮b") == "a\ufffd[2J\ufffd\ufffdb"
    text("a\udcff").encode()
