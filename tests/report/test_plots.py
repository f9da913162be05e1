from magnet.report.plots import draw_curves, pyplot


def test_every_line_and_mark_of_a_figure_is_explained_in_its_legend(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(pyplot(), "close", kept.append)
    curves = {"triplet": [(10, 0.5), (20, 0.3)], "Magnet": [(10, 0.3), (20, 0.2)]}
    draw_curves(
        curves, tmp_path / "c.png", title="t", goals={"triplet": 0.3}, marks=[(10, 0.3), (None, 0.1)], marked="there"
    )
    (axis,) = kept[0].axes
    explained = [text.get_text() for text in axis.get_legend().get_texts()]
    assert explained == ["triplet", "Magnet", "the error at which triplet ends", "there"]
    assert [line.get_label() for line in axis.lines] == explained
    assert axis.lines[2].get_linestyle() == "--"
    assert axis.lines[3].get_marker() == "D"
    assert axis.lines[3].get_xydata().tolist() == [[10, 30]]


def test_errors_against_seconds_stand_beside_those_against_iterations(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(pyplot(), "close", kept.append)
    curves = {"triplet": [(10, 0.5), (20, 0.3)], "Magnet": [(10, 0.3), (20, 0.2)]}
    seconds = {"triplet": [(4.0, 0.5), (7.0, 0.3)], "Magnet": [(6.0, 0.3), (9.0, 0.2)]}
    draw_curves(
        curves,
        tmp_path / "c.png",
        title="t",
        goals={"triplet": 0.3},
        marks=[(10, 0.3)],
        marked="there",
        seconds=seconds,
    )
    steps, times = kept[0].axes
    assert [axis.get_xlabel() for axis in (steps, times)] == ["iterations", "processor seconds, the start included"]
    assert times.lines[1].get_xydata().tolist() == [[6, 30], [9, 20]]
    assert [line.get_color() for line in times.lines[:2]] == [line.get_color() for line in steps.lines[:2]]
