"""When which node was in which topic: from joins, leaves and nodes that went down.

    join 5 | leave 9 | join 12 | node_down 20   ->   [5, 9), [12, 20)

A membership that nothing ends lasts until the end of the run. One task holds those of a run.
"""

from __future__ import annotations

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import chosen_rows
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.pipeline.kernels.sums import Ints
from hearsay.trace.language.schema import NONE, Column, TraceEvent


def memberships_of(run: RunFacts) -> Members:
    """In the order of topics, nodes and time."""
    told = chosen_rows(run, "mesh", [TraceEvent.JOIN, TraceEvent.LEAVE], [Column.TIME_US, Column.PEER, Column.TOPIC])
    known = told[Column.TOPIC] != NONE
    columns = (Column.TOPIC, Column.PEER, Column.TIME_US)
    topic, node, time = (told[column][known].astype(np.int64) for column in columns)
    joins = told[Column.EVENT][known] == TraceEvent.JOIN
    downs = chosen_rows(run, "node", [TraceEvent.NODE_DOWN], [Column.TIME_US, Column.PEER])
    pairs = np.unique(np.stack([node[joins], topic[joins]], 1), axis=0)
    down_topic, down_node, down_time = _in_all_topics(pairs, downs[Column.PEER], downs[Column.TIME_US])
    topic, node, time = (np.concatenate(both) for both in ((topic, down_topic), (node, down_node), (time, down_time)))
    joins = np.concatenate([joins, np.zeros(len(down_time), dtype=bool)])
    # A join and a leave at the same microsecond: what ends comes first.
    order = np.lexsort((joins, time, node, topic))
    topic, node, time, joins = (values[order] for values in (topic, node, time, joins))
    until = np.full(len(time), run.end_us, dtype=np.int64)
    same = (topic[1:] == topic[:-1]) & (node[1:] == node[:-1])
    until[:-1][same] = np.minimum(time[1:][same], run.end_us)
    return Members(topic[joins], node[joins], time[joins], until[joins])


def _in_all_topics(pairs: Ints, nodes: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
    """(topic, node, time) of each time at which a node went down and each topic that it ever joined; `pairs` of node
    and topic are in the order of nodes."""
    first = np.searchsorted(pairs[:, 0], nodes, side="left")
    many = np.searchsorted(pairs[:, 0], nodes, side="right") - first
    ends = np.cumsum(many)
    place = np.repeat(first - (ends - many), many) + np.arange(int(many.sum()))
    return pairs[place, 1], np.repeat(nodes.astype(np.int64), many), np.repeat(times, many)
