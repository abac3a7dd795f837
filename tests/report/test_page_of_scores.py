"""The page of `hearsay score`: it loads nothing, draws every peer, and causes no error in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from clean_set import checked

from chromium import Page, require_charts_that_fit
from hearsay.report.score_page import write_score_page
from hearsay.report.svg import signed_scale
from hearsay.score_check.check import check_subject
from hearsay.score_check.subjects import subject_of_set

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    changes = {"expect.topics.0.topic": HOSTILE, "score.topics.0.topic": HOSTILE, "score.retain_ms": 0}
    write_score_page(checked(folder, changes), folder / "page.html")
    return folder / "page.html"


def pictures(page: Path) -> list[str]:
    return re.findall(r"<svg viewBox=\"0 0 .*?</svg>", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_loads_nothing_and_escapes_names(hostile):
    text = hostile.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "script-src 'none'" in text
    assert not re.search(r"https?://|<script|<img|<link|\u202e", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text


def test_the_page_begins_with_its_chart(hostile):
    text = hostile.read_text(encoding="utf-8")
    assert "<p" not in text[text.index("<main>") : text.index("<svg")]
    assert text.index("<svg") < text.index('id="findings"')


def test_every_peer_is_drawn_with_thresholds_and_parts(hostile):
    whole, narrow, *cards = pictures(hostile)
    assert narrow.count("<polyline") == 7
    assert len(re.findall("<polyline", whole)) == 7
    assert len(cards) == 7
    for picture in (whole, *cards):
        ElementTree.fromstring(picture)
        for name in ("gossip", "publish", "graylist", "accept_exchange", "opportunistic_graft"):
            assert name in picture
    for card in cards:
        assert card.count('class="line whole"') == 1
        assert card.count("<polyline") > 1


@pytest.mark.parametrize("name", ["go", "rust", "lighthouse", "ethereum-prysm", "nim"])
def test_any_set_makes_a_page(name, tmp_path):
    write_score_page(check_subject(subject_of_set(name)), tmp_path / "page.html")
    for picture in pictures(tmp_path / "page.html"):
        assert "nan" not in picture
        assert "inf" not in picture


@pytest.mark.parametrize(
    ("values", "linear"),
    [([0.0, 20.0, -60.0], True), ([53.0, -16_000.0], False), ([5.0], True), ([-1e9, 3.0], False)],
)
def test_scores_far_apart_have_a_scale_with_room_for_both(values, linear):
    scale = signed_scale(values)
    assert signed_scale([0.0]).at(0.0) == 0.5
    places = [scale.at(value) for value in sorted({*values, 0.0})]
    assert places == sorted(set(places))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert any(words == "0" for _, words in scale.ticks)
    assert scale.at(max(values)) - scale.at(0.0) > 0.05
    middle = (scale.at(0.0) + scale.at(max(values))) / 2
    assert (scale.at(max(values) / 2) == pytest.approx(middle)) is linear


def test_a_browser_shows_the_page_in_light_and_dark_and_on_a_telephone(browser, hostile):
    for dark, width in ((False, 1280), (True, 1280), (False, 390)):
        page = Page(browser, dark=dark, width=width, calm=False)
        page.open(hostile)
        assert page.console_messages() == []
        assert page.requests() == [hostile.resolve().as_uri()]
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value("document.querySelectorAll('svg[role=img]').length") == 9
        require_charts_that_fit(page)
        colour = page.value("getComputedStyle(document.querySelector('.threshold')).stroke")
        assert colour == ("rgb(201, 151, 0)" if dark else "rgb(224, 161, 0)")
