"""Hearsay: gossip publish/subscribe. One router for the simulator, the node and the tests.

    import hearsay

    summary = hearsay.simulate("simsub", {"network.nodes": 200}, out="runs/first")
    run = hearsay.open_run("runs/first")

The names in `__all__` are the public API, and `hearsay.routers` has the interface for routers of other packages.
docs/reference/api.md and docs/reference/stability.md describe both. A name is imported when a program first uses it,
so that the program loads only the libraries that it needs. `MissingExtra` is raised if such a library is missing.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from hearsay.user_errors import MissingExtra as MissingExtra
from hearsay.user_errors import how_to_install
from hearsay.version import __version__ as __version__

if TYPE_CHECKING:
    from hearsay.api.runs import Explanation as Explanation
    from hearsay.api.runs import Run as Run
    from hearsay.api.runs import explain_message as explain_message
    from hearsay.api.runs import open_run as open_run
    from hearsay.api.scenarios import ScoreCheck as ScoreCheck
    from hearsay.api.scenarios import check_scores as check_scores
    from hearsay.api.scenarios import load_scenario as load_scenario
    from hearsay.api.scenarios import simulate as simulate
    from hearsay.api.studies import Comparison as Comparison
    from hearsay.api.studies import SweepResult as SweepResult
    from hearsay.api.studies import compare as compare
    from hearsay.api.studies import sweep as sweep
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
    from hearsay.sim.scenario.reading import ScenarioError as ScenarioError
    from hearsay.sim.scenario.scenario import Scenario as Scenario
    from hearsay.sim.simulate import InvariantViolation as InvariantViolation
    from hearsay.sim.summary import Summary as Summary
    from hearsay.studies.checked_file import StudyError as StudyError
    from hearsay.trace.folder.manifest import RunFolderError as RunFolderError
    from hearsay.wire.signing import SignaturePolicy as SignaturePolicy


_NAMES = {
    "hearsay.api.runs": "Explanation Run explain_message open_run",
    "hearsay.api.scenarios": "ScoreCheck check_scores load_scenario simulate",
    "hearsay.api.studies": "Comparison SweepResult compare sweep",
    "hearsay.api.table": "Table",
    "hearsay.api.tuning": "TuneAnswer TuneResult tune",
    "hearsay.core.language.events": "Verdict",
    "hearsay.core.language.rpc": "Message",
    "hearsay.core.shell.contract": "RouterFailed",
    "hearsay.node.config": "NodeConfig NodeLimits",
    "hearsay.node.node": "Node",
    "hearsay.node.topic": "Published Received Topic",
    "hearsay.score_check.findings": "ScoreFinding",
    "hearsay.sim.summary": "Summary",
    "hearsay.sim.scenario.scenario": "Scenario",
    "hearsay.sim.scenario.reading": "ScenarioError",
    "hearsay.sim.simulate": "InvariantViolation",
    "hearsay.studies.checked_file": "StudyError",
    "hearsay.trace.folder.manifest": "RunFolderError",
    "hearsay.wire.signing": "SignaturePolicy",
}
"""The names of the public API, by the module from which they are imported."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "MissingExtra", "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


logging.getLogger(__name__).addHandler(logging.NullHandler())  # the application decides which log records are shown


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
