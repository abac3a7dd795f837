"""The page as a person sees it: opened in a real browser, used with mouse and keys, in light and dark, on paper."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from result_tables import HOSTILE, write_empty_run, write_run

from chromium import Page, opened
from hearsay.report.write import write_report
from hearsay.text import numbers

SHOWN_HOSTILE = HOSTILE.replace("\u202e", "\\u202e")


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        write_run(folder / "ring", topics=("blocks", HOSTILE)),
        write_run(folder / "<b>large&", nodes=40, slow=3),
        write_empty_run(folder / "empty"),
    ]
    write_report(runs, folder / "report.html")
    return folder / "report.html"


def choose_topic(page: Page, name: str) -> None:
    script = """(name => {
      const picker = document.getElementById('topic');
      picker.value = [...picker.options].find(option => option.textContent === name).value;
      picker.dispatchEvent(new Event('change'));
    })"""
    page.value(f"{script}({json.dumps(name)})")


def scrub(page: Page, place: int) -> None:
    slider = "document.querySelector('#spread input[type=range]')"
    page.value(f"{slider}.value = {place}; {slider}.dispatchEvent(new Event('input'))")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_quiet_page_without_network(browser, report, dark, tmp_path):
    page = opened(browser, report, dark=dark)
    page.screenshot(tmp_path / "page.png")
    assert page.requests() == [report.resolve().as_uri()]
    assert page.complaints() == []
    background = page.value("getComputedStyle(document.body).backgroundColor")
    channels = [int(channel) for channel in background[4:-1].split(",")]
    assert (max(channels) < 80) if dark else (min(channels) > 200)
    assert page.value("document.querySelectorAll('figure .chart svg').length") >= 11
    assert "The charts need JavaScript." not in page.value("document.body.textContent")


def test_answers_and_charts_follow_the_topic(browser, report):
    page = opened(browser, report)
    reliability = page.seen("#answer-reliability .answer")
    assert "2 of 400 due missing" in reliability[0]
    choose_topic(page, "blocks")
    reliability = page.seen("#answer-reliability .answer")
    assert reliability[0].startswith(" ring:")
    assert "1 of 200 due missing" in reliability[0]
    assert "<b>large&:" in reliability[1]
    choose_topic(page, SHOWN_HOSTILE)
    assert len(page.seen("#answer-reliability .answer")) == 1
    assert page.value("document.querySelectorAll('#latency .series').length") == 1
    assert page.complaints() == []


def test_hostile_names_show_as_text(browser, report):
    page = opened(browser, report)
    assert SHOWN_HOSTILE[:40] in page.value("document.getElementById('topic').textContent")
    assert SHOWN_HOSTILE in page.seen("#compared bdi")
    assert "<b>large&" in page.seen(".toolbar bdi")
    assert page.value("document.querySelectorAll('b, script').length") == 2
    page.value("document.querySelector('#latency svg.lines').focus()")
    page.press("End")
    assert any("<b>large&" in text for text in page.seen("#latency .tip"))


def test_arrow_keys_read_the_chart(browser, report):
    page = opened(browser, report)
    choose_topic(page, "blocks")
    page.value("document.querySelector('#latency svg.lines').focus()")
    page.press("Home")
    page.press("ArrowRight")
    (said,) = page.seen("#latency .tip")
    assert said == "latency 20 msring21.1 %<b>large&5.1 %"
    page.press("Escape")
    assert page.seen("#latency .tip") == []
    page.value("document.querySelector('#picture svg.picture').focus()")
    page.press("Home")
    assert page.seen("#picture .tip") == ["node 0links to 1, 192"]


def test_a_run_can_be_hidden_and_what_lacks_is_said(browser, report):
    page = opened(browser, report)
    assert page.value("document.querySelectorAll('#latency .series').length") == 2
    page.value("document.querySelector('.toolbar input[data-run=\"0\"]').click()")
    assert page.value("document.querySelectorAll('#latency .series').length") == 1
    assert not any("ring:" in text for text in page.seen("#answer-reliability .answer"))
    assert "no rows in the table “latency”" in page.seen("#latency .missing")[0]
    for run in (1, 2):
        page.value(f"document.querySelector('.toolbar input[data-run=\"{run}\"]').click()")
    assert page.complaints() == []


def test_the_spread_plays_to_its_end_and_scrubs(browser, report):
    page = opened(browser, report)
    assert page.seen("#spread .missing") == ["This figure shows one topic: choose one above."]
    choose_topic(page, "blocks")
    assert page.seen("#spread .reached")[0] == "20 of 20 drawn deliveries made (100 %)"
    scrub(page, 0)
    assert page.seen("#spread .reached")[0] == "1 of 20 drawn deliveries made (5 %)"
    assert page.value("document.querySelectorAll('#spread .dot.on').length") == 2
    scrub(page, 900)
    page.value("document.querySelector('#spread .play').click()")
    assert page.seen("#spread .play") == ["Pause"]
    ended = "document.querySelector('#spread .play').textContent === 'Play'"
    page.value(
        f"new Promise(done => {{ const look = () => {ended} ? done() : requestAnimationFrame(look); look(); }})"
    )
    assert page.seen("#spread .reached")[0] == "20 of 20 drawn deliveries made (100 %)"
    assert page.complaints() == []


def test_reduced_motion_shows_still_pictures(browser, report):
    page = opened(browser, report, calm=True)
    choose_topic(page, "blocks")
    scrub(page, 700)
    page.value("""
        window.seen = new Set();
        new MutationObserver(() => seen.add(document.querySelector('#spread input[type=range]').value))
          .observe(document.querySelector('#spread .reached'), { childList: true });
        document.querySelector('#spread .play').click();
    """)
    ended = "document.querySelector('#spread .play').textContent === 'Play'"
    page.value(f"new Promise(done => {{ const look = () => {ended} ? done() : setTimeout(look, 50); look(); }})")
    stops = {int(value) for value in page.value("[...seen]")}
    assert stops <= {700, 800, 900, 1000}
    assert 1000 in stops


def test_nothing_is_cut_off_on_a_narrow_screen(browser, report):
    page = opened(browser, report, width=400)
    assert page.value("document.documentElement.scrollWidth") <= 400
    overlapping = """
        [...document.querySelectorAll('svg.lines, svg.histogram')].flatMap(surface => {
          const boxes = [...surface.querySelectorAll('text')].map(text => text.getBoundingClientRect());
          return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3));
        }).length
    """
    assert page.value(overlapping) == 0


def test_it_prints(browser, report):
    assert opened(browser, report, dark=True).printed().startswith(b"%PDF")


def test_the_page_writes_numbers_as_the_words_do(browser, report):
    page = opened(browser, report)
    chance = random.Random(1)
    values = [
        0.0,
        1.0,
        0.5,
        0.999,
        0.9999999999,
        1e-12,
        0.00001,
        0.123,
        12.5,
        85.04,
        999.4,
        999.5,
        1000,
        123456.789,
        1e16,
    ]
    values += [10 ** chance.uniform(-9, 14) for _ in range(300)] + [
        1 - 10 ** chance.uniform(-10, 0) for _ in range(100)
    ]
    pairs = {
        "percent": (numbers.percent, [value for value in values if value <= 1]),
        "ms": (numbers.milliseconds, values),
        "bytes": (numbers.size, values),
        "number": (numbers.figure, values),
        "s": (numbers.seconds, values),
        "count": (numbers.count, [math.floor(value) for value in values if value < 1e15]),
    }
    for name, (say, known) in pairs.items():
        assert page.value(f"{json.dumps(known)}.map(v => hearsay.formats.{name}(v))") == [
            say(value) for value in known
        ], name
