"""The demo, short."""

from magnet.cli import main


def test_the_demo_prints_its_table_and_draws_its_maps(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo"), "--epochs", "3", "--seeds", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    for word in ("softmax", "triplet", "magnet", "kNC", "soft kNN", "hidden digits", "steps to triplet's error"):
        assert word in shown
    picture = tmp_path / "demo" / "maps.png"
    assert picture.stat().st_size > 20_000
    assert (tmp_path / "demo" / "magnet" / "config.yaml").is_file()
