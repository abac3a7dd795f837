"""The HTML page of an explanation: it loads nothing, draws the path and the tree, and escapes names."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import hearsay
from explained_runs import SMALL, load_kind, simulate

from chromium import Page, require_charts_that_fit
from hearsay.explain.answers import explain
from hearsay.explain.deliveries import explain_node
from hearsay.explain.message import open_message
from hearsay.report.explain_page import write_explained_page
from hearsay.sim.scenario.scenario_file import load_scenario

HOSTILE = "</title><script>alert(1)</script>\u202e\x1b[2J"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run whose nodes and topic have hostile names."""
    path = simulate(load_kind("queues"), tmp_path_factory.mktemp("page") / "run")
    assert path is not None
    for name in ("peers", "topics"):
        file = path / "dictionary" / f"{name}.parquet"
        table = pq.read_table(file)
        names = [f"{HOSTILE}{number}" for number in range(table.num_rows)]
        place = table.schema.get_field_index("name")
        pq.write_table(table.set_column(place, "name", pa.array(names)), file)
    return path


@pytest.fixture(scope="module")
def page(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "page.html"
    done = hearsay("explain", run, "--message", "3", "--node", "7", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"page: {out}\n")
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    return out


def test_the_page_loads_nothing_and_escapes_names(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text or "&lt;/script&gt;" in text
    assert not any(char in text for char in "\u202e\x1b")


def test_pictures_are_good_xml_with_a_lane_for_each_node(run, page):
    answer = explain_node(open_message(run, "3"), 7)
    assert answer is not None
    pictures = re.findall(r"<svg viewBox=\"0 0 .*?</svg>", page.read_text(encoding="utf-8"), re.DOTALL)
    drawn = [ElementTree.fromstring(picture) for picture in pictures]
    assert len(drawn) >= 2
    lanes = [part for part in drawn[0].iter("circle") if part.get("class") == "had"]
    assert len(lanes) == len(answer.path.nodes)
    tree = [part for part in drawn[-1].iter("circle") if part.get("class") == "mark"]
    deliveries = open_message(run, "3").history.deliveries
    assert len(tree) == len(deliveries.first())


def test_a_publisher_outside_of_the_network_is_counted_among_the_drawn_nodes(tmp_path):
    run = simulate(load_scenario(None, "r1", [*SMALL, ("workload.inject", "1")]), tmp_path / "run")
    assert run is not None
    story = open_message(run, "0")
    assert story.history.publisher not in story.history.deliveries.node
    answer = explain(story, None, missing=False)
    write_explained_page(tmp_path / "page.html", answer)
    tree = (tmp_path / "page.html").read_text(encoding="utf-8").split('class="chart tree"')[1]
    assert tree.count('class="mark"') == 51
    assert "; 51 of 51 nodes are drawn." in tree


@pytest.mark.parametrize("options", [(), ("--missing",), ("--node", "7")])
def test_each_answer_has_a_page_and_json_stays_alone(run, tmp_path, options):
    out = tmp_path / "page.html"
    done = hearsay("explain", run, "--message", "3", *options, "--out", out, "--json")
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    assert "page:" not in done.stdout
    assert "Senders and receivers" in out.read_text(encoding="utf-8")


def test_no_other_file_is_written_over(run, tmp_path):
    out = tmp_path / "mine.html"
    out.write_text("mine", encoding="utf-8")
    done = hearsay("explain", run, "--message", "3", "--out", out)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"hearsay: {out}: exists and is not a report of Hearsay; choose another --out or remove it\n"
    )
    assert out.read_text(encoding="utf-8") == "mine"


def test_a_browser_shows_it_in_light_and_dark_and_on_a_telephone(browser, page):
    for dark, width in ((False, 1280), (True, 1280), (False, 390)):
        shown = Page(browser, dark=dark, width=width, calm=False)
        shown.open(page)
        assert shown.console_messages() == []
        assert shown.requests() == [page.resolve().as_uri()]
        assert shown.value("document.documentElement.scrollWidth") <= width
        assert shown.value("document.querySelectorAll('svg[role=img]').length") >= 2
        require_charts_that_fit(shown)
        answer = "document.querySelector('.verdict').getBoundingClientRect().width"
        assert shown.value(answer) == shown.value("document.querySelector('main').getBoundingClientRect().width")
        ink = shown.value("getComputedStyle(document.querySelector('.had')).stroke")
        assert ink == ("rgb(232, 234, 237)" if dark else "rgb(27, 31, 36)")
