"""Nodes that were due a message and never got it, with a reason for each.

A message is due at the nodes that the analysis calls eligible (docs/reference/metrics.md): nodes that are in the
topic from the publication to the end of the message's window, and whose application did not reject the message. These
nodes are the due nodes. If copies to a node failed for several reasons, the answer has the first of them in the order
of `Why`, which begins with reasons of copies that almost led to a delivery. A holder is a node that had the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain.copies import WORDS, Fate, cause_of_reason
from hearsay.explain.deliveries import Sent, sent_to, unread_rpcs
from hearsay.explain.links import MeshLinks, ScoreSamples, connections_until
from hearsay.explain.message import Message
from hearsay.explain.requests import REQUESTS, parts_between
from hearsay.explain.rows import Ints, TooManyRows
from hearsay.number_text import plural


class Why(StrEnum):
    """Reasons why a node never got a message: first why copies failed, then why no peer sent a copy."""

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
    ANNOUNCEMENTS_LOST = "no eager link to it in time, and announcements or requests were lost"
    NO_EAGER_LINK = "no eager link to it from a holder, and not announced or not requested"
    PARTS_LOST = "incomplete, and partial messages were lost"
    PARTS_NOT_ASKED = "it sent no partial message to holders, so it requested no part"
    PARTS_NOT_SENT = "holders sent it no part"
    NOT_SENT = "no peer sent it"
    UNKNOWN = "the trace does not show why"


_WHY_BY_FATE = {Fate[name.upper()]: Why[each["why"]] for name, each in WORDS["fates"].items()}
_UNREAD = (cause_of_reason(Reason.GRAYLISTED), cause_of_reason(Reason.GATED))
_ORDER = list(Why)
NO_MEMBERS = "no node was in the topic"
RULES: dict[Why, str] = {Why[name.upper()]: rule for name, rule in WORDS["missing_rules"].items()}
"""The id of the rule from which a reason follows. Reasons that follow from no single rule are left out."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that never got the message."""

    node: int
    why: Why
    detail: str
    """Details of the reason in words; may be empty."""
    copies: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    """The due nodes that never got the message, with counts of nodes."""

    due: int | None
    """Number of nodes at which the message was due; None if unknown."""
    got: int
    """Number of the due nodes that got the message."""
    missing: tuple[Missing, ...]
    refused_by_all: bool = False
    """True if every application that got the message rejected or ignored it. Then the message was due at no node."""
    unknown: str = ""
    """Why the due nodes are unknown; empty if they are known."""
    publisher_is_due: bool = False
    got_undue: int = 0
    """Number of nodes, without the publisher, that got the message and are not due nodes."""


@dataclass(frozen=True, slots=True)
class _Due:
    """The due nodes of a message."""

    nodes: Ints
    """Numbers of the due nodes in ascending order; empty if unknown."""
    unknown: str | None
    """Why the due nodes are unknown; None if they are known."""
    rejecters: Ints
    """Nodes whose application rejected or ignored the message, and that never delivered it."""
    refused_by_all: bool


def _due(message: Message) -> _Due:
    history, members, run = message.history, message.members, message.run
    rejects, deliveries = history.rejects, history.deliveries
    rejecters = np.setdiff1d(rejects.node[np.isin(rejects.value, (Reason.REJECTED, Reason.IGNORED))], deliveries.node)
    taken = (deliveries.node != history.publisher) & (deliveries.via != Via.INJECT)
    refused_by_all = bool(len(rejecters)) and not taken.any()
    unknown = None
    if not history.published:
        unknown = "the trace has no publication of it"
    elif not run.simulated and len(message.observers) == 1:
        unknown = "only one node traced, and it does not know what other nodes got"
    elif not len(members.node):
        unknown = NO_MEMBERS if run.simulated else "the trace shows no node in the topic"
    window_end_us = min(history.published_us + run.window_us, run.end_us)
    is_due = (members.since_us <= history.published_us) & (members.until_us >= window_end_us)
    is_due &= unknown is None and not refused_by_all
    return _Due(np.setdiff1d(members.node[is_due], rejecters), unknown, rejecters, refused_by_all)


