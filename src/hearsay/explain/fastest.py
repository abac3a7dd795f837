"""The fastest path that a message could have taken to a node, compared with the path of the delivered copies.

The fastest path is the path with the earliest arrival over these edges:

* In a simulation, every connection between two nodes of the topic is an edge, and so is a connection from the
  publisher to a node of the topic. A node that has the message sends it at once, or as soon as the connection exists.
  The delay of the copy is the latency of the link plus the time of its bytes on the uplink; there are no queues,
  jitter, losses or heartbeats. A node that rejected the message forwards nothing.
* Every copy that arrived is an edge, at the time at which the copy was sent. So the fastest path is never slower than
  the path of the delivered copies. Between real nodes, and in a simulation whose scenario cannot be read, these are
  the only edges, and each may also be used as soon as the sender has the message.

The time from the arrival of the message at a node until the node forwards it is the time observed in the run. If the
trace does not show it, it is the shortest one of a sample of nodes. It is 0 for a node outside of the topic to which
a script injected the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.copies import CAUSES_OF_FATES, REFUSALS, Cause, Copy, Fate
from hearsay.explain.links import MeshLinks, connections_until, in_topic
from hearsay.explain.message import Message
from hearsay.explain.path import Path, copy_of
from hearsay.explain.rows import TooManyRows, indexes_of
from hearsay.trace.language.schema import NONE

_SAMPLED_DELIVERIES = 64
"""Size of the sample of deliveries from which the shortest time from arrival to forwarding is taken: at least this
number (or all deliveries, if there are fewer), and at most twice this number.
"""


@dataclass(frozen=True, slots=True)
class FastHop:
    """An edge of the fastest path: a copy that was sent in the run, or a copy that could have been sent."""

    sender: int
    receiver: int
    sent_us: int
    arrived_us: int
    had_us: int
    """Time from which the receiver could forward the message."""
    is_real: bool
    """True if this copy was sent in the run, at this time."""


@dataclass(frozen=True, slots=True)
class FastPath:
    """The hops of the fastest path, at least one. The sender of the first hop is the publisher."""

    hops: tuple[FastHop, ...]

    @property
    def arrived_us(self) -> int:
        """Return the time from which the last node has the message, which includes its handling."""
        return self.hops[-1].had_us

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.hops[0].sender, *(hop.receiver for hop in self.hops))


class Network:
    """The edges over which the fastest path is searched, and the time from arrival to forwarding at each node."""

    def __init__(self, message: Message, until_us: int) -> None:
        """Read the connections that began at `until_us` or earlier, if the message has a link model. Raise
        `TooManyRows` if there are too many.
        """
        history = message.history
        self.message = message
        arrived = (history.copies.fate == Fate.ARRIVED) & (history.copies.sent_us != NONE)
        order = np.flatnonzero(arrived)[np.argsort(history.copies.sender[arrived], kind="stable")]
        self._copies = [values[order] for values in (
            history.copies.sender, history.copies.receiver, history.copies.sent_us, history.copies.arrived_us
        )]  # fmt: skip
        if message.model is not None:
            connections = connections_until(message.run, until_us)
            self.connections = in_topic(connections, message.members, history.publisher)
        refused = np.isin(history.rejects.value, REFUSALS)
        self._refusers = set(history.rejects.node[refused].tolist()) - set(history.deliveries.node.tolist())
        sizes = history.copies.bytes[arrived & (history.copies.bytes > 0)]
        self._own_us = message.model.uplink_us(int(sizes.min())) if message.model is not None and len(sizes) else 0
        self._handling: dict[int, int] = {}
        nodes = history.deliveries.node
        some = nodes[:: max(1, len(nodes) // _SAMPLED_DELIVERIES)].tolist()
        self._quickest_us = min((took for took in map(self._observed_us, some) if took is not None), default=0)

    def from_node(self, node: int, had_us: int) -> Iterator[FastHop]:
        """Yield a hop for each copy that a node could send, given that the node has the message from `had_us` on."""
        model = self.message.model
        there = indexes_of(self._copies[0], node)
        _, receivers, sent, arrived = (values[there].tolist() for values in self._copies)
        for receiver, sent_us, arrived_us in zip(receivers, sent, arrived, strict=True):
            if sent_us >= had_us:
                yield self._hop(node, receiver, sent_us, arrived_us, True)
            if model is None:
                yield self._hop(node, receiver, had_us, had_us + max(0, arrived_us - sent_us), False)
        if model is None or node in self._refusers:
            return
        for receiver, since, until in self.connections.of(node):
            leaves = max(had_us, since)
            arrives = leaves + self._own_us + model.latency.base_us(node, receiver)
            if arrives < until:
                yield self._hop(node, receiver, leaves, arrives, False)

    def _hop(self, sender: int, receiver: int, sent_us: int, arrived_us: int, is_real: bool) -> FastHop:
        return FastHop(sender, receiver, sent_us, arrived_us, arrived_us + self.handling_us(receiver), is_real)

    def handling_us(self, node: int) -> int:
        """Return the time from the arrival of the message at a node until the node forwards it, in microseconds."""
        if node not in self._handling:
            observed_us = self._observed_us(node)
            self._handling[node] = self._quickest_us if observed_us is None else observed_us
        return self._handling[node]

    def _observed_us(self, node: int) -> int | None:
        """Return the time from the arrival of the delivered copy at a node to the delivery in the run; None if the
        trace does not show it. Return 0 for a node outside of the topic with an injected copy.
        """
        history = self.message.history
        there = history.deliveries.of(node)
        if not there:
            return 0 if (history.copies.via[history.copies.to(node)] == Via.INJECT).any() else None
        copy = copy_of(history, there.start, self.message.model)
        if copy is None or copy.arrived_us is None:
            return None
        return max(0, int(history.deliveries.time_us[there.start]) - copy.arrived_us)


def fastest_path(network: Network, node: int, until_us: int) -> FastPath | None:
    """Return the fastest path to a node. Return None if no path arrives at `until_us` or earlier, if the node is the
    publisher, or if the trace has no publication.
    """
    last = fastest_hops(network, until_us, node)
    hops: list[FastHop] = []
    while node in last:
        hops.insert(0, last[node])
        node = hops[0].sender
    return FastPath(tuple(hops)) if hops else None


def fastest_hops(network: Network, until_us: int, wanted: int = NONE) -> dict[int, FastHop]:
    """Return the last hop of the fastest path to each node that could have the message by `until_us`.

    The search ends when the path to the node `wanted` is known; if `wanted` is `NONE`, it covers all nodes.
    """
    history = network.message.history
    last: dict[int, FastHop] = {}
    queue = [(history.published_us, history.publisher)] if history.published else []
    done: set[int] = set()
    while queue:
        had_us, sender = heappop(queue)
        if sender in done:
            continue
        done.add(sender)
        if sender == wanted:
            break
        for hop in network.from_node(sender, had_us):
            known = last.get(hop.receiver)
            if hop.receiver not in done and hop.had_us <= until_us and (known is None or hop.had_us < known.had_us):
                last[hop.receiver] = hop
                heappush(queue, (hop.had_us, hop.receiver))
    return {node: hop for node, hop in last.items() if node in done}


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The fastest path, and its first hop that the message did not take."""

    path: FastPath
    sooner_us: int
    """Time in microseconds that the fastest path would have saved; 0 if the message's own path was as fast."""
    missed: FastHop | None = None
    """First hop of the fastest path on which no copy arrived as early. None if there is none, or if nothing is saved.
    """
    why: Cause | None = None
    """Why the message did not take that hop."""


