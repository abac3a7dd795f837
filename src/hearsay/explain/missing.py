"""Who was due a message and never got it, and why.

Due is who the analysis calls eligible (`pipeline/kernels/eligibility.py`): in the topic from the publication to the
end of the message's window, and without a verdict of its own application against it. So the figures are those of the
analysis. Of several reasons that hold, the first of `Why` is said: what came nearest to a delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.explain import reasons
from hearsay.explain.announcements import Announcements, announcements_between
from hearsay.explain.books import Copy, Fate
from hearsay.explain.connections import Connections, TooManyConnections, connections_until
from hearsay.explain.mesh_links import MeshLinks, mesh_links
from hearsay.explain.one_node import Sent, outcomes
from hearsay.explain.partial_traffic import PartialTraffic, partial_traffic
from hearsay.explain.reasons import Cause
from hearsay.explain.refused_parts import RefusedParts, refused_parts
from hearsay.explain.score_samples import ScoreSamples, score_samples
from hearsay.explain.story import Story
from hearsay.pipeline.kernels.columns import Ints
from hearsay.pipeline.kernels.eligibility import Eligibility

_VERDICTS = (int(Reason.REJECTED), int(Reason.IGNORED))


class Why(StrEnum):
    """Why a node never got it; a copy of it that came further stands first."""

    REFUSED = "a copy came and was refused"
    NOT_LOOKED_AT = "a copy came and was not looked at"
    UNTOLD = "a copy came; what became of it is not told"
    UNDER_WAY = "a copy was still under way when the run ended"
    LOST = "copies to it were lost on the way"
    QUEUE_FULL = "no copy left: queues were full"
    UNWANTED = "no copy left: it had said that it does not want one"
    ALONE = "not connected to anybody of the topic"
    NO_HOLDER = "none of those it was connected to had it"
    TOO_LATE = "connected too late for the history of those who had it"
    GOSSIP_LOST = "in nobody's mesh in time, and gossip was lost"
    LOW_SCORE = "its score was too low for gossip"
    NO_MESH = "in the mesh of nobody who had it, and not announced or not asked for"
    ANNOUNCEMENTS_LOST = "no eager link to it in time, and announcements or requests were lost"
    NO_EAGER_LINK = "no eager link to it from anybody who had it, and not announced or not asked for"
    PARTS_LOST = "no part made it whole, and partial messages were lost"
    PARTS_NOT_ASKED = "it said nothing to those who had it, and so asked for no part"
    PARTS_NOT_SENT = "those who had it sent it no part"
    NOT_SENT = "nobody sent it"
    UNKNOWN = "the trace does not tell"


_OF_FATE = {
    Fate.UNDER_WAY: Why.UNDER_WAY,
    Fate.LOST: Why.LOST,
    Fate.UNREACHABLE: Why.LOST,
    Fate.UNSEEN: Why.UNTOLD,
    Fate.QUEUE_FULL: Why.QUEUE_FULL,
    Fate.DROPPED: Why.QUEUE_FULL,
    Fate.WITHDRAWN: Why.UNWANTED,
    Fate.UNWANTED: Why.UNWANTED,
}
_ORDER = list(Why)
NOBODY = "nobody was in the topic"
RULES = {
    Why.UNWANTED: "IDONTWANT-4",
    Why.TOO_LATE: "GOSSIP-7",
    Why.LOW_SCORE: "THRESHOLD-2",
    Why.NO_MESH: "GOSSIP-1",
    Why.NO_EAGER_LINK: "TREE-1",
}
"""The rules behind reasons that have one, whatever the copy."""


@dataclass(frozen=True, slots=True)
class Missing:
    node: int
    why: Why
    detail: str
    copies: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    due: int | None
    """None where nobody knows who is due."""
    got: int
    """Of those that were due."""
    missing: tuple[Missing, ...]
    refused_by_all: bool = False
    """Applications refused it wherever it came, so that it is due nowhere."""
    unknown: str = ""
    """Why nobody knows who is due."""
    publisher_is_due: bool = False
    got_undue: int = 0
    """Other nodes that got it and were not due it; the publisher is not counted."""


def due_nodes(story: Story) -> Ints | None:
    """The nodes that are due the message, ascending; None where nobody knows."""
    if why_due_is_unknown(story) is not None:
        return None
    books, run = story.books, story.run
    members = story.members
    published = np.array([books.published_us])
    window_end = np.minimum(published + run.window_us, run.end_us)
    nodes = np.unique(members.node).astype(np.int64)
    eligible = Eligibility(members.node, members.since_us, members.until_us, run.end_us)
    count = len(nodes)
    due = nodes[eligible.holds(nodes, np.repeat(published, count), np.repeat(window_end, count))]
    refusers = _refusers(story)
    return np.empty(0, dtype=np.int64) if _refused_by_all(story, refusers) else np.setdiff1d(due, refusers)


def why_due_is_unknown(story: Story) -> str | None:
    """As the analysis has it."""
    if not story.books.published:
        return "the trace has no publication of it"
    if story.only_one_traced:
        return "one node traced, and what others were given it cannot know"
    if not len(story.members.node):
        return NOBODY if story.run.simulated else "the trace tells of nobody in the topic"
    return None


def explain_missing(story: Story) -> MissingAnswer:
    due = due_nodes(story)
    if due is None:
        return MissingAnswer(None, 0, (), unknown=why_due_is_unknown(story) or "")
    deliveries, publisher = story.books.deliveries.node, story.books.publisher
    without = np.setdiff1d(due, deliveries)
    around = _Surroundings(story, without) if len(without) else None
    return MissingAnswer(
        due=len(due),
        got=len(due) - len(without),
        missing=tuple(around.of(node) for node in without.tolist()) if around is not None else (),
        refused_by_all=_refused_by_all(story, _refusers(story)),
        publisher_is_due=publisher in due,
        got_undue=len(np.setdiff1d(deliveries, np.append(due, publisher))),
    )


def explain_absence(story: Story, node: int) -> tuple[Missing, str | None]:
    """Why one node never got it, and why it was not due, if it was not."""
    due = due_nodes(story)
    not_due = None
    if due is None:
        not_due = f"who was due it is not known: {why_due_is_unknown(story)}"
    elif node not in due:
        not_due = _why_not_due(story, node)
    return _Surroundings(story, np.array([node], dtype=np.int64)).of(node), not_due


def _refusers(story: Story) -> Ints:
    """Whose application refused it, and was not given it later either."""
    rejects = story.books.rejects
    return np.setdiff1d(rejects.node[np.isin(rejects.reason, _VERDICTS)], story.books.deliveries.node)


def _refused_by_all(story: Story, refusers: Ints) -> bool:
    deliveries = story.books.deliveries
    taken = (deliveries.node != story.books.publisher) & (deliveries.via != Via.INJECT)
    return bool(len(refusers)) and not taken.any()


def _why_not_due(story: Story, node: int) -> str:
    if node in _refusers(story) or _refused_by_all(story, _refusers(story)):
        return "applications refused it"
    members = story.members
    mine = members.node == node
    published = story.books.published_us
    there = mine & (members.since_us <= published) & (members.until_us > published)
    if not mine.any():
        return "it was never in the topic"
    if not there.any():
        return "it was not in the topic when it was published"
    return "it left the topic, or went down, before the message's window ended"


class _Surroundings:
    """What was around nodes that never got it: connections, meshes, scores, refusals."""

    def __init__(self, story: Story, nodes: Ints) -> None:
        self._story = story
        start, end = story.books.start_us(), story.run.end_us
        self._unread: RefusedParts = refused_parts(story.run, nodes, start, end)
        deliveries = story.books.deliveries
        first = deliveries.first()
        self._holders = dict(zip(deliveries.node[first].tolist(), deliveries.time_us[first].tolist(), strict=True))
        if story.books.published:
            self._holders.setdefault(story.books.publisher, story.books.published_us)
        alone = [node for node in nodes.tolist() if not self._copies(node)]
        self._connections: Connections | None = None
        self._mesh: MeshLinks | None = None
        self._scores: ScoreSamples | None = None
        self._announcements: Announcements | None = None
        self._partial: PartialTraffic | None = None
        self._window_end_us = min(start + story.run.window_us, end)
        if alone:
            try:
                self._connections = connections_until(story.run, end)
            except TooManyConnections:
                return
            self._mesh = mesh_links(story.run, story.books.topic, alone, end)
            self._scores = score_samples(story.run, alone, end)
            pairs = self._pairs_with_holders(alone)
            if story.in_parts:
                self._partial = partial_traffic(story.run, story.books.topic, pairs, start, end)
                return
            self._announcements = announcements_between(story.run, pairs, story.members, start, end)

    def of(self, node: int) -> Missing:
        story = self._story
        sent = outcomes(story, self._copies(node), None, None, self._unread)
        if sent:
            found = [(*_why(each), each) for each in sent]
            why, cause, _ = min(found, key=lambda one: _ORDER.index(one[0]))
            return Missing(node, why, _told(sent, cause), tuple(sent))
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
        there = self._story.books.copies.to(node)
        return [self._story.books.copies.at(place) for place in range(there.start, there.stop)]

    def _without_copies(self, node: int) -> tuple[Why, str]:
        """When no copy was on its way to a node."""
        if self._connections is None:
            return Why.UNKNOWN, "the run has more connections than are held in memory"
        start = self._story.books.start_us()
        there = self._connections.of(node)
        columns = (self._connections.other, self._connections.since_us, self._connections.until_us)
        links = [
            link for link in zip(*(values[there].tolist() for values in columns), strict=True) if link[2] > start
        ]
        if not links:
            known = self._story.run.simulated or node in self._story.observers
            return (Why.ALONE, "") if known else (Why.UNKNOWN, "the node did not trace")
        held = [link for link in links if self._holders.get(link[0], link[2]) < link[2]]
        if not held:
            return Why.NO_HOLDER, f"{len({link[0] for link in links})} peers"
        history_us = self._story.model.history_us if self._story.model is not None else None
        in_time = [link for link in held if history_us is None or link[1] <= self._holders[link[0]] + history_us]
        if not in_time:
            soonest = min(since for _, since, _ in held) - start
            return Why.TOO_LATE, f"the first connection to one who had it came after {soonest / 1e6:.1f} s"
        if self._partial is not None:
            return self._in_parts(self._partial, node, {peer for peer, _, _ in in_time})
        return self._unchosen(node, [(peer, since) for peer, since, _ in in_time])

    def _in_parts(self, partial: PartialTraffic, node: int, peers: set[int]) -> tuple[Why, str]:
        """What went between a node and those who had the message, from when they had it to the end of its window."""
        until_us = self._window_end_us
        since = {peer: self._holders[peer] for peer in peers}
        came = sum(partial.came(peer, node, since[peer], until_us) for peer in peers)
        lost = sum(partial.lost(peer, node, since[peer], until_us) for peer in peers)
        asked = sum(partial.came(node, peer, since[peer], until_us) for peer in peers)
        unheard = sum(partial.lost(node, peer, since[peer], until_us) for peer in peers)
        known = f"connected to {len(peers)} who had it"
        if lost or unheard:
            return Why.PARTS_LOST, f"{known}; {lost} from them and {unheard} to them, perhaps about other messages"
        if not asked:
            return Why.PARTS_NOT_ASKED, known
        if not came:
            return Why.PARTS_NOT_SENT, f"{known}; {asked} partial messages of its own reached them"
        return Why.UNKNOWN, f"{known}; {came} partial messages of theirs came, and rows of them name no message"

    def _unchosen(self, node: int, held: list[tuple[int, int]]) -> tuple[Why, str]:
        """Connected to some who had it, in time; `held` says since when they were connected."""
        peers = f"connected to {len({peer for peer, _ in held})} who had it"
        thresholds = self._story.run.thresholds
        if self._scores is not None and thresholds is not None:
            scores = [self._scores.latest(peer, node, max(since, self._holders[peer])) for peer, since in held]
            known = [score for score in scores if score is not None]
            if known and max(known) < thresholds.gossip:
                return Why.LOW_SCORE, f"{peers}, whose best score of it was {max(known):.1f}"
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
        """How many announcements of those who had the message, and requests to them, were lost, while it was to be
        announced. Rows of them name no message."""
        if self._announcements is None:
            return 0, 0
        history_us = self._story.model.history_us if self._story.model is not None else None
        lost = [0, 0]
        for peer in {peer for peer, _ in held}:
            had = self._holders[peer]
            until = self._story.run.end_us if history_us is None else had + history_us
            lost[0] += self._announcements.lost(peer, node, PartKind.IHAVE, had, until)
            lost[1] += self._announcements.lost(node, peer, request, had, until)
        return lost[0], lost[1]


def _why(sent: Sent) -> tuple[Why, Cause]:
    """What a copy that was not delivered makes of it."""
    if sent.copy.fate is not Fate.ARRIVED:
        return _OF_FATE[sent.copy.fate], sent.outcome
    if not sent.failed:
        return Why.UNTOLD, sent.outcome
    unread = sent.outcome in (reasons.of_reason(Reason.GRAYLISTED), reasons.of_reason(Reason.GATED))
    return (Why.NOT_LOOKED_AT if unread else Why.REFUSED), sent.outcome


def _told(sent: list[Sent], cause: Cause) -> str:
    same = sum(each.outcome == cause for each in sent)
    count = f"{same} of {len(sent)} copies" if len(sent) > 1 else "1 copy"
    return f"{count}: {cause.words}"


def counted(missing: tuple[Missing, ...]) -> list[tuple[Why, list[Missing]]]:
    """By reason, the most frequent first."""
    groups: dict[Why, list[Missing]] = {}
    for each in missing:
        groups.setdefault(each.why, []).append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), _ORDER.index(group[0])))
