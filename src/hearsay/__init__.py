"""Hearsay: gossip publish/subscribe. One router for the simulator, the node and the tests.

    import hearsay

    summary = hearsay.simulate("simsub", {"network.nodes": 200}, out="runs/first")
    run = hearsay.open_run("runs/first")

The names of `__all__` are the front door, and `hearsay.routers` has what a router from outside needs. The pages are
docs/reference/api.md, and docs/reference/stability.md for what may change. A name is loaded when it is first used, so
that a program pays for what it needs; `MissingExtra` says what is not installed.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from hearsay.extras import MissingExtra, how_to_install
from hearsay.version import __version__

if TYPE_CHECKING:
    from hearsay.api.comparisons import Comparison, compare
    from hearsay.api.explanations import Explanation, explain_message
    from hearsay.api.runs import Run, open_run
    from hearsay.api.score_checks import ScoreCheck, check_scores
    from hearsay.api.simulations import load_scenario, simulate
    from hearsay.api.sweeps import SweepResult, sweep
    from hearsay.api.table import Table
    from hearsay.api.tuning import TuneAnswer, TuneResult, tune
    from hearsay.core.language.events import Verdict
    from hearsay.core.language.rpc import Message
    from hearsay.core.shell.contract import RouterFailed
    from hearsay.node.config import NodeConfig, NodeLimits
    from hearsay.node.node import Node
    from hearsay.node.topic import Published, Received, Topic
    from hearsay.score_check.findings import ScoreFinding
    from hearsay.sim.results.summary import Summary
    from hearsay.sim.scenario.scenario import Scenario
    from hearsay.sim.scenario.scenario_error import ScenarioError
    from hearsay.sim.simulate import InvariantViolation
    from hearsay.studies.checked_file import StudyError
    from hearsay.trace.language.errors import RunFolderError
    from hearsay.wire.signing import SignaturePolicy

__all__ = [
    "Comparison",
    "Explanation",
    "InvariantViolation",
    "Message",
    "MissingExtra",
    "Node",
    "NodeConfig",
    "NodeLimits",
    "Published",
    "Received",
    "RouterFailed",
    "Run",
    "RunFolderError",
    "Scenario",
    "ScenarioError",
    "ScoreCheck",
    "ScoreFinding",
    "SignaturePolicy",
    "StudyError",
    "Summary",
    "SweepResult",
    "Table",
    "Topic",
    "TuneAnswer",
    "TuneResult",
    "Verdict",
    "__version__",
    "check_scores",
    "compare",
    "explain_message",
    "load_scenario",
    "open_run",
    "simulate",
    "sweep",
    "tune",
]

_HOMES = {
    "Comparison": "hearsay.api.comparisons",
    "Explanation": "hearsay.api.explanations",
    "InvariantViolation": "hearsay.sim.simulate",
    "Message": "hearsay.core.language.rpc",
    "Node": "hearsay.node.node",
    "NodeConfig": "hearsay.node.config",
    "NodeLimits": "hearsay.node.config",
    "Published": "hearsay.node.topic",
    "Received": "hearsay.node.topic",
    "RouterFailed": "hearsay.core.shell.contract",
    "Run": "hearsay.api.runs",
    "RunFolderError": "hearsay.trace.language.errors",
    "Scenario": "hearsay.sim.scenario.scenario",
    "ScenarioError": "hearsay.sim.scenario.scenario_error",
    "ScoreCheck": "hearsay.api.score_checks",
    "ScoreFinding": "hearsay.score_check.findings",
    "SignaturePolicy": "hearsay.wire.signing",
    "StudyError": "hearsay.studies.checked_file",
    "Summary": "hearsay.sim.results.summary",
    "SweepResult": "hearsay.api.sweeps",
    "Table": "hearsay.api.table",
    "Topic": "hearsay.node.topic",
    "TuneAnswer": "hearsay.api.tuning",
    "TuneResult": "hearsay.api.tuning",
    "Verdict": "hearsay.core.language.events",
    "check_scores": "hearsay.api.score_checks",
    "compare": "hearsay.api.comparisons",
    "explain_message": "hearsay.api.explanations",
    "load_scenario": "hearsay.api.simulations",
    "open_run": "hearsay.api.runs",
    "simulate": "hearsay.api.simulations",
    "sweep": "hearsay.api.sweeps",
    "tune": "hearsay.api.tuning",
}


logging.getLogger(__name__).addHandler(logging.NullHandler())  # what is logged is for the program to show, or not


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        said = how_to_install(error.name or "")
        if said is None or isinstance(error, MissingExtra):
            raise
        raise MissingExtra(said, name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