def explain_missing(message: Message) -> MissingAnswer:
    """Explain for each due node that never got the message why it did not."""
    due = _due(message)
    if due.unknown is not None:
        return MissingAnswer(None, 0, (), unknown=due.unknown)
    deliveries, publisher = message.history.deliveries.node, message.history.publisher
    without = np.setdiff1d(due.nodes, deliveries)
    return MissingAnswer(
        due=len(due.nodes),
        got=len(due.nodes) - len(without),
        missing=tuple(_reasons(message, without.tolist())),
        refused_by_all=due.refused_by_all,
        publisher_is_due=publisher in due.nodes,
        got_undue=len(np.setdiff1d(deliveries, np.append(due.nodes, publisher))),
    )


def explain_absence(message: Message, node: int) -> tuple[Missing, str | None]:
    """Return why a node never got the message, and why the message was not due there; the second is None if the node
    is a due node. The node must not have delivered the message.
    """
    due = _due(message)
    (missing,) = _reasons(message, [node])
    if due.unknown is not None:
        return missing, f"the due nodes are unknown: {due.unknown}"
    return missing, None if node in due.nodes else _why_not_due(message, node, due)


def _why_not_due(message: Message, node: int, due: _Due) -> str:
    if due.refused_by_all or node in due.rejecters:
        return "applications rejected it"
    members, published_us = message.members, message.history.published_us
    mine = members.node == node
    there = mine & (members.since_us <= published_us) & (members.until_us > published_us)
    if not mine.any():
        return "it was never in the topic"
    if not there.any():
        return "it was not in the topic when it was published"
    return "it left the topic, or went down, before the message's window ended"


def _reasons(message: Message, nodes: Sequence[int]) -> Iterator[Missing]:
    """Yield the reason for each of `nodes`, which never got the message."""
    history = message.history
    unread = unread_rpcs(message.run, nodes, history.start_us(), message.run.end_us)
    copies = {node: sent_to(message, node, unread) for node in nodes}
    alone = [node for node in nodes if not copies[node]]
    try:
        around = _Surroundings(message, alone) if alone else None
    except TooManyRows:
        around = None
    for node, sent in copies.items():
        if sent:
            closest = min(sent, key=lambda each: _ORDER.index(_why_not_delivered(each)))
            same = sum(each.outcome == closest.outcome for each in sent)
            count = f"{same} of {len(sent)} copies" if len(sent) > 1 else "1 copy"
            yield Missing(node, _why_not_delivered(closest), f"{count}: {closest.outcome.words}", sent)
        elif around is None:
            yield Missing(node, Why.UNKNOWN, "the run has too many connections to search", ())
        else:
            yield Missing(node, *around.why_not_sent(node), ())


def _why_not_delivered(sent: Sent) -> Why:
    if sent.copy.fate is not Fate.ARRIVED:
        return _WHY_BY_FATE[sent.copy.fate]
    if not sent.failed:
        return Why.UNKNOWN_OUTCOME
    return Why.UNREAD if sent.outcome in _UNREAD else Why.REFUSED


