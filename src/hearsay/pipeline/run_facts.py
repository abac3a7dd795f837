"""Facts about a run that an analysis needs before it reads rows.

They come from the manifest, the summary, the scenario and the dictionaries of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from hearsay.foreign_files import MAX_TOML_BYTES, parse_toml, read_bytes
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.folder.manifest import Manifest, RunFolderError, TraceFile, load_manifest, read_object
from hearsay.trace.folder.run_folder import DICTIONARIES
from hearsay.trace.reader import load_names

LOSS, PARTITION, CUT, CRASH, CHURN = "loss", "partition", "cut", "crash", "churn"
DEFAULT_WINDOW_US = 30_000_000
SCRIPT_ROLE = "script"
TRACED_ROLE, MENTIONED_ROLE = "traced", "mentioned"
"""Roles of peers in an imported trace: a peer wrote a trace, or only traces of other peers name it."""
_NO_ROUTERS = (SCRIPT_ROLE, TRACED_ROLE, MENTIONED_ROLE)
LONGEST_S = 10_000_000_000
"""Maximum of a time in seconds. The Unix time, which live nodes use, stays below it for more than two centuries."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about a run. `name` identifies the run within an analysis."""

    name: str
    path: Path
    manifest: Manifest
    router: str
    topics: dict[int, str]
    nodes: tuple[int, ...]
    """The peers that are nodes of the network, without scripts that inject messages. In an import these are the peers
    that wrote traces."""
    start_us: int
    """Start of the run on its clock: 0 in a simulation; the time of the first row in a trace of real nodes. Columns
    with seconds, such as `second`, count from this time."""
    end_us: int
    window_us: int
    simulated: bool
    """True for a simulation, whose trace has all events. Real nodes record only the events that they observe."""
    disturbances: tuple[PlannedDisturbance, ...]
    """The disturbances in the scenario."""
    uplink_bits_per_s: int | None
    """The capacity of a node's uplink; None if unknown or unlimited."""
    thresholds: Thresholds | None
    """The score thresholds of all routers; None if unknown, or if routers have different ones."""
    still_written: bool = False
    """True if the run is not finished, so that its writer may still add files."""
    location: str = ""
    """The path or URI at which Spark reads the run; `path` if empty."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.manifest.trace.files)

    def place(self, name: str) -> str:
        """Return the path or URI of a file of the run, for Spark."""
        return f"{self.location or self.path}/{name}"

    def files(self, trace_class: str) -> list[TraceFile]:
        return [file for file in self.manifest.trace.files if file.trace_class == trace_class]


def load_runs(paths: list[Path], window_us: int | None = None) -> list[RunFacts]:
    """Return the facts about the runs in these folders, in the order of `paths`.

    The name of a run is that of its folder. A repeated name gets a number, such as `run-2`. For `window_us`, see
    `pipeline.rows.read`. Raise `RunFolderError` if a run cannot be read.
    """
    facts: dict[str, RunFacts] = {}
    for path in paths:
        base = path.resolve().name
        names = chain((base,), (f"{base}-{number}" for number in count(2)))
        name = next(name for name in names if name not in facts)
        facts[name] = facts_of(name, path, load_manifest(path), window_us)
    return list(facts.values())


def facts_of(name: str, path: Path, manifest: Manifest, window_us: int | None) -> RunFacts:
    """Return the facts about a run with this manifest. Raise `RunFolderError` if it has no trace, or if one
    of its files cannot be read."""
    if not manifest.trace.files:
        raise RunFolderError(f"{path}: has no trace; simulate with --trace full")
    summary = summary_of(path)
    scenario = scenario_of(path)
    peers = _peers(path)
    routers = Counter(role for _, role in peers if role and role not in _NO_ROUTERS)
    traced = [peer for peer, role in peers if role == TRACED_ROLE]
    first = min(file.min_time_us for file in manifest.trace.files)
    last = max(file.max_time_us for file in manifest.trace.files)
    seconds = summary.get("simulated_seconds")
    end = last if seconds is None else _micros(path / "summary.json", "simulated_seconds", seconds)
    try:
        disturbances, uplink_bits_per_s = planned_in(scenario, end), _uplink_in(scenario)
        thresholds = thresholds_in(scenario)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunFolderError(f"{path / 'scenario.toml'}: not a scenario ({error})") from None
    return RunFacts(
        name=name,
        path=path.resolve(),
        manifest=manifest,
        router=str(summary.get("router") or (routers.most_common(1)[0][0] if routers else "unknown")),
        topics=dict(load_names(path).topics),
        nodes=tuple(sorted(traced or (peer for peer, role in peers if role != SCRIPT_ROLE))),
        start_us=0 if scenario else first,
        end_us=end,
        window_us=_window_in(path, scenario) if window_us is None else window_us,
        simulated=bool(scenario),
        disturbances=disturbances,
        uplink_bits_per_s=uplink_bits_per_s,
        thresholds=thresholds,
    )


def summary_of(path: Path) -> dict[str, Any]:
    """Return the summary of a simulation; empty if the run has none. Raise `RunFolderError` if it cannot be read."""
    file = path / "summary.json"
    if not file.exists():
        return {}
    try:
        return read_object(file)
    except OSError as error:
        raise RunFolderError(f"{file}: cannot be read ({error.strerror})") from None


def scenario_of(path: Path) -> dict[str, Any]:
    """Return the scenario of a simulation with all of its keys; empty if the run has no scenario.

    Raise `RunFolderError` if the file is not readable as TOML.
    """
    file = path / "scenario.toml"
    if not file.exists():
        return {}
    try:
        return parse_toml(read_bytes(file, MAX_TOML_BYTES).decode())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file}: not readable as TOML ({str(error)[:200]})") from None


def _window_in(path: Path, scenario: Mapping[str, Any]) -> int:
    """Return the time that a node must stay in a topic after a message to be eligible for it."""
    linger_s = scenario.get("linger_s")
    return DEFAULT_WINDOW_US if linger_s is None else _micros(path / "scenario.toml", "linger_s", linger_s)


def _micros(file: Path, name: str, seconds: Any) -> int:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= LONGEST_S:
        raise RunFolderError(f"{file}: {name} must be a number of seconds from 0 to {LONGEST_S}")
    return round(seconds * 1_000_000)


def _uplink_in(scenario: dict[str, Any]) -> int | None:
    uplink_mbit = scenario.get("links", {}).get("uplink_mbit")
    return round(uplink_mbit * 1_000_000) if isinstance(uplink_mbit, int | float) and uplink_mbit > 0 else None


def _peers(path: Path) -> list[tuple[int, str | None]]:
    file = path / DICTIONARIES / "peers.parquet"
    if not file.exists():
        return []
    table = read_table(file, ["peer"], ["role"])
    return [(number, role) for number, role in zip(table["peer"], table["role"], strict=True) if number is not None]


@dataclass(frozen=True, slots=True)
class PlannedDisturbance:
    """A disturbance in a scenario. `what` is its description for users. `until_us` is None if it never ends."""

    kind: str
    what: str
    since_us: int
    until_us: int | None


def planned_in(scenario: Mapping[str, Any], end_us: int) -> tuple[PlannedDisturbance, ...]:
    """Return the disturbances of a scenario in the order in which they begin. An empty scenario has none.

    `end_us` is the end of the run, at which loss and churn end.
    """
    faults = scenario.get("faults", {})
    found = [
        *_loss(scenario.get("loss", {}), end_us),
        *_churn(faults.get("churn"), end_us),
        *(_partition(each) for each in faults.get("partition", ())),
        *(_cut(each) for each in faults.get("cut", ())),
        *(_crash(each) for each in faults.get("crash", ())),
    ]
    return tuple(sorted(found, key=lambda one: one.since_us))


def _loss(loss: Mapping[str, Any], end_us: int) -> Iterator[PlannedDisturbance]:
    rate = loss.get("rate", 0)
    if rate > 0:
        lost = "messages and control" if loss.get("control") else "messages"
        yield PlannedDisturbance(LOSS, f"{_percent(rate)} of {lost} lost on links throughout", 0, end_us)


def _churn(churn: Mapping[str, Any] | None, end_us: int) -> Iterator[PlannedDisturbance]:
    if churn is not None and churn["away_share"] > 0:
        away, session = _percent(churn["away_share"]), _seconds(churn["mean_session_s"])
        begins = f" from {_seconds(churn['start_s'])} on" if churn.get("start_s") else ""
        what = f"nodes came and went{begins}: {away} away at a time, after sessions of {session} on average"
        yield PlannedDisturbance(CHURN, what, _us(churn.get("start_s", 0)), end_us)


def _partition(partition: Mapping[str, Any]) -> PlannedDisturbance:
    when = f"from {_seconds(partition['at_s'])} to {_seconds(partition['heal_s'])}"
    what = f"{_percent(partition['share'])} of the nodes cut off from the others {when}"
    return PlannedDisturbance(PARTITION, what, _us(partition["at_s"]), _us(partition["heal_s"]))


def _cut(cut: Mapping[str, Any]) -> PlannedDisturbance:
    links, heal = cut.get("links"), cut.get("heal_s")
    named = "1 link" if links is not None and len(links) == 1 else f"{len(links or ())} links"
    which = named if links is not None else f"{_percent(cut['share'])} of the links"
    when = (
        f"at {_seconds(cut['at_s'])} for good"
        if heal is None
        else f"from {_seconds(cut['at_s'])} to {_seconds(heal)}"
    )
    return PlannedDisturbance(CUT, f"{which} cut {when}", _us(cut["at_s"]), None if heal is None else _us(heal))


def _crash(crash: Mapping[str, Any]) -> PlannedDisturbance:
    rejoin = crash.get("rejoin_after_s")
    back = "" if rejoin is None else f" and came back {_seconds(rejoin)} later"
    listed = crash.get("listed")
    who = f"{_percent(crash['share'])} of the nodes" if listed is None else _nodes(listed)
    what = f"{who} crashed at {_seconds(crash['at_s'])}{back}"
    return PlannedDisturbance(
        CRASH, what, _us(crash["at_s"]), None if rejoin is None else _us(crash["at_s"] + rejoin)
    )


def _nodes(listed: Sequence[int]) -> str:
    return f"node {listed[0]}" if len(listed) == 1 else f"{len(listed)} nodes"


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _seconds(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") + " s"


def _percent(share: float) -> str:
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + " %"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The scores below which gossipsub 1.1 treats a peer differently (docs/routers/gossipsub-1.1.md)."""

    gossip: float
    publish: float
    graylist: float


def thresholds_in(scenario: Mapping[str, Any]) -> Thresholds | None:
    """Return the thresholds that all scoring routers share; None if they differ or no router scores peers."""
    routers = [scenario.get("router", {}), *(each.get("router", {}) for each in scenario.get("population", ()))]
    tables = [router["score"]["thresholds"] for router in routers if "thresholds" in router.get("score", {})]
    found = {Thresholds(*(float(table[name]) for name in ("gossip", "publish", "graylist"))) for table in tables}
    return found.pop() if len(found) == 1 else None
