"""Nodes that were due a message and never got it, with a reason for each.

A message is due at the nodes that the analysis calls eligible (docs/reference/metrics.md): in the topic from
the publication to the end of the message's window, without a rejection by their own application. If several reasons
hold, the first one in `Why` is given: the one that came closest to a delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain import causes
from hearsay.explain.causes import Cause
from hearsay.explain.copies import Copy, Fate
from hearsay.explain.message import Message
from hearsay.explain.node import Sent, outcomes
from hearsay.explain.requests import Requests, requests_between
from hearsay.explain.rows import Ints, TooManyRows
from hearsay.explain.trace_rows import (
    Connections,
    MeshLinks,
    PartialTraffic,
    RefusedRpcs,
    ScoreSamples,
    connections_until,
    partial_traffic,
)
from hearsay.text.numbers import plural

_VERDICTS = (int(Reason.REJECTED), int(Reason.IGNORED))


class Why(StrEnum):
    """Reasons why a node never got a message; the closer to a delivery, the earlier."""

    REFUSED = "a copy arrived and was rejected"
    UNREAD = "a copy arrived and was dropped unread"
    UNKNOWN_OUTCOME = "a copy arrived; the trace does not show what happened to it"
    UNDER_WAY = "a copy was in flight when the run ended"
    LOST = "copies to it were lost"
    QUEUE_FULL = "no copy was sent: queues were full"
    UNWANTED = "no copy was sent: the node had sent IDONTWANT"
    ALONE = "not connected to any node of the topic"
    NO_HOLDER = "none of its peers had it"
    TOO_LATE = "connected to holders after the message left their history"
    GOSSIP_LOST = "in no mesh in time, and gossip was lost"
    LOW_SCORE = "its score was too low for gossip"
    NO_MESH = "in no mesh of a holder, and not announced or not requested"
    ANNOUNCEMENTS_LOST = "no eager link to it in time, and requests or requests were lost"
    NO_EAGER_LINK = "no eager link to it from a holder, and not announced or not requested"
    PARTS_LOST = "incomplete, and partial messages were lost"
    PARTS_NOT_ASKED = "it sent no partial message to holders, so it requested no part"
    PARTS_NOT_SENT = "holders sent it no part"
    NOT_SENT = "no peer sent it"
    UNKNOWN = "the trace does not show why"


_OF_FATE = {
    Fate.UNDER_WAY: Why.UNDER_WAY,
    Fate.LOST: Why.LOST,
    Fate.UNREACHABLE: Why.LOST,
    Fate.UNSEEN: Why.UNKNOWN_OUTCOME,
    Fate.QUEUE_FULL: Why.QUEUE_FULL,
    Fate.DROPPED: Why.QUEUE_FULL,
    Fate.WITHDRAWN: Why.UNWANTED,
    Fate.UNWANTED: Why.UNWANTED,
}
_ORDER = list(Why)
NO_MEMBERS = "no node was in the topic"
RULES = {
    Why.UNWANTED: "IDONTWANT-4",
    Why.TOO_LATE: "GOSSIP-7",
    Why.LOW_SCORE: "THRESHOLD-2",
    Why.NO_MESH: "GOSSIP-1",
    Why.NO_EAGER_LINK: "TREE-1",
}
"""Rules behind reasons that follow from one rule."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that never got the message."""

    node: int
    why: Why
    detail: str
    copies: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    """All nodes that were due the message and never got it."""

    due: int | None
    """Nodes that were due it; None if unknown."""
    got: int
    """Due nodes that got it."""
    missing: tuple[Missing, ...]
    refused_by_all: bool = False
    """Every application that got it rejected it, so it was due nowhere."""
    unknown: str = ""
    """Why the due nodes are unknown."""
    publisher_is_due: bool = False
    got_undue: int = 0
    """Nodes, except the publisher, that got it and were not due it."""


def due_nodes(message: Message) -> Ints | None:
    """Return the nodes that were due the message, ascending; None if unknown."""
    if why_due_is_unknown(message) is not None:
        return None
    history, run = message.history, message.run
    members = message.members
    window_end_us = min(history.published_us + run.window_us, run.end_us)
    due = members.node[(members.since_us <= history.published_us) & (members.until_us >= window_end_us)]
    rejecters = _rejecters(message)
    return np.empty(0, dtype=np.int64) if _refused_by_all(message, rejecters) else np.setdiff1d(due, rejecters)


def why_due_is_unknown(message: Message) -> str | None:
    """Return why the due nodes are unknown, as the analysis does; None if they are known."""
    if not message.history.published:
        return "the trace has no publication of it"
    if message.only_one_traced:
        return "only one node traced, and it does not know what other nodes got"
    if not len(message.members.node):
        return NO_MEMBERS if message.run.simulated else "the trace shows no node in the topic"
    return None


