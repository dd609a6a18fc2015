"""A page in real Chromium, and that what goes wrong there is seen."""

import numpy as np
import pytest

from browser import check_page, needs_chromium, open_page
from supclap.report import figures, html

pytestmark = needs_chromium


def body():
    samples = np.sin(np.arange(4000) / 9)
    long = "a_file_name_without_any_place_to_break_" * 6
    return "".join(
        [
            html.text(long),
            html.table(["name", *"abcdefgh"], [[long, *[f"{k:.3f}" for k in range(8)]]] * 3),
            html.code(f"supclap train {long}"),
            html.figure(figures.curve({"a": ([1, 2], [3, 4])}, x="step", y="loss"), long),
            html.cards([html.image(figures.spectrogram(samples, 8000), "s") + html.audio(samples, 8000, long)] * 3),
            html.folded("more", html.listing({"a": {"b": long}})),
        ]
    )


def test_a_page_of_everything_is_good_on_a_phone_and_on_a_desk(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(html.page("Everything", [("One", body()), ("Two", body())]), encoding="utf8")
    check_page(page, tmp_path, "report-parts")


@pytest.mark.parametrize(
    ("broken", "where"),
    [
        ('<div style="width:700px">wide</div>', "outside"),
        ('<img src="http://example.invalid/a.png">', "complaints"),
        ('<audio src="data:audio/wav;base64,AAAA"></audio>', "heard"),
        ("<script>console.error('no')</script>", "complaints"),
    ],
)
def test_what_is_broken_is_seen(tmp_path, broken, where):
    """The watcher itself: each of these would fail a report."""
    page = tmp_path / "page.html"
    page.write_text(html.page("Broken", [("One", body() + broken)]), encoding="utf8")
    found = open_page(page, tmp_path / "browser", width=390)
    seen = {"outside": found["outside"], "complaints": found["complaints"], "heard": 0.0 in found["heard"]}
    assert [name for name, value in seen.items() if value] == [where]


def test_a_page_may_load_nothing_even_if_its_data_asks_for_it(tmp_path):
    """The page's own policy: nothing from outside is asked for, whatever slipped in."""
    page = tmp_path / "page.html"
    page.write_text(html.page("x", [("One", '<img src="http://example.invalid/a.png">')]), encoding="utf8")
    assert open_page(page, tmp_path / "browser", width=1280)["asked"] == []
