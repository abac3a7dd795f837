"""Peer exchange: dials of peers that PRUNEs named, and the connections that came of them, over time.

    node 1 dials 7 at 2.1 s, and has a connection to it at 3.2 s   ->   second 2: dials 1; second 3: connections 1

A connection comes of a dial if the dial is the last thing before it that the node said of this peer, and the node has
not started anew since. `nodes` counts each node once, with its first such connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import chosen_rows
from hearsay.pipeline.kernels.sums import Ints
from hearsay.pipeline.metrics.churn import stretch_s
from hearsay.trace.language.schema import NONE, Column, TraceEvent

_SECOND_US = 1_000_000
_AT_ONE_TIME = (TraceEvent.NODE_UP, TraceEvent.REMOVE_PEER, TraceEvent.DIAL, TraceEvent.ADD_PEER)
"""In which order a node does these."""
_PLACES = np.array([_AT_ONE_TIME.index(event) if event in _AT_ONE_TIME else NONE for event in TraceEvent])
_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE)


def exchange_lines(run: RunFacts) -> Iterator[dict[str, Any]]:
    """The table `exchange`; without a row about it there is no line."""
    if not run.files("exchange"):
        return
    width = stretch_s(run)
    found = [chosen_rows(run, name, _AT_ONE_TIME, _COLUMNS) for name in ("exchange", "node")]
    time, event, peer, remote = (np.concatenate([rows[column] for rows in found]) for column in _COLUMNS)
    order = np.lexsort((_PLACES[event], time, peer))
    life = np.cumsum(event[order] == TraceEvent.NODE_UP)
    order, life = _by_pair(order, life, peer, remote)
    time, event, peer, remote = time[order], event[order], peer[order], remote[order]
    after_dial = np.zeros(len(event), dtype=bool)
    after_dial[1:] = (event[1:] == TraceEvent.ADD_PEER) & (event[:-1] == TraceEvent.DIAL) & (remote[1:] != NONE)
    for of_pair in (peer, remote, life):
        after_dial[1:] &= of_pair[1:] == of_pair[:-1]
    connected = np.flatnonzero(after_dial)
    connected = connected[np.lexsort((remote[connected], time[connected], peer[connected]))]
    firsts = connected[np.unique(peer[connected], return_index=True)[1]]
    places = (time - run.start_us) // (_SECOND_US * width)
    dials = event == TraceEvent.DIAL
    seconds = np.unique(places[dials | after_dial])
    counts = (_counted(seconds, places[rows]) for rows in (dials, connected, firsts))
    for place, *line in zip(seconds.tolist(), *counts, strict=True):
        yield {
            "second": place * width,
            "seconds": width,
            **dict(zip(("dials", "connections", "nodes"), line, strict=True)),
        }


def _by_pair(order: Ints, life: Ints, peer: Ints, remote: Ints) -> tuple[Ints, Ints]:
    """Ordered by peer and remote, what is equal in both as it was."""
    again = np.lexsort((remote[order], peer[order]))
    return order[again], life[again]


def _counted(seconds: Ints, places: Ints) -> list[int]:
    return np.bincount(np.searchsorted(seconds, places), minlength=len(seconds)).tolist()
