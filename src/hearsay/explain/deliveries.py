"""The delivery at one node with every copy to the node, and the slowest deliveries with the traits they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import CAUSES_OF_FATES, Cause, Copy, Fate, cause_of_reason
from hearsay.explain.fastest import Network, fastest_hops
from hearsay.explain.message import Message
from hearsay.explain.path import Path, Step, path_to
from hearsay.explain.requests import ON_REQUEST, Requests
from hearsay.explain.rows import Ints, PairEvents, TooManyRows, select_rows
from hearsay.number_text import milliseconds
from hearsay.pipeline.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

FIRST = Cause("the first copy")
DUPLICATE = Cause("a duplicate")
UNKNOWN = Cause("arrived; the trace does not show what the node did with it")
_DROP_DELAY_US = 100_000
"""Longest time from the arrival of an RPC at a real node to the time of the row about the drop of the RPC."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A copy of the message, sent or not, with its outcome."""

    copy: Copy
    outcome: Cause

    @property
    def is_first(self) -> bool:
        return self.outcome is FIRST

    @property
    def failed(self) -> bool:
        """Return True if the trace shows that the copy was lost, rejected, dropped or not sent."""
        is_open = self.copy.fate in (Fate.UNDER_WAY, Fate.UNSEEN) or self.outcome is UNKNOWN
        return not is_open and self.outcome not in (FIRST, DUPLICATE)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The explanation of the first delivery at a node: the path of the message, and every copy to the node."""

    node: int
    path: Path
    copies: tuple[Sent, ...]
    """All copies to the node, in order of time, including copies that a peer queued or chose to send but did not."""
    deliveries: int
    """Number of times that the node delivered the message; a node that forgets a message may deliver it again."""
    joined_us: int | None
    """Time of the last join of the topic between the publication and the delivery; None if the node did not join
    then.
    """


def explain_node(message: Message, node: int) -> NodeAnswer | None:
    """Explain the first delivery at a node; return None if the node never got the message."""
    history = message.history
    there = history.deliveries.of(node)
    if not there:
        return None
    (path,) = requested_paths(message, [there.start])
    arrived_us = history.copies.arrived_us[history.copies.to(node)]
    unread = unread_rpcs(message.run, [node], history.start_us(), int(arrived_us.max(initial=0)))
    first = path.hops[-1].copy if path.hops else None
    copies = sent_to(message, node, unread, first, path.delivered_us)
    joined_us = message.members.last_join(node, history.start_us(), path.delivered_us)
    return NodeAnswer(node, path, copies, len(there), joined_us)


def requested_paths(message: Message, indexes: Sequence[int]) -> list[Path]:
    """Return the paths to the deliveries with these indexes. A hop with a requested copy has the steps of the
    announcement and of the request, as far as the trace shows these.
    """
    history = message.history
    paths = [path_to(history, index, message.model) for index in indexes]
    pairs = {(hop.sender, hop.receiver) for path in paths for hop in path.hops if is_on_request(hop.copy)}
    if not pairs:
        return paths
    until_us = max(path.delivered_us for path in paths)
    requests = Requests(message.run, pairs, message.members, history.start_us(), until_us)
    return [path_to(history, index, message.model, requests) for index in indexes]


def is_on_request(copy: Copy | None) -> bool:
    return copy is not None and copy.via in ON_REQUEST


def unread_rpcs(run: RunFacts, nodes: Sequence[int], from_us: int, until_us: int) -> PairEvents:
    """Return the drops of unread messages by these nodes: the sender was graylisted or gated, or the RPC was over a
    limit.

    The `value` of an event is the code of the reason. The row of such a drop names no message; the same sender and
    time identify the copy. A real node reads its clock once for the arrival and again for the drop. So rows up to
    `_DROP_DELAY_US` after `until_us` are included.
    """
    columns = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.REASON)
    rows = select_rows(
        run, "message", (*columns, Column.EVENT, Column.KIND, Column.MESSAGE),
        lambda rows: (rows[Column.EVENT] == TraceEvent.REJECT) & (rows[Column.KIND] == PartKind.PUBLISH)
        & np.isin(rows[Column.PEER], nodes),
        from_us, until_us + _DROP_DELAY_US, message=NONE,
    )  # fmt: skip
    return PairEvents.sorted(*(rows[column] for column in columns))


def sent_to(
    message: Message, node: int, unread: PairEvents, first: Copy | None = None, delivered_us: int | None = None
) -> tuple[Sent, ...]:
    """Return all copies to a node with their outcomes.

    `first` is the copy that the node delivered first, and `delivered_us` the time of that delivery. Both are None if
    the node delivered no copy; `first` also if it is unknown.
    """
    copies = message.history.copies
    there = copies.to(node)
    had_us = delivered_us if first is None or first.arrived_us is None else first.arrived_us
    sent = (copies.at(place) for place in range(there.start, there.stop))
    return tuple(Sent(copy, FIRST if copy == first else _outcome(message, copy, had_us, unread)) for copy in sent)


def _outcome(message: Message, copy: Copy, had_us: int | None, unread: PairEvents) -> Cause:
    if copy.fate is not Fate.ARRIVED or copy.arrived_us is None:
        return CAUSES_OF_FATES[copy.fate]
    rejects, model = message.history.rejects, message.model
    there = rejects.between(copy.receiver, copy.sender)
    after_us = rejects.time_us[there] - copy.arrived_us
    fits = after_us >= 0
    if model is not None and not model.service_us:
        fits = np.isin(after_us, (0, model.validation_us))
    refused = rejects.value[there][fits]
    if not len(refused):
        there = unread.between(copy.receiver, copy.sender)
        after_us = unread.time_us[there] - copy.arrived_us
        longest_us = 0 if message.run.simulated else _DROP_DELAY_US
        refused = unread.value[there][(after_us >= 0) & (after_us <= longest_us)]
    if len(refused):
        return cause_of_reason(int(refused[0]))
    return DUPLICATE if had_us is not None and copy.arrived_us >= had_us else UNKNOWN


MAX_SLOW = 10
_SAMPLE = 300
_IN_QUEUES = 1 / 3
_MIN_SHARE, _MIN_COUNT, _MIN_RATIO = 0.5, 2, 1.5
_SEARCHED_CONNECTIONS = 500_000
_FAILED = (Fate.LOST, Fate.UNREACHABLE, Fate.QUEUE_FULL)


@dataclass(frozen=True, slots=True)
class Trait:
    """A property of deliveries, with the numbers of slow deliveries and of other deliveries that have it."""

    words: str
    slow: int
    """Number of slow deliveries with the trait; `slow_of` is the number of all slow deliveries."""
    slow_of: int
    others: int
    """Number of other deliveries with the trait; `others_of` is the number of all other deliveries in the sample."""
    others_of: int

    @property
    def share(self) -> float:
        return self.slow / self.slow_of

    @property
    def share_of_others(self) -> float:
        return self.others / self.others_of if self.others_of else 0.0


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """The slowest deliveries of a message."""

    deliveries: int
    """Number of nodes that got the message, without the publisher and the latecomers."""
    latecomers: int
    """Number of nodes that were not in the topic at the publication, joined it later, and got the message."""
    median_us: int | None
    """Median time from the publication to the first deliveries at these `deliveries` nodes; None without any."""
    slow: tuple[Path, ...]
    """The paths to the last of these deliveries, at most `MAX_SLOW`, the slowest first."""
    traits: tuple[Trait, ...]


def explain_slowest(message: Message) -> SlowAnswer:
    history = message.history
    first = history.deliveries.first()
    away = first[history.deliveries.node[first] != history.publisher]
    is_late = np.isin(history.deliveries.node[away], _latecomers(message))
    away, latecomers = away[~is_late], int(np.count_nonzero(is_late))
    order = away[np.lexsort((history.deliveries.node[away], history.deliveries.time_us[away]))]
    slow, rest = order[-MAX_SLOW:][::-1], order[:-MAX_SLOW]
    others = rest[:: max(1, -(-len(rest) // _SAMPLE))]
    slow_paths = requested_paths(message, slow.tolist())
    other_paths = [path_to(history, place, message.model) for place in others.tolist()]
    median = int(np.median(history.deliveries.time_us[order])) - history.start_us() if len(order) else None
    traits = tuple(_traits(message, slow_paths, other_paths))
    return SlowAnswer(len(order), latecomers, median, tuple(slow_paths), traits)


def _latecomers(message: Message) -> Ints:
    """Return the nodes that were not in the topic at the publication and joined it later."""
    members = message.members
    before = members.since_us <= message.history.start_us()
    there = before & (members.until_us > message.history.start_us())
    return np.setdiff1d(members.node[~before], members.node[there])


def _traits(message: Message, slow: Sequence[Path], others: Sequence[Path]) -> Iterator[Trait]:
    if not slow:
        return
    finder = _TraitFinder(message, slow, others)
    mine, theirs = (Counter(words for path in paths for words in finder.of(path)) for paths in (slow, others))
    found = [Trait(words, mine[words], len(slow), theirs[words], len(others)) for words in mine]
    for trait in sorted(found, key=lambda trait: (trait.share_of_others - trait.share, trait.words)):
        if trait.slow >= _MIN_COUNT and trait.share >= max(_MIN_SHARE, _MIN_RATIO * trait.share_of_others):
            yield trait


class _TraitFinder:
    """The search for traits of deliveries. Equal texts mean the same trait."""

    def __init__(self, message: Message, slow: Sequence[Path], others: Sequence[Path]) -> None:
        self._message = message
        self._hops = int(np.median([len(path.hops) for path in (*slow, *others)]))
        nodes = [path.node for path in (*slow, *others)]
        self._could_us: dict[int, int] = {}
        self._links: dict[int, int] = {}
        until_us = max(path.delivered_us for path in slow)
        with suppress(TooManyRows):
            if message.model is not None:
                network = Network(message, until_us)
                links = network.connections
                if len(links.one) <= _SEARCHED_CONNECTIONS and not message.in_parts:
                    self._could_us = {node: hop.had_us for node, hop in fastest_hops(network, until_us).items()}
                there = links.since_us <= message.history.start_us()
                counts: Counter[int] = Counter(links.one[there & np.isin(links.one, nodes)].tolist())
                self._links = {node: counts[node] for node in nodes}
        could = [self._could_us[path.node] for path in others if path.node in self._could_us]
        self._far_us = int(np.percentile(could, 75)) if could else None
        self._few = int(np.median(list(self._links.values()))) // 2 if self._links else None

    def of(self, path: Path) -> Iterator[str]:
        """Yield the traits of the delivery at the last node of a path."""
        message, start = self._message, self._message.history.start_us()
        took = path.delivered_us - start
        if any(is_on_request(hop.copy) for hop in path.hops):
            vias = {hop.copy.via for hop in path.hops if hop.copy is not None}
            yield f"a node on the path requested it (IHAVE and {'IWANT' if Via.IWANT in vias else 'GRAFT'})"
        if took > 0 and sum(hop.took(Step.QUEUE) for hop in path.hops) >= _IN_QUEUES * took:
            yield "at least a third of the time in queues"
        if len(path.hops) > self._hops + 1:
            yield f"more than {self._hops + 1} hops"
        if _lost_before(message, path):
            yield "an earlier copy to the node was lost or refused by a full queue"
        could = self._could_us.get(path.node)
        if self._far_us is not None and could is not None and could > self._far_us:
            least = milliseconds((self._far_us - start) / 1000)
            yield f"far from the publisher: even the fastest path takes more than {least}"
        if self._few is not None and self._links[path.node] <= self._few:
            yield f"few connections ({self._few} or fewer to nodes of the topic)"
        if message.model is not None:
            if path.node in message.model.natted:
                yield "behind NAT: no peer can dial the node"
            if (region := message.model.latency.region_of(path.node)) is not None:
                yield f"in region {region}"
        for node in path.nodes[:-1]:
            if node != message.history.publisher:
                yield f"over {message.node(node)}"


def _lost_before(message: Message, path: Path) -> bool:
    """Return True if, before the delivery at the last node of the path, a copy to this node was lost or was not sent
    because of a full queue.
    """
    copies = message.history.copies
    there = copies.to(path.node)
    times = np.where(copies.arrived_us[there] >= 0, copies.arrived_us[there], copies.sent_us[there])
    return bool((np.isin(copies.fate[there], _FAILED) & (times <= path.delivered_us)).any())
