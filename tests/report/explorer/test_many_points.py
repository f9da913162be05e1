"""How quick the page is with very many examples: the time that its handlers take of the processor."""

import colorsys

import numpy as np
import pytest

from magnet.report.explorer.page_data import encode, encode_ids
from magnet.report.html import page
from report.browser import DESKTOP, PHONE, look_like

CLASSES, CLUSTERS, FEATURES = 50, 200, 32


def many(count: int, beyond: int = 0) -> dict:
    """The data of a page, of examples in blobs around cluster centres, and of ``beyond`` that are not in the sample."""
    rng = np.random.default_rng(0)
    middles = rng.uniform(6000, 59000, size=(CLUSTERS, 2))
    cluster = rng.integers(CLUSTERS, size=count)
    labels = cluster % CLASSES
    taken = np.where(rng.random(count) < 0.1, rng.integers(CLASSES, size=count), labels)
    positions = np.clip(middles[cluster] + rng.normal(scale=900, size=(count, 2)), 0, 65535)
    few = rng.integers(count, size=(600, 4))
    moment = {
        "step": 10, "evaluated": True, "shown": encode(np.arange(count), "i4"), "positions": encode(positions, "u2"),
        "loss": encode(rng.exponential(size=count), "f4"),
        "best": {"count": 1, "classes": encode_ids(taken, CLASSES),
                 "probabilities": encode(np.full(count, 60000), "u2")},
        "neighbours": {"count": 6, "ids": encode_ids(rng.integers(count, size=(count, 6)), count),
                       "distances": encode(np.ones((count, 6)), "f4")},
        "clusters": encode(cluster, "i4"), "own": encode(rng.random(count), "f4"),
        "impostor": encode_ids((cluster + 1) % CLUSTERS, CLUSTERS), "impostorDistance": encode(rng.random(count), "f4"),
        "centres": {
            "positions": encode(middles, "u2"), "labels": encode_ids(np.arange(CLUSTERS) % CLASSES, CLASSES),
            "sizes": encode(np.bincount(cluster, minlength=CLUSTERS), "i4"), "kin": encode(np.ones(CLUSTERS), "f4"),
            "impostors": encode(np.zeros((CLUSTERS, 1)), "i4"), "distances": encode(np.ones((CLUSTERS, 1)), "f4"),
            "perCentre": 1,
        },
    }  # fmt: skip
    hidden = rng.integers(CLUSTERS, size=beyond)
    crowd = beyond and {
        "positions": encode(np.clip(middles[hidden] + rng.normal(scale=900, size=(beyond, 2)), 0, 65535), "u2"),
        "labels": encode_ids(hidden % CLASSES, CLASSES),
    }  # fmt: skip
    run = {
        "name": "many", "method": "magnet", "about": "magnet", "rule": "kNC", "checkpoint": "last: step 10 of 10",
        "steps": 10,
        "crowd": crowd,
        "test": {"n": count, "images": False, "rules": [
            {"name": "kNC", "error": "9.1 %", "own": True, "n": count},
            {"name": "soft kNN", "error": "9.4 %", "own": False, "n": 5000},
        ]}, "split": encode(rng.integers(3, size=count), "u1"), "moments": [moment],
        "heldOut": {"by": "features", "loss": encode(rng.exponential(size=count), "f4"),
                    "suggestion": encode_ids(taken, CLASSES)},
        "contrast": {"beside": 4, "ids": encode(few[:, 0], "i4"), "other": encode_ids(few[:, 1] % CLASSES, CLASSES),
                     "ofOwn": encode(few, "i4"), "ofOther": encode(few, "i4")},
    }  # fmt: skip
    return {
        "name": "many", "kind": "vectors", "mark": "many", "total": count + beyond,
        "classes": [f"class {c}" for c in range(CLASSES)],
        "names": [f"row {i}" for i in range(count)], "labels": encode_ids(labels, CLASSES), "attributes": [],
        "originals": "", "version": "test", "runs": [run],
        "pictures": {"kind": "squares", "side": 4, "pixels": encode(rng.integers(255, size=(count, 16)), "u1")},
    }  # fmt: skip


