"""What a scenario says will go wrong, read by the names of its keys: kind, words, and the time it takes.

    [[faults.partition]] at_s = 10, heal_s = 20, share = 0.4
        ->  partition, "40 % of the nodes cut off from the others from 10 s to 20 s", [10 s, 20 s)

A disturbance that nothing undoes (a cut for good, nodes that do not come back) has no end; one that is there
throughout the run lasts until the run's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOSS, PARTITION, CUT, CRASH, CHURN = "loss", "partition", "cut", "crash", "churn"
OF_NODES = (CRASH, CHURN)
"""Kinds that take nodes down: rows of the trace say exactly when."""


@dataclass(frozen=True, slots=True)
class PlannedDisturbance:
    kind: str
    what: str
    since_us: int
    until_us: int | None


def planned_in(scenario: Mapping[str, Any], end_us: int) -> tuple[PlannedDisturbance, ...]:
    """The disturbances of a scenario, in the order of their beginning; without one there are none."""
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
