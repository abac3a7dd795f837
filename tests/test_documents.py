"""The programs in the documents run, one after the other as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb
from commands import hearsay
from result_tables import write_run

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_programs_of_a_router_of_ones_own(monkeypatch):
    monkeypatch.syspath_prepend(DOCS.parent / "examples")
    exec("\n".join(blocks("extending.md", "python")), {})
    sys.modules.pop("echo_router", None)


def test_the_programs_that_read_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = Path("runs/first")
    assert hearsay("simulate", "--nodes", 30, "--messages", 2, "--out", run).returncode == 0
    write_run(run)
    programs = blocks("python.md", "python")
    assert len(programs) == 4
    exec("\n".join(programs), {})
    assert "peer_count_distinct: int64" in capsys.readouterr().out
    for question in blocks("python.md", "sql"):
        assert duckdb.sql(question).fetchall()
