"""What peers thought of each other at one moment: quantiles of their scores, and who had the worst.

Layout: a row per observer, peer and part. A part that is 0 has no row, so as many zeros are added as pairs lack one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import Thresholds
from hearsay.trace.language.schema import TraceEvent, wire_name

Floats = NDArray[np.float64]
Ints = NDArray[Any]

TOTAL = TraceEvent.SCORE
_PREFIX = "score_"
WORST_PEERS = 20
_SHARES = (0.0, 0.05, 0.5, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Moment:
    """The score rows of one time; `topics` is -1 where a part is of the peer as a whole."""

    events: Ints
    peers: Ints
    topics: Ints
    values: Floats


def quantile_lines(moment: Moment, thresholds: Thresholds | None) -> Iterator[dict[str, Any]]:
    """A line for the score and each part of it that is not 0 for all."""
    total = moment.events == TOTAL
    pairs = int(np.count_nonzero(total))
    for name, topic, event in _parts_of(moment):
        mine = (moment.events == event) & (moment.topics == topic)
        values = np.append(moment.values[mine], np.zeros(max(0, pairs - int(np.count_nonzero(mine)))))
        lowest, p5, median, p95, highest = quantiles(values, _SHARES)
        line = {"lowest": lowest, "p5": p5, "median": median, "p95": p95, "highest": highest}
        shares = _shares_below(values, thresholds) if event == TOTAL else {}
        known_topic = None if topic < 0 else topic
        yield {"topic": known_topic, "part": name.removeprefix(_PREFIX), "pairs": pairs, **line, **shares}


def _parts_of(moment: Moment) -> list[tuple[str, int, int]]:
    """(name, topic, event) of the score and its parts, by name."""
    pairs = np.unique(np.stack([moment.events, moment.topics], 1).astype(np.int64), axis=0).tolist()
    return sorted((wire_name(TraceEvent(event)), topic, event) for event, topic in pairs)


def worst_lines(moment: Moment, thresholds: Thresholds | None) -> list[dict[str, Any]]:
    """The peers with the lowest medians."""
    total = moment.events == TOTAL
    peers, values = moment.peers[total], moment.values[total]
    lines: list[dict[str, Any]] = []
    for peer in np.unique(peers).tolist():
        given = values[peers == peer]
        graylisted = None if thresholds is None else int(np.count_nonzero(given < thresholds.graylist))
        line = {"peer": peer, "observers": len(given), "median": quantiles(given, (0.5,))[0]}
        below_zero = int(np.count_nonzero(given < 0))
        lines.append({**line, "lowest": float(given.min()), "below_zero_by": below_zero, "graylisted_by": graylisted})
    return sorted(lines, key=lambda line: (line["median"], line["peer"]))[:WORST_PEERS]


def quantiles(values: Floats, shares: Sequence[float]) -> list[float]:
    """Linear between order statistics."""
    return [float(each) for each in np.quantile(values, shares)]


def _shares_below(values: Floats, thresholds: Thresholds | None) -> dict[str, float]:
    bounds = {"below_zero": 0.0}
    if thresholds is not None:
        bounds |= {
            "below_gossip": thresholds.gossip,
            "below_publish": thresholds.publish,
            "below_graylist": thresholds.graylist,
        }
    return {name: float(np.count_nonzero(values < bound)) / len(values) for name, bound in bounds.items()}
