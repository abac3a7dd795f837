"""Errors of routers of other packages: one line with router, event, node, time, and the place in the code."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from commands import hearsay, started

from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario
from hearsay.studies.packs import Task, perform

ROUTERS = """
from hearsay.core.language.events import TimerFired
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.registry import ROUTERS, RouterKind

class Divides(Gossipsub):
    def timer_fired(self):
        1 / 0

class BadAction(Gossipsub):
    def timer_fired(self):
        self.shell.outbox.graft(99, "topic")  # no such peer

class BadStart(Gossipsub):
    def __init__(self, parameters=None):
        super().__init__(parameters)
        {}["missing"]

DIVIDES, BAD_ACTION, BAD_START = (
    RouterKind(kind.__name__.lower(), GossipsubParameters, kind, ROUTERS["gossipsub"].presets)
    for kind in (Divides, BadAction, BadStart)
)
"""
SMALL = ("--preset", "r1", "--nodes", "5", "--messages", "1")
DIVIDES = (
    r"router divides failed at node \d, handling TimerFired at \d+\.\d{6} s: ZeroDivisionError: division by zero "
    r"\(failing_routers\.py:9, in timer_fired\)"
)


@pytest.fixture
def routers(tmp_path, monkeypatch):
    (tmp_path / "failing_routers.py").write_text(ROUTERS, encoding="utf-8")
    (tmp_path / "unreadable_routers.py").write_text("def\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("router", "code", "words"),
    [
        ("failing_routers:DIVIDES", 1, DIVIDES + "; HEARSAY_DEBUG=1 shows its traceback"),
        (
            "failing_routers:BAD_ACTION", 1,
            r"router badaction failed at node \d, after handling TimerFired, "
            r"with an action that cannot be performed at .*",
        ),
        ("failing_routers:BAD_START", 1, r".*KeyError: 'missing' \(failing_routers\.py:18, in __init__\).*"),
        ("failing_routers:MISSING", 2, ".* cannot be loaded: module 'failing_routers' has no attribute 'MISSING'"),
        ("unreadable_routers:A", 2, r".* cannot be loaded: SyntaxError: .* \(unreadable_routers.py, line 1\)"),
    ],
)  # fmt: skip
def test_a_router_that_raises_is_reported_in_one_line(routers, router, code, words):
    done = hearsay("simulate", *SMALL, "--router", router, env=routers)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("engine: ")]
    assert (done.returncode, len(lines)) == (code, 1)
    assert re.fullmatch(f"hearsay: {words}", lines[0]), lines


@pytest.mark.parametrize("command", [("simulate", *SMALL), ("watch", "--nodes", "10")])
def test_the_array_engine_refuses_routers_of_other_packages(routers, command):
    done = hearsay(*command, "--router", "failing_routers:DIVIDES", "--engine", "array", env=routers)
    assert done.returncode == 2
    assert "engine array: router.kind = 'failing_routers:DIVIDES': only floodsub, " in done.stderr


def test_hearsay_debug_shows_the_traceback(routers):
    process = started(
        "simulate", *SMALL, "--router", "failing_routers:DIVIDES", env={**routers, "HEARSAY_DEBUG": "1"},
        stderr=subprocess.PIPE,
    )  # fmt: skip
    _, lines = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "    1 / 0" in lines


def test_a_run_of_a_study_records_the_same_error(routers):
    scenario = load_scenario(None, "r1", [("network.nodes", "5")], router="failing_routers:DIVIDES")
    row = perform(Task("run", "point", 1, dump_scenario(scenario), (), "auto", trace=False))
    assert re.fullmatch(DIVIDES, row["error"])
