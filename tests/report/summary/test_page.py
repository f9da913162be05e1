from magnet.report.summary.page import _environment, breakable


def test_text_of_others_never_acts():
    made = (
        _environment().from_string('<td title="{{ text }}">{{ text }}</td>').render(text='"><script>alert(1)</script>')
    )
    shown = "&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
    assert made == f'<td title="{shown}">{shown}</td>'
    assert breakable("<b>_&") == "&lt;b&gt;_<wbr>&amp;"


def test_control_characters_and_undecodable_names_are_shown_as_such():
    made = _environment().from_string("{{ text }}|{{ text | breakable }}").render(text="a\x1b[2J\udcff‮b")
    assert made == "a\ufffd[2J\ufffd\ufffdb|a\ufffd[2J\ufffd\ufffdb"
    made.encode()
