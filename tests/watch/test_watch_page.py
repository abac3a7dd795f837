"""The watch page in a real browser: mouse and keyboard, light, dark and narrow, up to 1,200 nodes."""

from __future__ import annotations

import json
import signal
from subprocess import PIPE

import pytest
from commands import started
from watched import watched

from chromium import Page
from hearsay.sim.scenario.scenario_file import load_scenario

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def scenario(nodes, *more):
    return load_scenario(None, "r1", [("network.nodes", str(nodes)), ("workload.messages", "60"), *more])


@pytest.fixture
def opened(browser):
    """Return a function that opens a page. All pages are closed at the end: an open page would keep reconnecting."""
    pages = []

    def visit(url, *, dark=False, width=1280, calm=False):
        page = Page(browser, dark=dark, width=width, calm=calm)
        pages.append(page)
        page.visit(url)
        return page

    yield visit
    for page in pages:
        page.close()


def text(page, element):
    return page.value(f"document.getElementById({json.dumps(element)}).textContent").replace(
        "\N{NO-BREAK SPACE}", " "
    )


def until_says(page, element, words):
    page.until(f"document.getElementById({json.dumps(element)}).textContent.includes({json.dumps(words)})")


def choose(page, picker, value):
    page.value(f"(p => {{ p.value = {json.dumps(value)}; p.dispatchEvent(new Event('change')); }})({picker})")


PAINTED = """(() => {
  const canvases = ['links', 'network'].map(name => document.getElementById(name));
  const [{ width, height }] = canvases;
  const copy = Object.assign(document.createElement('canvas'), { width, height });
  const pen = copy.getContext('2d', { willReadFrequently: true });
  for (const canvas of canvases) pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, copy.width, copy.height);
  let found = 0;
  for (let at = 3; at < data.length; at += 4) if (data[at]) found += 1;
  return found;
})()"""
"""JavaScript: the number of pixels of the network's picture that are not transparent."""


@pytest.mark.thorough
def test_a_thousand_nodes_are_drawn_without_errors_or_foreign_requests(opened):
    with watched(scenario(1000), 1.0) as source:
        page = opened(source.url)
        until_says(page, "about", "1,000 of 1,000 nodes up")
        until_says(page, "reached", "1,000 of 1,000 nodes in the topic")
        page.until(f"{PAINTED} > 20_000")
        until_says(page, "frames", "median of 120, Canvas 2D")
        assert "members with" in text(page, "links-words")
        until_says(page, "run", "delivered")
        assert all(address.startswith((source.url, "data:")) for address in page.requests())
        assert page.console_messages() == []


def test_all_panels_of_a_network_are_on_the_first_screen(opened):
    with watched(scenario(60), 4.0) as source:
        page = opened(source.url, width=1400)
        until_says(page, "reached", "60 of 60 nodes in the topic (100 %)")
        until_says(page, "course-words", "orange p99")
        assert (
            page.value(
                "[...document.querySelectorAll('.card')].filter(e => e.checkVisibility()"
                " && e.getBoundingClientRect().bottom > 900).map(e => e.textContent)"
            )
            == []
        )
        assert page.value("document.querySelector('.picture').getBoundingClientRect().height") > 700
        assert "from the publisher, which is not drawn" in text(page, "legend")
        p50, p99 = page.value(
            "['p50', 'p99'].map((_, at) => document.querySelectorAll('#run dd')[1 + 2 * at].textContent)"
        )
        assert p50 != p99
        assert page.console_messages() == []


@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390)], ids=["dark", "narrow"])
def test_dark_and_narrow(opened, dark, width):
    with watched(scenario(50), 1.0) as source:
        page = opened(source.url, dark=dark, width=width)
        background = page.value("getComputedStyle(document.body).backgroundColor")
        channels = [int(channel) for channel in background[4:-1].split(",")]
        assert (max(channels) < 80) if dark else (min(channels) > 200)
        assert page.value("document.documentElement.scrollWidth <= innerWidth")
        assert page.console_messages() == []


def test_keys_pause_scrub_and_touch(opened):
    with watched(scenario(40), 1.0) as source:
        page = opened(source.url)
        until_says(page, "about", "40 of 40 nodes up")
        page.until("Number(document.getElementById('when').max) > 20")
        page.press(" ")
        until_says(page, "link", "paused")
        stopped = text(page, "clock")
        for _ in range(5):
            page.press("ArrowLeft")
        page.until(f"document.getElementById('clock').textContent !== {json.dumps(stopped)}")
        assert page.value("document.getElementById('live').getAttribute('aria-pressed')") == "false"
        page.press("End")
        until_says(page, "clock", stopped)
        page.press("]")
        page.press("]")
        until_says(page, "node-facts", "node1isup")
        page.press("p")
        until_says(page, "done", "Node 1 publishes at")
        page.press("x")
        until_says(page, "done", "Node 1 goes down at")
        page.press(" ")
        until_says(page, "about", "39 of 40 nodes up")
        until_says(page, "node-facts", "node1isdown")
        page.press("r")
        until_says(page, "about", "40 of 40 nodes up")
        assert page.value("document.getElementById('keep').checkVisibility()")
        page.press("?")
        page.until("document.getElementById('keys').open")
        assert page.console_messages() == []
    written = source.source.scenario_text()
    assert written.count('action = "publish"') == 1
    assert "listed = [\n    1,\n]" in written
    assert "rejoin_after_s" in written