def a_table(count: int) -> dict:
    """The same as a table, with its features."""
    values = np.random.default_rng(0).normal(size=(count, FEATURES))
    looks = {
        "kind": "features", "width": FEATURES, "columns": list(range(FEATURES)), "values": encode(values, "f4"),
        "names": [f"feature {i}" for i in range(FEATURES)], "low": encode(values.min(axis=0), "f4"),
        "high": encode(values.max(axis=0), "f4"), "spread": encode(values.std(axis=0), "f4"),
        "mean": encode(values.mean(axis=0), "f4"),
    }  # fmt: skip
    return many(count) | {"pictures": looks}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    def write(data):
        file = tmp_path_factory.mktemp("many") / "many.html"
        file.write_text(page("magnet.report.explorer", "many", data), encoding="utf-8")
        return file

    return write


@pytest.mark.parametrize("data_of", [many, a_table])
def test_a_click_among_50_000_examples_is_handled_in_a_tenth_of_a_second(page_of, open_page, data_of):
    shown = open_page(page_of(data_of(50_000)))
    taken = {}
    for size in (DESKTOP, PHONE):
        look_like(shown.driver, size, "dark")
        shown.settle()
        for chosen in (
            "{kind: 'example', id: 7, run: 0}",
            "{kind: 'class', label: 3}",
            "{kind: 'cluster', moment: magnet.data.runs[0].end, cluster: 5}",
            "{kind: 'class', label: 4}, 'Modes'",
            "null, 'Summary'",
            "null, 'Suspects'",
        ):
            taken[size, chosen] = shown.handling(f"magnet.select({chosen})")
    assert min(taken.values()) > 0.1
    assert max(taken.values()) < 100, taken


# By the mouse: move the map, zoom in and out, move it close up, point at something.
MOVES = (
    "v.pan(5, 3)",
    "v.zoom(1.25); v.drawNow(); v.zoom(0.8)",
    "v.camera.scale = 6 * v.fitted; v.pan(5, 3)",
    "v.pointAt([100, 200], {pointerType: 'mouse', target: v.stage, clientX: 0, clientY: 0})",
)


def movements(shown) -> dict:
    shown.js("magnet.maps[0].drawNow()")
    return {move: shown.handling(f"const v = magnet.maps[0]; {move}; v.drawNow()") for move in MOVES}


def test_200_000_points_pan_and_zoom_at_interactive_speed(page_of, open_page):
    taken = movements(open_page(page_of(many(200_000))))
    assert max(taken.values()) < 40, taken


def test_of_50_classes_names_leave_the_map_to_be_seen_and_hues_are_the_same_in_both_themes(page_of, open_page):
    page = open_page(page_of(many(3000)))
    for size in (DESKTOP, PHONE):
        look_like(page.driver, size, "light")
        page.settle()
        covered, count = page.js(
            "const v = magnet.maps[0]; v.drawNow();"
            "const area = v.names.reduce((sum, n) => sum + n.width * n.height, 0);"
            "return [area / (v.stage.clientWidth * v.stage.clientHeight), v.names.length]"
        )
        assert covered < 0.3
        assert count > 5
    colours = "return Array.from(magnet.maps[0].points.values.colour.slice(0, 300))"
    before = page.js(colours)
    page.click("#theme")
    apart = np.abs(hues(before) - hues(page.js(colours)))
    assert np.minimum(apart, 1 - apart).max() < 0.1


def hues(colours: list[int]) -> np.ndarray:
    """The hues, 0..1, of colours one after another."""
    return np.array([colorsys.rgb_to_hls(*rgb)[0] for rgb in np.reshape(colours, (-1, 3)) / 255])


def test_a_million_are_a_density_and_a_sample_with_the_others_seen_close_up_at_interactive_speed(page_of, open_page):
    file = page_of(many(10_000, 990_000))
    assert file.stat().st_size < 25_000_000
    shown = open_page(file)
    assert shown.text("#subtitle") == "a sample of 10,000 of 1,000,000 examples, 50 classes"
    assert "not in the sample" in shown.text("#legend")
    assert "On 10,000 test examples; soft kNN on a sample of 5,000. Framed" in shown.text("#panel")
    dots = (
        "const v = magnet.maps[0]; v.drawNow(); const gl = v.crowd.gl, {width, height} = v.crowd.canvas;"
        "const pixels = new Uint8Array(4 * width * height);"
        "gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);"
        "return pixels.reduce((sum, value, i) => sum + (i % 4 === 3 && value > 0), 0)"
    )
    shown.js("const v = magnet.maps[0], p = v.moment.centres.positions; v.camera.middle = [p[0], p[1]]")
    assert shown.js(dots) == 0  # all of them at once are a density
    shown.js("magnet.maps[0].zoom(5)")
    assert shown.js(dots) > 1000
    shown.js("magnet.maps[0].reset()")
    taken = movements(shown)
    assert max(taken.values()) < 40, taken
