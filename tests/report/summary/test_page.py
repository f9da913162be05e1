from magnet.report.summary.page import _clearly_best, _environment, breakable


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


def test_a_calibration_inside_one_standard_error_of_the_error_is_not_the_best():
    def found(calibration, n):
        return {"rule": "knc", "n": n, "knc": {"error": 0.075, "ece_calibrated": calibration}}

    few, many = ([(0, found(0.039, n)), (1, found(0.023, n))] for n in (240, 24_000))
    assert _clearly_best(few, ("", "ece_calibrated")) is None  # 1.6 of 1.7 percent
    assert _clearly_best(many, ("", "ece_calibrated")) == 1
