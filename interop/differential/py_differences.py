"""Known differences of py-libp2p's router, each as narrow as possible.

The docstring of a difference describes py-libp2p's router. If a difference changes only the sent parts,
`KnownDifferences` removes these parts from the results of the step, and the comparison goes on. A difference of the
routers' states ends the comparison of a sequence that may have this difference (`py_sequences.MORE`).
`docs/benchmarks/differential.md` has the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from compare import same_peers
from py_sequences import FLOODSUB, PROTOCOLS, SECOND

Seen = dict[str, Any]
OLD = (PROTOCOLS[-2], FLOODSUB)
"""Protocols without backoffs and peer exchange."""
LAZY = 6


class KnownDifferences:
    """The known differences in one sequence: a call with a step removes them from the results of both sides."""

    def __init__(self, sequence: dict[str, Any]) -> None:
        self.sequence = sequence
        self.protocols: dict[str, str] = {}
        self.names: Counter[str] = Counter()
        self.asked: set[str] = set()
        """Messages that wait for a verdict of the application."""
        self.rejected: set[str] = set()
        """Messages that the application has rejected or ignored."""
        self.subscribed: dict[str, set[str]] = {}
        self.beats = 0
        self.kept: dict[str, int] = {}
        """Number of heartbeats before a message was delivered or published, by message."""
        self.unwanted: set[tuple[str, str]] = set()
        """Pairs of a peer and a message for which the peer sent IDONTWANT since the last heartbeat."""

    def __call__(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> tuple[Seen, Seen]:
        self._remember(step, ours)
        ours, theirs = deepcopy(ours), deepcopy(theirs)
        for rule in (
            self._whole_seconds, self._old_peers, self._recent_messages,  self._idontwant,
            self._answers_for_other_topics, self._wants_of_other_topics, self._wants, self._answers_the_unwanted,
            self._parts_add_up, self._no_gossip_in_backoff,
        ):  # fmt: skip
            if rule(step, ours, theirs):
                self.names[rule.__name__.removeprefix("_")] += 1
        self._remember_subscriptions(step)
        return ours, theirs

    def ending_difference(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> str:
        """Return the name of the difference that the sequence may have, if this step shows it, or an empty string."""
        more = self.sequence.get("more", "")
        return more if more in _ENDS and _ENDS[more](step, ours, theirs) else ""

    def _remember(self, step: dict[str, Any], ours: Seen) -> None:
        self.asked.update(ours["validates"])
        peer = step.get("peer", "")
        for name in (*ours["delivers"], *([step["message"]] if step["event"] == "publish" else [])):
            self.kept.setdefault(name, self.beats)
        match step["event"]:
            case "connect":
                self.protocols[peer] = step["protocol"]
            case "disconnect":
                self.subscribed.pop(peer, None)
                self.unwanted = {each for each in self.unwanted if each[0] != peer}
            case "heartbeat":
                self.beats += 1
                self.unwanted.clear()
            case "verdict" if step["message"] in self.asked:
                self.asked.discard(step["message"])
                if step["verdict"] != "accept":
                    self.rejected.add(step["message"])
            case "rpc":
                self.unwanted.update((peer, name) for name in step["rpc"].get("idontwant", ()))
            case _:
                pass

    def _remember_subscriptions(self, step: dict[str, Any]) -> None:
        topics = self.subscribed.setdefault(step.get("peer", ""), set())
        topics.update(step.get("rpc", {}).get("subscribe", ()))
        topics.difference_update(step.get("rpc", {}).get("unsubscribe", ()))

    def _whole_seconds(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """Backoffs end at whole seconds, rounded down."""
        del theirs
        for topic, ends in ours["backoffs"].items():
            whole = {peer: end // SECOND * SECOND for peer, end in ends.items()}
            ours["backoffs"][topic] = {peer: end for peer, end in whole.items() if end > step["at"]}
        return False

    def _old_peers(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """PRUNE to a peer with protocol 1.0 has a backoff and peers."""
        found = False
        for peer, form in theirs["rpcs"].items():
            if self.protocols.get(peer) in OLD:
                for topic, said in form.get("prune", {}).items():
                    found |= bool(said) and topic in ours["rpcs"].get(peer, {}).get("prune", {})
                    form["prune"][topic] = {}
        return found

    def _recent_messages(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """A peer that subscribes gets the messages of the gossip windows."""
        topics = {*step.get("rpc", {}).get("subscribe", ())} - self.subscribed.get(step.get("peer", ""), set())
        windows = self.sequence["parameters"]["HistoryGossip"]
        recent = {name for name, beat in self.kept.items()
                  if self.sequence["messages"][name]["topic"] in topics and self.beats - beat < windows}  # fmt: skip
        form = theirs["rpcs"].get(step.get("peer", ""), {})
        if not recent or {*form.get("messages", ())} != recent:
            return False
        del form["messages"]
        return True

    def _idontwant(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IDONTWANT is sent to the sender of the message, too, and only after the validation."""
        found = False
        asks = self.sequence["parameters"]["Validate"]
        for name in step.get("rpc", {}).get("messages", ()):
            if asks and name in ours["validates"]:
                found |= self._take_out(name, ours, self._knowing(ours, name) - {step["peer"]})
            elif not asks and step["peer"] not in self._sent_to(ours, name):
                found |= self._take_out(name, theirs, {step["peer"]} & self._knowing(theirs, name))
        if step["event"] == "verdict":
            found |= self._take_out(step["message"], theirs, self._knowing(theirs, step["message"]))
        return found

    def _knowing(self, side: Seen, name: str) -> set[str]:
        """Return the members of the mesh of a message's topic that speak 1.2 or later."""
        members = side["mesh"].get(self.sequence["messages"][name]["topic"], ())
        return {peer for peer in members if self.protocols.get(peer) in PROTOCOLS[:2]}

    @staticmethod
    def _sent_to(side: Seen, name: str) -> set[str]:
        return {peer for peer, form in side["rpcs"].items() if name in form.get("idontwant", ())}

    def _take_out(self, name: str, side: Seen, peers: set[str]) -> bool:
        """Return whether IDONTWANT is sent to all of `peers`; if so, remove it from the results of this side."""
        if not peers or not peers <= self._sent_to(side, name):
            return False
        for peer in peers:
            side["rpcs"][peer]["idontwant"].remove(name)
        return True

    def _answers_for_other_topics(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """The PRUNE for a GRAFT of a topic that is not joined has a backoff and peers."""
        found = False
        for topic in step.get("rpc", {}).get("graft", ()):
            said = theirs["rpcs"].get(step["peer"], {}).get("prune", {})
            if topic not in theirs["mesh"] and said.get(topic):
                said[topic], found = {}, True
        return found

    def _wants_of_other_topics(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """An IHAVE of a topic that is not joined is answered with IWANT."""
        topics = {*step.get("rpc", {}).get("ihave", ())}
        if not topics or topics & {*theirs["mesh"]}:
            return False
        return theirs["rpcs"].get(step["peer"], {}).pop("iwant", None) is not None

    def _wants(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IWANT also requests messages that wait for a verdict or were rejected.

        It does not request messages that other peers sent with the router as author.
        """
        mine, other = _said(step, "ihave", "iwant", ours, theirs)
        messages = self.sequence["messages"]
        own = all(messages[name].get("from") == "self" for name in mine - other)
        if mine != other and other - mine <= self.asked | self.rejected and own:
            _say(step, "iwant", theirs, mine)
            return True
        return False

    def _answers_the_unwanted(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IWANT is answered with messages for which the same peer sent IDONTWANT."""
        mine, other = _said(step, "iwant", "messages", ours, theirs)
        if mine < other and all((step["peer"], name) in self.unwanted for name in other - mine):
            _say(step, "messages", theirs, mine)
            return True
        return False

    def _parts_add_up(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """In a heartbeat, peers get GRAFT and PRUNE in turn; each also gets the parts for the peers before it."""
        named = [peer for peer, form in ours["rpcs"].items() if "graft" in form or "prune" in form]
        if step["event"] != "heartbeat" or len(named) < 2:
            return False
        own = [ours["rpcs"][peer] for peer in named]
        for_others = {kind: {topic for form in own for topic in form.get(kind, ())} for kind in ("graft", "prune")}
        gossip = {topic: {*ids} for form in own for topic, ids in form.get("ihave", {}).items()}
        found = False
        for peer in named:
            mine, other = ours["rpcs"][peer], theirs["rpcs"].get(peer, {})
            for kind, topics in for_others.items():
                more = {*other.get(kind, ())} - {*mine.get(kind, ())}
                if more and more <= topics:
                    kept = {topic: {} for topic in other[kind] if topic not in more}
                    other[kind] = kept if kind == "prune" else sorted(kept)
                    found = True
            for topic, ids in list(other.get("ihave", {}).items()):
                if topic not in mine.get("ihave", {}) and {*ids} <= gossip.get(topic, set()):
                    del other["ihave"][topic]
                    found = True
        return found

    def _no_gossip_in_backoff(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """A peer in backoff gets no IHAVE; a peer that would not be chosen otherwise may get it instead."""
        if step["event"] != "heartbeat":
            return False
        found = False
        for topic in {topic for form in ours["rpcs"].values() for topic in form.get("ihave", ())}:
            mine, other = _sent_to(ours, topic), _sent_to(theirs, topic)
            apart = {*theirs["backoffs"].get(topic, ())}
            lost, more = {*mine} - {*other}, {*other} - {*mine}
            same = len({tuple(ids) for ids in (*mine.values(), *other.values())}) == 1
            if lost and lost <= apart and not {*other} & apart and same and (not more or len(mine) == LAZY):
                for form in (*ours["rpcs"].values(), *theirs["rpcs"].values()):
                    form.get("ihave", {}).pop(topic, None)
                found = True
        return found


def _sent_to(seen: Seen, topic: str) -> dict[str, list[str]]:
    return {peer: form["ihave"][topic] for peer, form in seen["rpcs"].items() if topic in form.get("ihave", {})}


def _said(step: dict[str, Any], asked: str, answer: str, *sides: Seen) -> tuple[set[str], set[str]]:
    """Return the message ids in both sides' answers to a part of an RPC, or empty sets if this part is missing."""
    if not step.get("rpc", {}).get(asked):
        return set(), set()
    mine, other = ({*side["rpcs"].get(step["peer"], {}).get(answer, ())} for side in sides)
    return mine, other


def _say(step: dict[str, Any], answer: str, side: Seen, names: set[str]) -> None:
    form = side["rpcs"].setdefault(step["peer"], {})
    form[answer] = sorted(names)


def _flood_threshold(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """For ten seconds after its PRUNE, a peer's GRAFT is refused even if the backoff is shorter.

    The refusal does not extend the backoff.
    """
    peer = step.get("peer", "")
    answers = theirs["rpcs"].get(peer, {}).get("prune", {})
    refused = [topic for topic in step.get("rpc", {}).get("graft", ()) if topic in answers]
    return any(ours["backoffs"].get(topic, {}).get(peer, 0) > theirs["backoffs"].get(topic, {}).get(peer, 0)
               or peer in ours["mesh"].get(topic, ()) for topic in refused)  # fmt: skip


def _small_mesh(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """The PRUNEs of a heartbeat have no backoff, and no backoff begins."""
    if step["event"] != "heartbeat" or not same_peers(ours, theirs, "mesh", "fanout"):
        return False
    pruned = [(peer, topic) for peer, form in ours["rpcs"].items() for topic in form.get("prune", ())]
    same = [_without(side["rpcs"], "prune") for side in (ours, theirs)]
    return bool(pruned) and same[0] == same[1] and all(
        theirs["rpcs"].get(peer, {}).get("prune", {}).get(topic) == {}
        and peer not in theirs["backoffs"].get(topic, ()) for peer, topic in pruned
    )  # fmt: skip


def _scorer(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Each heartbeat grafts up to two more peers, which need not be better than the members."""
    more = {topic: {*peers} - {*ours["mesh"].get(topic, ())} for topic, peers in theirs["mesh"].items()}
    return step["event"] == "heartbeat" and 0 < max(map(len, more.values()), default=0) <= 2 and all(
        topic in theirs["rpcs"].get(peer, {}).get("graft", ()) for topic, peers in more.items() for peer in peers
    )  # fmt: skip


def _bare_unsubscribe(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A peer that unsubscribes stays in the mesh."""
    topics = step.get("rpc", {}).get("unsubscribe", ())
    stays = {topic: {*peers} - {*ours["mesh"].get(topic, ())} for topic, peers in theirs["mesh"].items()}
    return bool(topics) and all(peers <= {step["peer"]} for peers in stays.values()) and any(
        stays.get(topic) for topic in topics
    )  # fmt: skip


def _stranger_grafts(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A member that did not subscribe gets no messages of a topic without subscribers, and is not grafted again."""
    if step.get("rpc", {}).get("subscribe") and _adds_sender(step, ours, theirs, "subscribe"):
        return True
    if step["event"] in ("heartbeat", "join"):
        less = {topic: {*peers} - {*theirs["mesh"].get(topic, ())} for topic, peers in ours["mesh"].items()}
        if any(less.values()):
            return all(topic in ours["rpcs"].get(peer, {}).get("graft", ()) for topic in less for peer in less[topic])
    return same_peers(ours, theirs, "mesh", "fanout", "backoffs") and all(
        {*form.get("messages", ())} <= {*ours["rpcs"].get(peer, {}).get("messages", ())}
        for peer, form in theirs["rpcs"].items()
    )


def _floodsub_grafts(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """The GRAFT of a floodsub peer is accepted, or answered with PRUNE."""
    answers = theirs["rpcs"].get(step.get("peer", ""), {}).get("prune", {})
    grafts = step.get("rpc", {}).get("graft", ())
    return _adds_sender(step, ours, theirs, "graft") or any(topic in answers for topic in grafts)


def _adds_sender(step: dict[str, Any], ours: Seen, theirs: Seen, part: str) -> bool:
    """Return whether a topic that a part of an RPC names has the sender as its only additional member in `theirs`."""
    more = {topic: {*peers} - {*ours["mesh"].get(topic, ())} for topic, peers in theirs["mesh"].items()}
    return any(more.get(topic) == {step["peer"]} for topic in step.get("rpc", {}).get(part, ()))


def _any_publish(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A fan-out is filled at a publication and in a heartbeat, but not with peers in backoff.

    An empty fan-out stays empty.
    """
    if step["event"] not in ("publish", "heartbeat"):
        return False
    return same_peers(ours, theirs, "mesh", "backoffs") and not same_peers(ours, theirs, "fanout")


def _any_order(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """IHAVE and IWANT of an RPC are handled before its messages."""
    rpc, peer = step.get("rpc", {}), step.get("peer")
    others = [{name: form for name, form in side["rpcs"].items() if name != peer} for side in (ours, theirs)]
    return bool(rpc.get("messages") and rpc.get("ihave")) and others[0] == others[1] and same_peers(
        ours, theirs, "mesh", "fanout", "backoffs"
    )  # fmt: skip


def _repeated_while_asked(step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A copy of a message that waits for a verdict is sent to the application again."""
    return {*step.get("rpc", {}).get("messages", ())} >= {*theirs["validates"]} > {*ours["validates"]}


_ENDS: dict[str, Callable[[dict[str, Any], Seen, Seen], bool]] = {
    rule.__name__.removeprefix("_"): rule
    for rule in (
        _flood_threshold, _small_mesh, _scorer, _bare_unsubscribe, _stranger_grafts, _floodsub_grafts, _any_publish,
        _any_order, _repeated_while_asked,
    )
}  # fmt: skip


def _without(rpcs: dict[str, Any], kind: str) -> dict[str, Any]:
    rest = {peer: {name: said for name, said in form.items() if name != kind and said} for peer, form in rpcs.items()}
    return {peer: form for peer, form in rest.items() if form}