def explain_missing(message: Message) -> MissingAnswer:
    """Find the nodes that were due the message and never got it."""
    due = due_nodes(message)
    if due is None:
        return MissingAnswer(None, 0, (), unknown=why_due_is_unknown(message) or "")
    deliveries, publisher = message.history.deliveries.node, message.history.publisher
    without = np.setdiff1d(due, deliveries)
    around = _Surroundings(message, without) if len(without) else None
    return MissingAnswer(
        due=len(due),
        got=len(due) - len(without),
        missing=tuple(around.of(node) for node in without.tolist()) if around is not None else (),
        refused_by_all=_refused_by_all(message, _rejecters(message)),
        publisher_is_due=publisher in due,
        got_undue=len(np.setdiff1d(deliveries, np.append(due, publisher))),
    )


def explain_absence(message: Message, node: int) -> tuple[Missing, str | None]:
    """Return why one node never got it, and why it was not due; None if it was due."""
    due = due_nodes(message)
    not_due = None
    if due is None:
        not_due = f"the due nodes are unknown: {why_due_is_unknown(message)}"
    elif node not in due:
        not_due = _why_not_due(message, node)
    return _Surroundings(message, np.array([node], dtype=np.int64)).of(node), not_due


def _rejecters(message: Message) -> Ints:
    """Return the nodes whose application rejected it and did not get it later."""
    rejects = message.history.rejects
    return np.setdiff1d(rejects.node[np.isin(rejects.reason, _VERDICTS)], message.history.deliveries.node)


def _refused_by_all(message: Message, rejecters: Ints) -> bool:
    deliveries = message.history.deliveries
    taken = (deliveries.node != message.history.publisher) & (deliveries.via != Via.INJECT)
    return bool(len(rejecters)) and not taken.any()


def _why_not_due(message: Message, node: int) -> str:
    if node in _rejecters(message) or _refused_by_all(message, _rejecters(message)):
        return "applications rejected it"
    members = message.members
    mine = members.node == node
    published = message.history.published_us
    there = mine & (members.since_us <= published) & (members.until_us > published)
    if not mine.any():
        return "it was never in the topic"
    if not there.any():
        return "it was not in the topic when it was published"
    return "it left the topic, or went down, before the message's window ended"


