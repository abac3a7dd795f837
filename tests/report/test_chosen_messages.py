"""The page carries the messages of a run, and whoever looks at it chooses which one is played."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_tables import write_run, write_table
from test_write_report import Read

from chromium import opened
from hearsay.core.language.actions import Via
from hearsay.pipeline.output.tables import HEADLINE, MESSAGES, SPREAD
from hearsay.report.carried_messages import carry_messages
from hearsay.report.packed_integers import packed_integers
from hearsay.report.run import open_runs
from hearsay.report.write import figures_of, write_report
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import run_on_fitting_engine
from hearsay.trace.language.schema import TraceEvent, TraceRow, wire_name
from hearsay.trace.read.reader import iter_rows

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SMALL = [("network.nodes", "30"), ("workload.messages", "12"), ("workload.publishers", "any"), ("loss.rate", "0.3")]


def analysed(folder: Path, seed: int) -> Path:
    """A simulated run with the tables of its messages, made of its rows without an analysis."""
    scenario = load_scenario(None, "r1", [*SMALL, ("seed", str(seed))])
    run_on_fitting_engine(scenario, "reference", out=folder)
    write_run(folder, nodes=30, messages=12)
    head = {"topic_name": "topic", "router": "gossipsub", "nodes": 30, "messages": 12, "start_us": 0}
    name = {"run": folder.name, "topic": 0}
    write_table(folder, HEADLINE, [{**name, **head, "complete": True}])
    published, delivered = stories(folder)
    messages, spread = [], []
    for number, first in published.items():
        after = [row.time_us - first.time_us for row in delivered[number]]
        away = [us for us, row in zip(after, delivered[number], strict=True) if row.peer != first.peer]
        due = {"eligible": 30, "delivered_eligible": len(after), "ratio": len(after) / 30, "delivered": len(after)}
        took = {"published_us": first.time_us, "p50_us": float(np.median(away)), "max_us": max(away)}
        messages.append({**name, "message": number, "publisher": first.peer, **due, **took})
    typical = sorted(messages, key=lambda line: line["p50_us"])[len(messages) // 2]["message"]
    for row in delivered[typical]:
        own = row.peer == published[typical].peer
        whence = (
            {"hops": 0} if own else {"remote": row.remote, "hops": row.hops, "via": wire_name(row.via or Via.MESH)}
        )
        after_us = row.time_us - published[typical].time_us
        spread.append({**name, "message": typical, "node": row.peer, "after_us": after_us, **whence})
    write_table(folder, MESSAGES, messages)
    write_table(folder, SPREAD, spread)
    return folder


def stories(run: Path) -> tuple[dict[int, TraceRow], dict[int, list[TraceRow]]]:
    """By message: its publication, and its deliveries in the order of time."""
    rows = list(iter_rows(run, events=[TraceEvent.PUBLISH, TraceEvent.DELIVER]))
    published = {row.message or 0: row for row in rows if row.event is TraceEvent.PUBLISH}
    delivered: dict[int, list[TraceRow]] = {number: [] for number in published}
    for row in sorted(rows, key=lambda row: (row.time_us, row.peer)):
        if row.event is TraceEvent.DELIVER:
            delivered[row.message or 0].append(row)
    return published, delivered


def unpacked(text: str) -> list[int]:
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
    """Node, time and sender of each delivery that the page has."""
    values, count = unpacked(message["packed"]), message["count"]
    nodes, after = (np.cumsum(values[place * count : (place + 1) * count]).tolist() for place in (0, 2))
    senders = [nodes[place - back] if back else None for place, back in enumerate(values[count : 2 * count])]
    return list(zip(nodes, after, senders, strict=True))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [analysed(folder / "left", 1), analysed(folder / "right", 2)]


@pytest.fixture(scope="module")
def report(runs) -> Path:
    return write_report(runs[:1], None)


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_packed_integers_are_read_again(values):
    assert unpacked(packed_integers(np.array(values, dtype=np.int64))) == values


def test_every_delivery_of_every_message_is_on_the_page(runs, report):
    (series,) = Read(report.read_text(encoding="utf-8")).figure("spread")["series"]
    published, delivered = stories(runs[0])
    assert sorted(one["number"] for one in series["messages"]) == sorted(published)
    for message in series["messages"]:
        number = message["number"]
        start, publisher = published[number].time_us, published[number].peer
        told = [
            (row.peer, row.time_us - start, None if publisher in (row.peer, row.remote) else row.remote)
            for row in delivered[number]
        ]
        kept = [(node, us, None if sender == publisher else sender) for node, us, sender in deliveries(message)]
        assert kept == told
        assert (message["publisher"], message["delivered"]) == (publisher, len(told))
    halves = {one["number"]: one["half"] for one in series["messages"]}
    assert halves[series["lists"]["slowest"]] == max(halves.values())
    assert halves[series["lists"]["fastest"]] == min(halves.values())
    assert (series["lists"]["first"], series["lists"]["last"]) == (min(published), max(published))


def test_where_not_all_fit_the_ends_of_the_lists_come_first_and_the_page_says_so(runs):
    selection = open_runs(runs)
    room = 8_000
    figures = figures_of(selection.runs)
    carry_messages(figures, selection.runs, room)
    (spread,) = (figure for figure in figures if figure.id == "spread")
    for each, (_, words) in zip(spread.series, spread.notes, strict=True):
        carried = [one["number"] for one in each["messages"]]
        assert len(set(carried)) == len(carried) < 12
        assert set(each["lists"].values()) <= set(carried)
        assert {"typical", "slowest"} <= set(each["lists"])
        assert len(str(each["messages"])) < room / 2 * 1.3
        assert words.startswith(f"{len(carried)} of 12\N{NO-BREAK SPACE}messages are here: those that can be chosen")


def test_without_a_trace_the_typical_message_is_played_and_nothing_else(runs, tmp_path):
    shutil.copytree(runs[0] / "metrics", tmp_path / "tables" / "metrics")
    page = Read(write_report([tmp_path / "tables"], tmp_path / "out.html").read_text(encoding="utf-8"))
    (series,) = page.figure("spread")["series"]
    assert [one["number"] for one in series["messages"]] == [series["lists"]["typical"]]
    assert "alone of 12 messages is here: the trace is not beside the tables" in page.text


def test_a_damaged_trace_costs_its_messages_and_not_the_report(runs, tmp_path):
    run = tmp_path / "damaged"
    shutil.copytree(runs[0], run)
    for file in (run / "trace").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    page = Read(write_report([run], tmp_path / "out.html").read_text(encoding="utf-8"))
    (series,) = page.figure("spread")["series"]
    assert len(series["messages"]) == 1
    assert "alone of 12 messages is here" in page.text
    assert "cannot be read" in page.text


def test_the_keyboard_chooses_another_message(browser, report):
    page = opened(browser, report)
    (typical,) = page.seen("#spread .message")
    page.value("document.querySelector('#spread .chooser input').focus()")
    page.press("Home")
    (first,) = page.seen("#spread .message")
    assert first.startswith("message 0, published by node ")
    assert first != typical
    dots = "[...document.querySelectorAll('#spread .dot title')].map(e => e.textContent).join()"
    places, clock = page.value(dots), page.seen("#spread .clock")
    page.press("ArrowDown")
    (second,) = page.seen("#spread .message")
    assert second.startswith("message 1, published by node ")
    assert page.value("document.querySelector('#spread .chooser input').value") == "1"
    assert page.value("document.querySelector('#spread .chooser select').value") == ""
    assert page.value(dots) != places
    assert page.seen("#spread .clock") != clock
    page.press("End")
    page.press("ArrowDown")
    assert page.seen("#spread .message")[0].startswith("message 11, ")
    page.press("PageUp")
    assert page.seen("#spread .message")[0].startswith("message 1, ")
    assert page.complaints() == []


def test_what_is_played_is_drawn_where_its_rings_are(browser, report):
    page = opened(browser, report)
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
    page = opened(browser, write_report(runs, tmp_path / "both.html"))
    both = Read((tmp_path / "both.html").read_text(encoding="utf-8")).figure("spread")["series"]
    page.value("(s => { s.value = 'slowest'; s.dispatchEvent(new Event('change')); })"
               "(document.querySelector('#spread .chooser select'))")  # fmt: skip
    for said, each in zip(page.seen("#spread .message"), both, strict=True):
        assert said.startswith(f"message {each['lists']['slowest']}, ")
    type_number(page, "5")
    assert [said.split(",")[0] for said in page.seen("#spread .message")] == ["message 5", "message 5"]
    type_number(page, "77")
    assert page.seen("#spread .message") == ["No message 77 on this page."] * 2
    assert page.value("document.querySelectorAll('#spread .dot').length") == 0
    page.value("document.querySelector('#spread .step').click()")
    assert [said.split(",")[0] for said in page.seen("#spread .message")] == ["message 11", "message 11"]
    assert page.complaints() == []


def type_number(page, typed: str) -> None:
    field = "document.querySelector('#spread .chooser input')"
    page.value(f"{field}.value = '{typed}'; {field}.dispatchEvent(new Event('input'))")