def shortcut_of(message: Message, path: Path) -> Shortcut | str:
    """Compare a path with the fastest path. If the fastest path is unknown, return the reason in words."""
    if not path.hops and path.complete:
        return "the node published it itself"
    if not message.history.published:
        return "the time of the publication is unknown"
    if message.in_parts:
        return "messages of this topic are sent in parts on request"
    try:
        network = Network(message, path.delivered_us)
    except TooManyRows:
        return "the run has too many connections to search"
    found = fastest_path(network, path.node, path.delivered_us)
    if found is None:
        return "the trace does not show how the message got here from its publisher"
    sooner_us = path.delivered_us - found.arrived_us
    for hop in found.hops if sooner_us else ():
        there = message.history.copies.to(hop.receiver)
        sent = np.flatnonzero(message.history.copies.sender[there] == hop.sender)
        copy = message.history.copies.at(there.start + int(sent[0])) if len(sent) else None
        if copy is None or copy.fate is not Fate.ARRIVED or (copy.arrived_us or 0) > hop.arrived_us:
            return Shortcut(found, sooner_us, hop, _why_missed(message, hop, copy))
    return Shortcut(found, sooner_us)


def _why_missed(message: Message, hop: FastHop, copy: Copy | None) -> Cause:
    """Return why a hop was not taken. `copy` is the first copy from its sender to its receiver, or None."""
    if copy is not None and copy.fate is not Fate.ARRIVED:
        return CAUSES_OF_FATES[copy.fate]
    if copy is not None:
        sent_later_us, later_us = (copy.sent_us or hop.sent_us) - hop.sent_us, (copy.arrived_us or 0) - hop.arrived_us
        delay = "it was sent later" if 2 * sent_later_us > later_us else "it took longer"
        return Cause(f"{delay}: a copy arrived {later_us / 1000:,.1f} ms later")
    links = MeshLinks(message.run, message.history.topic, [hop.sender], hop.sent_us)
    receiver, sender = message.node(hop.receiver), message.node(hop.sender)
    if links.any_mesh and not links.holds(hop.sender, hop.receiver, hop.sent_us):
        if links.has_tree(hop.sender):
            return Cause(f"{sender} had no eager link to {receiver}", "TREE-1")
        return Cause(f"{receiver} was not in the mesh of {sender}", "GOSSIP-1")
    deliveries = message.history.deliveries
    there = deliveries.of(hop.receiver)
    if there and int(deliveries.time_us[there.start]) <= hop.arrived_us:
        return Cause(f"{receiver} had it already")
    return Cause(f"{sender} did not send it there")
