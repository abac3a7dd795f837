"""The report of a run has its messages; a reader chooses the message that the figure `spread` plays."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs_with_tables import publications_and_deliveries, simulate_with_tables
from test_write_report import ParsedPage

from chromium import open_page
from hearsay.report.animated_messages import add_messages, packed_integers
from hearsay.report.run_page import figures_of, write_report
from hearsay.report.runs import open_runs

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def unpacked(text: str) -> list[int]:
    """Decode integers: digits of 5 bits, the lowest first, with a bit for "more"; the lowest bit is the sign."""
    values, value, place = [], 0, 0
    for letter in text:
        digit = DIGITS.index(letter)
        value |= digit % 32 << place
        place += 5
        if digit < 32:
            values.append(-(value >> 1) if value & 1 else value >> 1)
            value = place = 0
    return values


def deliveries(message: dict[str, Any]) -> list[tuple[int, int, int | None]]:
    """Return node, time in µs after the publication, and sender (None if unknown) of each delivery on the page."""
    values, count = unpacked(message["packed"]), message["count"]
    nodes, after = (np.cumsum(values[place * count : (place + 1) * count]).tolist() for place in (0, 2))
    senders = [nodes[place - back] if back else None for place, back in enumerate(values[count : 2 * count])]
    return list(zip(nodes, after, senders, strict=True))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [simulate_with_tables(folder / "left", 1), simulate_with_tables(folder / "right", 2)]


@pytest.fixture(scope="module")
def report(runs) -> Path:
    return write_report(runs[:1], None)


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_packed_integers_can_be_unpacked(values):
    assert unpacked(packed_integers(np.array(values, dtype=np.int64))) == values


def test_every_delivery_of_every_message_is_on_the_page(runs, report):
    (series,) = ParsedPage(report.read_text(encoding="utf-8")).figure("spread")["series"]
    published, delivered = publications_and_deliveries(runs[0])
    assert sorted(one["number"] for one in series["messages"]) == sorted(published)
    for message in series["messages"]:
        number = message["number"]
        start, publisher = published[number].time_us, published[number].peer
        expected = [
            (row.peer, row.time_us - start, None if publisher in (row.peer, row.remote) else row.remote)
            for row in delivered[number]
        ]
        kept = [(node, us, None if sender == publisher else sender) for node, us, sender in deliveries(message)]
        assert kept == expected
        assert (message["publisher"], message["delivered"]) == (publisher, len(expected))
    halves = {one["number"]: one["half"] for one in series["messages"]}
    assert halves[series["lists"]["slowest"]] == max(halves.values())
    assert halves[series["lists"]["fastest"]] == min(halves.values())
    assert (series["lists"]["first"], series["lists"]["last"]) == (min(published), max(published))


def test_if_not_all_messages_fit_the_named_ones_come_first_and_a_note_has_the_numbers(runs):
    selection = open_runs(runs)
    room = 8_000
    figures = figures_of(selection.runs)
    add_messages(figures, selection.runs, room)
    (spread,) = (figure for figure in figures if figure.id == "spread")
    for each, (_, words) in zip(spread.series, spread.notes, strict=True):
        carried = [one["number"] for one in each["messages"]]
        assert len(set(carried)) == len(carried) < 12
        assert set(each["lists"].values()) <= set(carried)
        assert {"typical", "slowest"} <= set(each["lists"])
        assert len(str(each["messages"])) < room / 2 * 1.3
        assert words.startswith(f"{len(carried)} of 12\N{NO-BREAK SPACE}messages: named messages")


def test_without_a_trace_the_typical_message_is_played_and_nothing_else(runs, tmp_path):
    shutil.copytree(runs[0] / "metrics", tmp_path / "tables" / "metrics")
    page = ParsedPage(write_report([tmp_path / "tables"], tmp_path / "out.html").read_text(encoding="utf-8"))
    (series,) = page.figure("spread")["series"]
    assert [one["number"] for one in series["messages"]] == [series["lists"]["typical"]]
    assert "of 12 messages: the trace is missing" in page.text
    assert "hearsay watch RUN" not in page.text


def test_a_report_of_a_damaged_trace_has_the_typical_message_only(runs, tmp_path):
    run = tmp_path / "damaged"
    shutil.copytree(runs[0], run)
    for file in (run / "trace").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    page = ParsedPage(write_report([run], tmp_path / "out.html").read_text(encoding="utf-8"))
    (series,) = page.figure("spread")["series"]
    assert len(series["messages"]) == 1
    assert "of 12 messages" in page.text
    assert "not a readable Parquet file" in page.text


def test_the_keyboard_chooses_another_message(browser, report):
    page = open_page(browser, report)
    page.open_sections()
    (typical,) = page.visible_texts("#spread .message")
    page.value("document.querySelector('#spread .chooser input').focus()")
    page.press("Home")
    (first,) = page.visible_texts("#spread .message")
    assert first.startswith("message 0, published by node ")
    assert first != typical
    dots = "[...document.querySelectorAll('#spread .dot title')].map(e => e.textContent).join()"
    places, clock = page.value(dots), page.visible_texts("#spread .clock")
    page.press("ArrowDown")
    (second,) = page.visible_texts("#spread .message")
    assert second.startswith("message 1, published by node ")
    assert page.value("document.querySelector('#spread .chooser input').value") == "1"
    assert page.value("document.querySelector('#spread .chooser select').value") == ""
    assert page.value(dots) != places
    assert page.visible_texts("#spread .clock") != clock
    page.press("End")
    page.press("ArrowDown")
    assert page.visible_texts("#spread .message")[0].startswith("message 11, ")
    page.press("PageUp")
    assert page.visible_texts("#spread .message")[0].startswith("message 1, ")
    assert page.console_messages() == []


def test_each_dot_of_a_message_lies_on_a_ring(browser, report):
    page = open_page(browser, report)
    page.open_sections()
    off = """
        [...document.querySelectorAll('#spread .dot')].filter(dot => {
          const far = Math.hypot(dot.cx.baseVal.value - 500, dot.cy.baseVal.value - 500);
          const rings = [0, ...[...document.querySelectorAll('#spread .ring')].map(ring => ring.r.baseVal.value)];
          return !rings.some(radius => Math.abs(radius - far) < 1.5);
        }).length
    """
    for number in range(12):
        type_number(page, str(number))
        assert page.value("document.querySelectorAll('#spread .dot').length") > 20
        assert page.value(off) == 0


def test_lists_and_numbers_choose_for_all_runs_side_by_side(browser, runs, tmp_path):
    page = open_page(browser, write_report(runs, tmp_path / "both.html"))
    page.open_sections()
    both = ParsedPage((tmp_path / "both.html").read_text(encoding="utf-8")).figure("spread")["series"]
    page.value("(s => { s.value = 'slowest'; s.dispatchEvent(new Event('change')); })"
               "(document.querySelector('#spread .chooser select'))")  # fmt: skip
    for said, each in zip(page.visible_texts("#spread .message"), both, strict=True):
        assert said.startswith(f"message {each['lists']['slowest']}, ")
    type_number(page, "5")
    assert [said.split(",")[0] for said in page.visible_texts("#spread .message")] == ["message 5", "message 5"]
    type_number(page, "77")
    missing = "No message 77 on this page. There are 12 of them, from 0 to 11."
    assert page.visible_texts("#spread .message") == [missing] * 2
    assert page.value("document.querySelectorAll('#spread .dot').length") == 0
    page.value("document.querySelector('#spread .step').click()")
    assert [said.split(",")[0] for said in page.visible_texts("#spread .message")] == ["message 11", "message 11"]
    type_number(page, "9" * 400)
    assert page.visible_texts("#spread .message")[0].startswith("No message 99999999…999999999999 on this page.")
    type_number(page, "")
    for said, each in zip(page.visible_texts("#spread .message"), both, strict=True):
        assert said.startswith(f"message {each['lists']['slowest']}, ")
    assert page.value("document.querySelector('#spread .chooser input').value") == ""
    assert page.console_messages() == []


def type_number(page, typed: str) -> None:
    field = "document.querySelector('#spread .chooser input')"
    page.value(f"{field}.value = '{typed}'; {field}.dispatchEvent(new Event('input'))")
