"""Text for terminals: tables that fit the width, and progress of a sweep."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from result_tables import write_table

from hearsay.cli.analyze import answers_text, show_answers
from hearsay.metrics import shown_in, without_unknown
from hearsay.pipeline.output.folders import Folder
from hearsay.text import table_text

ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub", "episub")


def line_of(router: str, **changes: Any) -> dict[str, Any]:
    line: dict[str, Any] = {
        "run": router, "topic": "blocks", "router": router, "delivery_ratio": 0.99987,
        "latency_ms": {"p50": 157.642, "p90": 217.962, "p99": 263.138, "max": 1307.01},
        "hops": {"mean": 3.7833, "max": 9}, "copies_per_delivery": 17.321, "control_bytes_share": 0.30412,
        "bytes_out": {"mean": 1_234_567.8, "max_over_mean": 1.5213, "gini": 0.00188},
        "uplink_share": {"mean": None, "max": None}, "state_bytes": {"mean": 1948.7, "max": 2910},
    }  # fmt: skip
    return {**line, **changes}


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_answers_fit_the_terminal_and_no_word_is_cut(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = answers_text([line_of(router) for router in ROUTERS])
    assert max(map(len, text.splitlines())) <= columns
    assert all(router in text for router in ROUTERS)
    for figure in ("99.987 %", "158 ms", "1.31 s", "1.23 MB", "17.3", "30.4 %", "3.78"):
        assert text.count(figure) == len(ROUTERS), figure


def test_runs_stand_side_by_side_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    two = [line_of("gossipsub", run="first"), line_of("gossipsub", run="lossy")]
    lines = answers_text(two).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["run", "first", "lossy"],
        ["router", "gossipsub", "gossipsub"],
        ["delivered", "99.987", "%", "99.987", "%"],
    ]
    assert len(lines) == len(("run", "router", *without_unknown(shown_in("terminal"), ())))
    many = answers_text([line_of("gossipsub", run=f"run-{number}") for number in range(9)])
    assert many.count("delivered") == 2


def test_an_incomplete_run_is_marked_below_the_answers(tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for run, rows in ((whole, 0), (cut, 1)):
        run.mkdir()
        write_table(run, "quality", [{"run": run.name, "check": "incomplete", "rows": rows, "detail": None}])
    show_answers([line_of("whole"), line_of("cut")], [Folder(whole), Folder(cut)], as_json=False)
    shown = capsys.readouterr().out
    assert "cut: INCOMPLETE: the run was interrupted, its figures end there\n" in shown
    assert shown.count("INCOMPLETE") == 1


def test_figures_that_were_not_measured_are_marked_and_only_limited_uplinks_are_shown():
    bare = answers_text([line_of("floodsub", bytes_out={"mean": None, "max_over_mean": None, "gini": None})])
    assert bare.count("n/m") == 3
    assert bare.endswith("n/m: not measured")
    assert "uplink" not in bare
    limited = answers_text([line_of("floodsub", uplink_share={"mean": 0.0123, "max": 0.4}), line_of("episub")])
    assert "of uplink" in limited
    assert "1.2 %" in limited


def test_bytes_of_several_topics_have_a_note():
    several = answers_text([line_of("gossipsub"), line_of("gossipsub", topic="votes")])
    assert several.endswith("sent per node: the parts of each topic, without IWANT, which names no topic")
    assert "the parts of each topic" not in answers_text([line_of("gossipsub"), line_of("floodsub")])


@pytest.mark.parametrize("width", range(24, 130, 7))
def test_a_table_never_cuts_a_cell(width):
    head = ["", "A", "B", "B − A (95 % interval)", "verdict"]
    rows = [
        ["control per delivery", "142 ms", "130 ms", "−11.1 ms (−19.1 … −3.2)", "better"],
        ["hops", "1", "2", "3", "4"],
    ]
    text = table_text(head, rows, width=width)
    assert all(len(line) <= width for line in text.splitlines())
    words = set(text.replace(":", "").split())
    assert words >= {word for row in (head, *rows) for cell in row for word in cell.split()}


WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None; from hearsay.cli.main import main; main()"


def shown_on_a_terminal(term: str, *command: str, cwd: Path) -> str:
    """Return what a command of Python writes to standard error when that is a terminal of this kind."""
    ours, theirs = pty.openpty()
    command = (sys.executable, *command)
    environment = {**os.environ, "TERM": term, "COLUMNS": "90"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment, cwd=cwd)
    os.close(theirs)
    written = b""
    while select.select([ours], [], [], 240)[0]:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    assert process.wait(60) == 0
    return written.decode("utf-8", "replace")


@pytest.mark.thorough
def test_a_table_that_is_too_wide_becomes_a_list_with_headings():
    head, cells = ("node", "why", "what is known"), ("17", "none of those it was connected to had it", "23 peers")
    assert table_text(head, [cells], left=3, width=45).split("\n") == [
        "node 17",
        "  why: none of those it was connected to had",
        "    it",
        "  what is known  23 peers",
    ]


SMALL_STUDY = """
seeds = 2
[base]
preset = "r1"
network.nodes = 9
workload.messages = 1
"""


def test_progress_of_a_sweep_is_plain_on_a_dumb_terminal(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL_STUDY)
    dumb = shown_on_a_terminal("dumb", "-c", WITHOUT_SPARK, "sweep", "small.toml", "--out", "dumb", cwd=tmp_path)
    assert "sweep: 2 of 2 runs done" in dumb
    assert "\x1b" not in dumb


@pytest.mark.thorough
def test_progress_of_a_sweep_counts_from_the_start(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL_STUDY)
    able = shown_on_a_terminal("xterm", "-m", "hearsay", "sweep", "small.toml", "--out", "able", cwd=tmp_path)
    assert "sweep: starting Spark" in able
    assert "0 of 2 done, starting" in able
    assert "None" not in able