class _Surroundings:
    """Facts about nodes to which no copy was sent: their connections, mesh links and scores, and the parts of RPCs
    between these nodes and holders.
    """

    def __init__(self, message: Message, nodes: Sequence[int]) -> None:
        run, history = message.run, message.history
        self._message, self._start_us = message, history.start_us()
        self._window_end_us = min(self._start_us + run.window_us, run.end_us)
        self._history_us = message.model.history_us if message.model is not None else None
        deliveries, first = history.deliveries, history.deliveries.first()
        self._holders = dict(zip(deliveries.node[first].tolist(), deliveries.time_us[first].tolist(), strict=True))
        if history.published:
            self._holders.setdefault(history.publisher, history.published_us)
        self._connections = connections_until(run, run.end_us)
        self._mesh = MeshLinks(run, history.topic, nodes, run.end_us)
        self._scores = ScoreSamples(run, nodes, run.end_us)
        pairs = {
            (node, other) for node in nodes for other, _, _ in self._connections.of(node) if other in self._holders
        }
        kinds, topic = ((PartKind.PARTIAL,), history.topic) if message.in_parts else (REQUESTS, None)
        self._parts = parts_between(run, pairs, kinds, topic, self._start_us, run.end_us)

    def why_not_sent(self, node: int) -> tuple[Why, str]:
        """Return why no copy was sent to a node, with a detail in words."""
        links = [link for link in self._connections.of(node) if link[2] > self._start_us]
        if not links:
            known = self._message.run.simulated or node in self._message.observers
            return (Why.ALONE, "") if known else (Why.UNKNOWN, "the node did not trace")
        held = [link for link in links if self._holders.get(link[0], link[2]) < link[2]]
        if not held:
            return Why.NO_HOLDER, f"{len({peer for peer, _, _ in links})} peers"
        in_time = [
            (peer, since) for peer, since, _ in held
            if self._history_us is None or since <= self._holders[peer] + self._history_us
        ]  # fmt: skip
        if not in_time:
            soonest = min(since for _, since, _ in held) - self._start_us
            return Why.TOO_LATE, f"first connection to a holder after {soonest / 1e6:.1f} s"
        peers = {peer for peer, _ in in_time}
        known = f"connected to {plural(len(peers), 'holder')}"
        if self._message.in_parts:
            return self._in_parts(node, peers, known)
        return self._not_sent(node, in_time, peers, known)

    def _in_parts(self, node: int, peers: set[int], known: str) -> tuple[Why, str]:
        """Return why a node did not get all parts of the message. `peers` are the holders; `known` is the beginning
        of the detail. Only partial messages up to the end of the message's window are considered.
        """
        came = asked = lost_from = lost_to = 0
        for peer in peers:
            window = (PartKind.PARTIAL, self._holders[peer], self._window_end_us)
            came += self._parts.count(peer, node, *window)
            asked += self._parts.count(node, peer, *window)
            lost_from += self._parts.lost(peer, node, *window)
            lost_to += self._parts.lost(node, peer, *window)
        if lost_from or lost_to:
            lost = f"{lost_from} from them and {lost_to} to them lost, perhaps of other messages"
            return Why.PARTS_LOST, f"{known}; {lost}"
        if not asked:
            return Why.PARTS_NOT_ASKED, known
        if not came:
            return Why.PARTS_NOT_SENT, f"{known}; {asked} partial messages from it reached them"
        return Why.UNKNOWN, f"{known}; {came} partial messages from them arrived; their rows name no message"

    def _not_sent(self, node: int, held: list[tuple[int, int]], peers: set[int], known: str) -> tuple[Why, str]:
        """Return why holders did not send the message to a node. `held` has the holders, each with the time at which
        it was connected to the node; `peers` has the same holders, and `known` the beginning of the detail.
        """
        thresholds, mesh = self._message.run.thresholds, self._mesh
        both_us = [(peer, since, max(since, self._holders[peer])) for peer, since in held]
        if thresholds is not None:
            scores = [self._scores.latest(peer, node, at_us) for peer, _, at_us in both_us]
            best = max((score for score in scores if score is not None), default=None)
            if best is not None and best < thresholds.gossip:
                return Why.LOW_SCORE, f"{known}; its best score there was {best:.1f}"
        is_tree = any(mesh.has_tree(peer) for peer in peers)
        request = PartKind.GRAFT if is_tree else PartKind.IWANT
        announcements = requests = 0
        for peer in peers:
            had_us = self._holders[peer]
            until_us = self._message.run.end_us if self._history_us is None else had_us + self._history_us
            announcements += self._parts.lost(peer, node, PartKind.IHAVE, had_us, until_us)
            requests += self._parts.lost(node, peer, request, had_us, until_us)
        if announcements or requests:
            why = Why.ANNOUNCEMENTS_LOST if is_tree else Why.GOSSIP_LOST
            return why, f"{known}; {announcements} IHAVE and {requests} {request.name} between them were lost"
        if not mesh.any_mesh or any(mesh.holds(peer, node, at_us, since) for peer, since, at_us in both_us):
            return Why.NOT_SENT, known
        return (Why.NO_EAGER_LINK if is_tree else Why.NO_MESH), known


def by_reason(missing: Sequence[Missing]) -> list[tuple[Why, list[Missing]]]:
    """Group nodes by reason. The most frequent reason is first."""
    groups: dict[Why, list[Missing]] = {}
    for each in missing:
        groups.setdefault(each.why, []).append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), _ORDER.index(group[0])))
