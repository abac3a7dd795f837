"""Hearsay: gossip publish/subscribe. One router for the simulator, the node and the tests.

    import hearsay

    summary = hearsay.simulate("simsub", {"network.nodes": 200}, out="runs/first")
    run = hearsay.open_run("runs/first")

The names of `__all__` are the public API, and `hearsay.routers` has the interface for external routers. Both are
described in docs/reference/api.md and docs/reference/stability.md. A name is imported when it is first used, so that
a program imports only what it needs; `MissingExtra` names a missing package.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from hearsay.extras import MissingExtra as MissingExtra
from hearsay.extras import how_to_install
from hearsay.version import __version__ as __version__

if TYPE_CHECKING:
    from hearsay.api.comparisons import Comparison as Comparison
    from hearsay.api.comparisons import compare as compare
    from hearsay.api.runs import Explanation as Explanation
    from hearsay.api.runs import Run as Run
    from hearsay.api.runs import explain_message as explain_message
    from hearsay.api.runs import open_run as open_run
    from hearsay.api.score_checks import ScoreCheck as ScoreCheck
    from hearsay.api.score_checks import check_scores as check_scores
    from hearsay.api.simulations import load_scenario as load_scenario
    from hearsay.api.simulations import simulate as simulate
    from hearsay.api.sweeps import SweepResult as SweepResult
    from hearsay.api.sweeps import sweep as sweep
    from hearsay.api.table import Table as Table
    from hearsay.api.tuning import TuneAnswer as TuneAnswer
    from hearsay.api.tuning import TuneResult as TuneResult
    from hearsay.api.tuning import tune as tune
    from hearsay.core.language.events import Verdict as Verdict
    from hearsay.core.language.rpc import Message as Message
    from hearsay.core.shell.contract import RouterFailed as RouterFailed
    from hearsay.node.config import NodeConfig as NodeConfig
    from hearsay.node.config import NodeLimits as NodeLimits
    from hearsay.node.node import Node as Node
    from hearsay.node.topic import Published as Published
    from hearsay.node.topic import Received as Received
    from hearsay.node.topic import Topic as Topic
    from hearsay.score_check.findings import ScoreFinding as ScoreFinding
    from hearsay.sim.results.summary import Summary as Summary
    from hearsay.sim.scenario.scenario import Scenario as Scenario
    from hearsay.sim.scenario.toml_text import ScenarioError as ScenarioError
    from hearsay.sim.simulate import InvariantViolation as InvariantViolation
    from hearsay.studies.checked_file import StudyError as StudyError
    from hearsay.trace.language.errors import RunFolderError as RunFolderError
    from hearsay.wire.signing import SignaturePolicy as SignaturePolicy


_HOMES = {
    "Comparison": "hearsay.api.comparisons",
    "Explanation": "hearsay.api.runs",
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
    "ScenarioError": "hearsay.sim.scenario.toml_text",
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
    "explain_message": "hearsay.api.runs",
    "load_scenario": "hearsay.api.simulations",
    "open_run": "hearsay.api.runs",
    "simulate": "hearsay.api.simulations",
    "sweep": "hearsay.api.sweeps",
    "tune": "hearsay.api.tuning",
}
__all__ = sorted([*_HOMES, "MissingExtra", "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


logging.getLogger(__name__).addHandler(logging.NullHandler())  # the application decides whether log records are shown


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