def test_a_single_member_is_written_in_the_singular(opened):
    alone = scenario(40, ("topics", '[{ name = "t", subscribers_count = 1 }]'))
    with watched(alone, 1.0) as source:
        until_says(opened(source.url), "links-words", "1 member with 0 links")


def test_any_pace_is_shown(opened):
    with watched(scenario(12), 6.0) as source:
        page = opened(source.url)
        page.until("document.getElementById('pace').selectedOptions[0]?.textContent === '6x'")
        page.press(" ")
        until_says(page, "link", "paused")
        later = opened(source.url)
        until_says(later, "about", "12 of 12 nodes up")
        later.until("document.getElementById('pace').value === '6'")


def test_a_click_chooses_the_node(opened):
    with watched(scenario(1), 1.0) as source:
        page = opened(source.url)
        until_says(page, "about", "1 of 1 nodes up")
        box = page.value("document.getElementById('network').getBoundingClientRect().toJSON()")
        page.until(f"{PAINTED} > 50")
        across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        side = min(box["width"], box["height"])
        page.click(across + 0.47 * 0.5**0.5 * side, down)
        until_says(page, "node-facts", "node0isup")
        page.click(box["x"] + 2, box["y"] + 2)
        page.until("document.getElementById('node').hidden")


@pytest.mark.thorough
def test_all_colourings_and_places_can_be_drawn(opened):
    with watched(scenario(60), 1.0) as source:
        page = opened(source.url)
        until_says(page, "reached", "nodes in the topic")
        for picker in ("colour", "places"):
            for value in page.value(f"[...document.getElementById('{picker}').options].map(option => option.value)"):
                choose(page, f"document.getElementById('{picker}')", value)
                page.until(f"{PAINTED} > 500")
        assert page.console_messages() == []


def test_hostile_names_are_text(opened):
    with watched(scenario(10, ("topics.0.name", HOSTILE)), 1.0) as source:
        page = opened(source.url)
        until_says(page, "topic", "<img src=x onerror=alert(1)>\\u{202e}</script>")
        assert page.value("document.querySelectorAll('img, body script').length") == 0
        assert page.console_messages() == []


def test_reduced_motion_and_a_source_that_goes_away(opened):
    with watched(scenario(20), 1.0) as source:
        page = opened(source.url, calm=True)
        until_says(page, "about", "20 of 20 nodes up")
    until_says(page, "link", "the source is gone")


def test_a_page_that_is_opened_late_scrubs_the_whole_run(opened):
    with watched(scenario(30), 8.0) as source:
        first = opened(source.url)
        until_says(first, "about", "30 of 30 nodes up")
        first.until("Number(document.getElementById('clock').textContent.split(' ')[0]) > 8")
        page = opened(source.url)
        until_says(page, "about", "30 of 30 nodes up")
        page.until("Number(document.getElementById('when').max) > 20")
        page.value("(w => { w.value = 3; w.dispatchEvent(new Event('input')); })(document.getElementById('when'))")
        page.until("Number(document.getElementById('clock').textContent.split(' ')[0]) < 5")
        assert page.console_messages() == []


@pytest.mark.thorough
def test_a_large_network_is_shown_as_a_sample_and_by_squares(opened):
    with watched(scenario(1200), 1.0) as source:
        page = opened(source.url)
        until_says(page, "about", "1,200 of 1,200 nodes up; 1,000 drawn")
        until_says(page, "density-words", "1,200 of 1,200 nodes have the message")
        assert (
            page.value("document.getElementById('density').getContext('2d').getImageData(5, 5, 1, 1).data[3]") == 255
        )
        assert page.console_messages() == []


CANCEL_AND_PRESS_P_AT_ONCE = """(() => {
  document.querySelector('#stopping button[value=""]').click();
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'p', bubbles: true }));
})()"""
"""JavaScript: cancel the question, and press P before the browser has closed it and moved the focus."""


def test_a_real_node_is_stopped_after_a_confirmation(opened):
    node = started("node", "--json", "--subscribe", "news", "--watch", "--watch-stop", stdin=PIPE, stdout=PIPE)
    try:
        page = opened(json.loads(node.stdout.readline())["address"])
        page.until("document.getElementById('about').textContent.includes('1 of 1 nodes up')")
        page.press("]")
        page.until("!document.getElementById('stop').disabled && document.getElementById('stop').checkVisibility()")
        page.press("x")
        page.until("document.getElementById('stopping').open")
        page.value(CANCEL_AND_PRESS_P_AT_ONCE)
        until_says(page, "done", "publishes at")
        page.press("x")
        page.value("document.querySelector('#stopping button[value=stop]').click()")
        until_says(page, "link", "the source is gone")
        assert node.wait() == 128 + signal.SIGTERM
    finally:
        node.kill()
        node.communicate()


def test_a_request_without_an_answer_is_reported(opened):
    with watched(scenario(5), 1.0) as source:
        page = opened(source.url)
        until_says(page, "about", "5 of 5 nodes up")
        page.press("]")
        until_says(page, "node-facts", "node0isup")
        page.block("*/do")
        page.press("p")
        until_says(page, "done", "There was no answer; perhaps the action failed.")
        until_says(page, "link", "live")


def test_without_the_token_there_is_one_line(opened):
    with watched(scenario(5), 1.0, paused=True) as source:
        page = opened(f"{source.origin}/")
        assert page.value("document.body.textContent").strip() == "the address must contain the page's token"
