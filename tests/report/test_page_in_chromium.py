"""The report of runs in a real browser: mouse and keyboard, light and dark, narrow screens, paper."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from result_tables import HOSTILE, write_empty_run, write_run, write_table

from chromium import Page, open_page
from hearsay import number_text
from hearsay.pipeline.output.tables import read_table
from hearsay.report.run_page import write_report

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


@pytest.fixture(scope="module")
def five_routers(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("routers")
    runs = []
    for place, router in enumerate(("floodsub", "randomsub", "meshsub", "gossipsub", "episub")):
        run = write_run(folder / router, slow=1 + place)
        (line,) = read_table(run, "headline").to_pylist()
        changed = {"router": router, "latency_p99_ms": 100.0 * (1 + place), "complete": router != "episub"}
        write_table(run, "headline", [line | changed])
        runs.append(run)
    return write_report(runs, folder / "report.html")


def choose_topic(page: Page, name: str) -> None:
    script = """(name => {
      const picker = document.getElementById('topic');
      picker.value = [...picker.options].find(option => option.textContent === name).value;
      picker.dispatchEvent(new Event('change'));
    })"""
    page.value(f"{script}({json.dumps(name)})")


def move_slider(page: Page, place: int) -> None:
    slider = "document.querySelector('#spread input[type=range]')"
    page.value(f"{slider}.value = {place}; {slider}.dispatchEvent(new Event('input'))")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_makes_no_other_request_and_logs_no_error(browser, report, dark, tmp_path):
    page = open_page(browser, report, dark=dark)
    assert page.value("document.querySelectorAll('figure .chart svg').length") == 2
    page.open_sections()
    page.screenshot(tmp_path / "page.png")
    assert page.requests() == [report.resolve().as_uri()]
    assert page.console_messages() == []
    background = page.value("getComputedStyle(document.body).backgroundColor")
    channels = [int(channel) for channel in background[4:-1].split(",")]
    assert (max(channels) < 80) if dark else (min(channels) > 200)
    assert page.value("document.querySelectorAll('figure .chart svg').length") >= 7
    assert "The charts need JavaScript." not in page.value("document.body.textContent")


def test_table_and_charts_follow_the_topic(browser, report):
    page = open_page(browser, report)
    assert page.visible_texts("#compared tbody td:nth-child(2)")[0].startswith("99.5 %")
    choose_topic(page, "blocks")
    rows = page.visible_texts("#compared tbody tr")
    assert rows[0].startswith(" ring")
    assert "99.5 %worst" in rows[0]
    assert rows[1].startswith(" <b>large&")
    choose_topic(page, SHOWN_HOSTILE)
    assert len(page.visible_texts("#compared tbody tr")) == 1
    assert page.value("document.querySelectorAll('#latency .series').length") == 1
    assert page.console_messages() == []


def test_hostile_names_show_as_text(browser, report):
    page = open_page(browser, report)
    assert SHOWN_HOSTILE[:40] in page.value("document.getElementById('topic').textContent")
    page.open_sections()
    assert SHOWN_HOSTILE in page.visible_texts("#metrics bdi")
    assert "<b>large&" in page.visible_texts(".toolbar bdi")
    assert page.value("document.querySelectorAll('b:not(#differ b), script').length") == 2
    page.value("document.querySelector('#latency svg.lines').focus()")
    page.press("End")
    assert any("<b>large&" in text for text in page.visible_texts("#latency .tip"))


def test_arrow_keys_read_the_chart(browser, report):
    page = open_page(browser, report)
    choose_topic(page, "blocks")
    page.value("document.querySelector('#latency svg.lines').focus()")
    page.press("Home")
    page.press("ArrowRight")
    (said,) = page.visible_texts("#latency .tip")
    assert said == "latency 20 msring21.1 %<b>large&5.1 %"
    rows = "[...document.querySelectorAll('#latency .tip div')].map(row => [row, row.querySelector('.amount')]"
    tops = f"{rows}.map(each => Math.round(each.getBoundingClientRect().top)))"
    assert all(row == amount for row, amount in page.value(tops))
    page.press("Escape")
    assert page.visible_texts("#latency .tip") == []
    page.open_sections()
    page.value("document.querySelector('#picture svg.picture').focus()")
    page.press("Home")
    assert page.visible_texts("#picture .tip") == ["node 0links to 1, 192"]


def test_a_run_can_be_hidden_and_a_missing_table_is_named(browser, report):
    page = open_page(browser, report)
    assert page.value("document.querySelectorAll('#latency .series').length") == 2
    page.value("document.querySelector('.toolbar input[data-run=\"0\"]').click()")
    assert page.value("document.querySelectorAll('#latency .series').length") == 1
    assert not any("ring" in text for text in page.visible_texts("#compared tbody tr"))
    assert "no rows in the table “latency”" in page.visible_texts("#latency .missing")[0]
    for run in (1, 2):
        page.value(f"document.querySelector('.toolbar input[data-run=\"{run}\"]').click()")
    assert page.console_messages() == []


def test_the_spread_plays_to_its_end_and_follows_its_slider(browser, report):
    page = open_page(browser, report)
    page.open_sections()
    assert page.visible_texts("#spread .missing") == ["This figure shows one topic: choose one above."]
    choose_topic(page, "blocks")
    assert page.visible_texts("#spread .reached")[0] == "20 of 20 drawn deliveries made (100 %)"
    move_slider(page, 0)
    assert page.visible_texts("#spread .reached")[0] == "1 of 20 drawn deliveries made (5 %)"
    assert page.value("document.querySelectorAll('#spread .dot.on').length") == 2
    move_slider(page, 900)
    page.value("document.querySelector('#spread .play').click()")
    assert page.visible_texts("#spread .play") == ["Pause"]
    ended = "document.querySelector('#spread .play').textContent === 'Play'"
    page.value(
        f"new Promise(done => {{ const look = () => {ended} ? done() : requestAnimationFrame(look); look(); }})"
    )
    assert page.visible_texts("#spread .reached")[0] == "20 of 20 drawn deliveries made (100 %)"
    assert page.console_messages() == []


def test_reduced_motion_shows_still_pictures(browser, report):
    page = open_page(browser, report, calm=True)
    page.open_sections()
    choose_topic(page, "blocks")
    move_slider(page, 700)
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


@pytest.mark.parametrize("width", [400, 1024, 1400])
def test_nothing_is_cut_off(browser, report, width):
    page = open_page(browser, report, width=width)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.open_sections()
    assert page.value("document.documentElement.scrollWidth") <= width
    overlapping = """
        [...document.querySelectorAll('svg.lines, svg.bars')].flatMap(surface => {
          const boxes = [...surface.querySelectorAll('text')].map(text => text.getBoundingClientRect());
          return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3));
        }).length
    """
    assert page.value(overlapping) == 0


@pytest.mark.parametrize(("width", "screens"), [(1400, 4), (400, 8)])
def test_the_closed_page_is_short(browser, five_routers, width, screens):
    page = open_page(browser, five_routers, width=width)
    assert page.value("document.documentElement.scrollHeight") <= screens * 900


def test_the_first_screen_has_a_table_two_charts_and_no_prose(browser, five_routers):
    page = open_page(browser, five_routers, width=1400)
    first = """
        (selector => [...document.querySelectorAll(selector)].filter(element => {
          const box = element.getBoundingClientRect();
          return element.checkVisibility() && box.top < 900 && box.height > 0;
        }).length)
    """
    assert page.value(f"{first}('table')") == 1
    assert page.value(f"{first}('.chart svg')") == 2
    assert page.value(f"{first}('p')") == 0
    ends = "[...document.querySelectorAll('#compared, #latency, #churn')].map(e => e.getBoundingClientRect().bottom)"
    assert max(page.value(ends)) <= 900
    planes = "[...document.querySelectorAll('#latency svg, #churn svg')].map(e => e.getBoundingClientRect().top)"
    assert len(set(page.value(planes))) == 1
    assert page.value("document.querySelectorAll('#compared tbody tr').length") == 5
    assert page.value("document.querySelectorAll('#compared tbody tr:first-child td').length") == 8
    assert len(page.visible_texts("#compared .best")) >= 2
    assert page.visible_texts("#compared .badge") == ["incomplete"]


def test_a_narrow_screen_compares_the_runs_by_question(browser, five_routers):
    page = open_page(browser, five_routers, width=400)
    in_order = """
        [...document.querySelectorAll('#compared :is(th, td)')].filter(e => e.checkVisibility())
          .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
          .map(e => e.dataset.label ?? e.textContent)
    """
    shown = page.value(in_order)
    runs = ["floodsub", "randomsub", "meshsub", "gossipsub", "episub, incomplete"]
    assert shown[:6] == ["deliveredDoes every message arrive?", *runs]
    assert [shown[place : place + 6][1:] for place in range(0, 48, 6)] == [runs] * 8
    assert "control shareWhat share of bytes is overhead?" in shown
    page.value("document.querySelector('.toolbar input[data-run=\"1\"]').click()")
    assert page.value(in_order)[1:3] == ["floodsub", "meshsub"]


def test_points_of_delivery_are_not_joined_and_a_cut_axis_is_marked(browser, five_routers):
    page = open_page(browser, five_routers, width=1400)
    # The only lines show the nodes that are up, as steps: they have no slope (L).
    lines = "[...document.querySelectorAll('#churn .series')].map(line => line.getAttribute('d').includes('L'))"
    assert page.value(lines) == [False] * 5
    points = "[...document.querySelectorAll('#churn g[data-run]:not(:has(.series)) .mark')]"
    assert len(set(page.value(f"{points}.map(mark => mark.getAttribute('transform'))"))) == 5 * 5
    assert "delivery ratio, axis from 90 %" in page.visible_texts("#churn text")
    assert page.value("document.querySelectorAll('#churn .cut').length") == 1
    assert page.value("document.querySelectorAll('#latency .cut').length") == 0


def test_many_points_of_delivery_are_small(browser, five_routers, tmp_path):
    size = """(() => {
      const point = document.querySelector('#churn g[data-run]:not(:has(.series)) .mark');
      return point.getBoundingClientRect().width;
    })()"""
    long = write_report([write_run(tmp_path / "long", messages=300)], tmp_path / "long.html")
    few, many = (open_page(browser, each, width=1400).value(size) for each in (five_routers, long))
    assert many < few / 2


def test_every_drawing_has_a_title_and_a_description_and_the_keyboard_reaches_it(browser, report):
    page = open_page(browser, report)
    choose_topic(page, "blocks")
    page.open_sections()
    drawings = "[...document.querySelectorAll('svg')]"
    assert page.value(f"{drawings}.length") >= 11
    assert page.value(f"{drawings}.filter(e => !e.querySelector(':scope > title')?.textContent).length") == 0
    assert page.value(f"{drawings}.filter(e => !e.querySelector(':scope > desc')?.textContent).length") == 0
    unreachable = f"{drawings}.filter(e => e.tabIndex < 0 && !e.classList.contains('spread')).length"
    assert page.value(unreachable) == 0
    assert page.value("document.querySelectorAll('#spread input[type=range]').length") == 1
    closed = "[...document.querySelectorAll('details')].filter(e => e.querySelector('summary').tabIndex !== 0).length"
    assert page.value(closed) == 0


def test_the_page_can_be_printed(browser, report):
    assert open_page(browser, report, dark=True).printed().startswith(b"%PDF")


def test_charts_write_numbers_as_the_text_does(browser, report):
    page = open_page(browser, report)
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
        "percent": (number_text.percent, [value for value in values if value <= 1]),
        "ms": (number_text.milliseconds, values),
        "bytes": (number_text.size, values),
        "number": (number_text.figure, values),
        "s": (number_text.seconds, values),
        "count": (number_text.count, [math.floor(value) for value in values if value < 1e15]),
    }
    for name, (as_text, of_kind) in pairs.items():
        assert page.value(f"{json.dumps(of_kind)}.map(v => hearsay.formats.{name}(v))") == [
            as_text(value) for value in of_kind
        ], name