class _Surroundings:
    """The surroundings of nodes that never got it: connections, meshes, scores, dropped RPCs."""

    def __init__(self, message: Message, nodes: Ints) -> None:
        self._message = message
        start, end = message.history.start_us(), message.run.end_us
        self._unread = RefusedRpcs(message.run, nodes, start, end)
        deliveries = message.history.deliveries
        first = deliveries.first()
        self._holders = dict(zip(deliveries.node[first].tolist(), deliveries.time_us[first].tolist(), strict=True))
        if message.history.published:
            self._holders.setdefault(message.history.publisher, message.history.published_us)
        alone = [node for node in nodes.tolist() if not self._copies(node)]
        self._connections: Connections | None = None
        self._mesh: MeshLinks | None = None
        self._scores: ScoreSamples | None = None
        self._requests: Requests | None = None
        self._partial: PartialTraffic | None = None
        self._window_end_us = min(start + message.run.window_us, end)
        if alone:
            try:
                self._connections = connections_until(message.run, end)
            except TooManyRows:
                return
            self._mesh = MeshLinks(message.run, message.history.topic, alone, end)
            self._scores = ScoreSamples(message.run, alone, end)
            pairs = self._pairs_with_holders(alone)
            if message.in_parts:
                self._partial = partial_traffic(message.run, message.history.topic, pairs, start, end)
                return
            self._requests = requests_between(message.run, pairs, message.members, start, end)

    def of(self, node: int) -> Missing:
        message = self._message
        sent = outcomes(message, self._copies(node), None, None, self._unread)
        if sent:
            found = [(*_why(each), each) for each in sent]
            why, cause, _ = min(found, key=lambda one: _ORDER.index(one[0]))
            return Missing(node, why, _summary(sent, cause), tuple(sent))
        why, detail = self._without_copies(node)
        return Missing(node, why, detail, ())

    def _pairs_with_holders(self, nodes: list[int]) -> set[tuple[int, int]]:
        assert self._connections is not None
        found: set[tuple[int, int]] = set()
        for node in nodes:
            others: list[int] = self._connections.other[self._connections.of(node)].tolist()
            found |= {(node, other) for other in others if other in self._holders}
        return found

    def _copies(self, node: int) -> list[Copy]:
        there = self._message.history.copies.to(node)
        return [self._message.history.copies.at(place) for place in range(there.start, there.stop)]

    def _without_copies(self, node: int) -> tuple[Why, str]:
        """Return why no copy was sent to a node."""
        if self._connections is None:
            return Why.UNKNOWN, "the run has too many connections to search"
        start = self._message.history.start_us()
        there = self._connections.of(node)
        columns = (self._connections.other, self._connections.since_us, self._connections.until_us)
        links = [
            link for link in zip(*(values[there].tolist() for values in columns), strict=True) if link[2] > start
        ]
        if not links:
            known = self._message.run.simulated or node in self._message.observers
            return (Why.ALONE, "") if known else (Why.UNKNOWN, "the node did not trace")
        held = [link for link in links if self._holders.get(link[0], link[2]) < link[2]]
        if not held:
            return Why.NO_HOLDER, f"{len({link[0] for link in links})} peers"
        history_us = self._message.model.history_us if self._message.model is not None else None
        in_time = [link for link in held if history_us is None or link[1] <= self._holders[link[0]] + history_us]
        if not in_time:
            soonest = min(since for _, since, _ in held) - start
            return Why.TOO_LATE, f"first connection to a holder after {soonest / 1e6:.1f} s"
        if self._partial is not None:
            return self._in_parts(self._partial, node, {peer for peer, _, _ in in_time})
        return self._unchosen(node, [(peer, since) for peer, since, _ in in_time])

    def _in_parts(self, partial: PartialTraffic, node: int, peers: set[int]) -> tuple[Why, str]:
        """Return why a node got no part: partial messages between it and holders until the end of the window."""
        until_us = self._window_end_us
        since = {peer: self._holders[peer] for peer in peers}
        came = sum(partial.arrived((peer, node), since[peer], until_us) for peer in peers)
        lost = sum(partial.lost((peer, node), since[peer], until_us) for peer in peers)
        asked = sum(partial.arrived((node, peer), since[peer], until_us) for peer in peers)
        unheard = sum(partial.lost((node, peer), since[peer], until_us) for peer in peers)
        known = f"connected to {plural(len(peers), 'holder')}"
        if lost or unheard:
            return (
                Why.PARTS_LOST,
                f"{known}; {lost} from them and {unheard} to them lost, perhaps of other messages",
            )
        if not asked:
            return Why.PARTS_NOT_ASKED, known
        if not came:
            return Why.PARTS_NOT_SENT, f"{known}; {asked} partial messages from it reached them"
        return Why.UNKNOWN, f"{known}; {came} partial messages from them arrived; their rows name no message"

    def _unchosen(self, node: int, held: list[tuple[int, int]]) -> tuple[Why, str]:
        """Return why holders did not send it; `held` has holders and the times of their connections."""
        peers = f"connected to {plural(len({peer for peer, _ in held}), 'holder')}"
        thresholds = self._message.run.thresholds
        if self._scores is not None and thresholds is not None:
            scores = [self._scores.latest(peer, node, max(since, self._holders[peer])) for peer, since in held]
            known = [score for score in scores if score is not None]
            if known and max(known) < thresholds.gossip:
                return Why.LOW_SCORE, f"{peers}; its best score there was {max(known):.1f}"
        mesh = self._mesh
        is_tree = mesh is not None and any(mesh.has_tree(peer) for peer, _ in held)
        request = PartKind.GRAFT if is_tree else PartKind.IWANT
        lost = self._lost_control(node, held, request)
        if any(lost):
            why = Why.ANNOUNCEMENTS_LOST if is_tree else Why.GOSSIP_LOST
            return why, f"{peers}; {lost[0]} IHAVE and {lost[1]} {request.name} between them were lost"
        if (
            mesh is None
            or not mesh.any_mesh
            or any(mesh.holds(peer, node, max(since, self._holders[peer]), since) for peer, since in held)
        ):
            return Why.NOT_SENT, peers
        return (Why.NO_EAGER_LINK if is_tree else Why.NO_MESH), peers

    def _lost_control(self, node: int, held: list[tuple[int, int]], request: PartKind) -> tuple[int, int]:
        """Return how many announcements of holders, and requests to them, were lost in time. Rows name no message."""
        if self._requests is None:
            return 0, 0
        history_us = self._message.model.history_us if self._message.model is not None else None
        lost = [0, 0]
        for peer in {peer for peer, _ in held}:
            had = self._holders[peer]
            until = self._message.run.end_us if history_us is None else had + history_us
            lost[0] += self._requests.lost(peer, node, PartKind.IHAVE, had, until)
            lost[1] += self._requests.lost(node, peer, request, had, until)
        return lost[0], lost[1]


def _why(sent: Sent) -> tuple[Why, Cause]:
    """Return the reason that follows from a copy that was not delivered."""
    if sent.copy.fate is not Fate.ARRIVED:
        return _OF_FATE[sent.copy.fate], sent.outcome
    if not sent.failed:
        return Why.UNKNOWN_OUTCOME, sent.outcome
    unread = sent.outcome in (causes.of_reason(Reason.GRAYLISTED), causes.of_reason(Reason.GATED))
    return (Why.UNREAD if unread else Why.REFUSED), sent.outcome


def _summary(sent: list[Sent], cause: Cause) -> str:
    same = sum(each.outcome == cause for each in sent)
    count = f"{same} of {len(sent)} copies" if len(sent) > 1 else "1 copy"
    return f"{count}: {cause.words}"


def by_reason(missing: tuple[Missing, ...]) -> list[tuple[Why, list[Missing]]]:
    """Group nodes by reason, the most frequent first."""
    groups: dict[Why, list[Missing]] = {}
    for each in missing:
        groups.setdefault(each.why, []).append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), _ORDER.index(group[0])))
