"""Known differences of libp2p-gossipsub (Rust), each as narrow as possible.

The docstring of a difference describes the Rust router. If a difference changes only the sent parts,
`KnownDifferences` removes these parts from the results of the step, and the comparison goes on. A difference of the
routers' states ends the comparison of a sequence. `docs/benchmarks/differential.md` has the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from compare import same_peers
from rust_sequences import FLOODSUB, OLD, SECOND

from hearsay.vectors.score_run import TOLERANCE

SEEN_TTL = 60 * SECOND
Seen = dict[str, Any]


class KnownDifferences:
    """The known differences in one sequence: a call with a step removes them from the results of both sides."""

    def __init__(self, sequence: dict[str, Any]) -> None:
        self.sequence = sequence
        self.names: Counter[str] = Counter()
        self.unwanted: set[tuple[str, str]] = set()
        """Pairs of a peer and a message for which the peer sent IDONTWANT."""
        self.asked: set[tuple[str, str]] = set()
        """Pairs of a peer and a message that Hearsay requested from it."""
        self.asked_before: set[tuple[str, str]] = set()
        """The same pairs before the step."""
        self.subscribed: set[tuple[str, str]] = set()
        self.subscribed_before: set[tuple[str, str]] = set()
        """Subscriptions before the step."""
        self.fanout: dict[str, list[str]] = {}
        """Hearsay's fan-out before the step."""
        self.direct: set[str] = set()
        self.beats = 0
        self.protocols: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.gone: set[str] = set()
        self.joined: set[str] = set()
        self.first_at: dict[str, int] = {}
        """Time of the first copy of each message."""
        self.old: set[str] = set()
        """Messages whose first copy came more than `SEEN_TTL` ago."""
        self.came: dict[str, int] = {}
        """Number of heartbeats before the first copy of a message from a peer, by message."""
        self.foreign: set[str] = set()
        """Messages that came while their topic was not joined."""
        self.slow: set[str] = set()
        """Messages whose verdict came after a heartbeat, or after the topic was left."""
        self.lonely: set[str] = set()
        """Own messages that were sent to no peer."""

    def __call__(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> tuple[Seen, Seen]:
        self.old = {name for name, at in self.first_at.items() if step["at"] - at > SEEN_TTL}
        self._remember(step, ours, theirs)
        ours, theirs = deepcopy(ours), deepcopy(theirs)
        for rule in (
            self._idontwant_of_authors, self._idontwant_of_own, self._idontwant_of_promised,
            self._publishes_the_unwanted, self._publishes_past_members, self._dials_direct_peers,
            self._names_by_new_scores, self._gossips_by_old_scores,
        ):  # fmt: skip
            if rule(step, ours, theirs):
                self.names[rule.__name__.removeprefix("_")] += 1
        self.fanout = ours["fanout"]
        self._remember_subscriptions(step)
        return ours, theirs

    def _remember(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> None:
        peer, rpc = step.get("peer", ""), step.get("rpc", {})
        self.asked_before = {*self.asked}
        self.unwanted.update((peer, name) for name in rpc.get("idontwant", ()))
        self.asked.update((each, name) for each, form in ours["rpcs"].items() for name in form.get("iwant", ()))
        match step["event"]:
            case "heartbeat":
                self.beats += 1
            case "direct":
                self.direct.add(peer)
            case "connect":
                self.protocols[peer], self.addresses[peer] = step["protocol"], step["address"]
                self.gone.discard(peer)
            case "disconnect":
                self.gone.add(peer)
            case "join":
                self.joined.add(step["topic"])
            case "leave":
                self.joined.discard(step["topic"])
            case "publish" if not _sent(theirs, step["message"]):
                self.lonely.add(step["message"])
            case _:
                pass
        for name in (*rpc.get("messages", ()), *([step["message"]] if step["event"] == "publish" else [])):
            self.first_at.setdefault(name, step["at"])
        for name in rpc.get("messages", ()):
            self.came.setdefault(name, self.beats)
            if self.topic_of(name) not in self.joined:
                self.foreign.add(name)
        if step["event"] == "verdict":
            name = step["message"]
            if self.topic_of(name) not in self.joined or self.came.get(name, self.beats) < self.beats:
                self.slow.add(name)

    def _remember_subscriptions(self, step: dict[str, Any]) -> None:
        peer, rpc = step.get("peer", ""), step.get("rpc", {})
        self.subscribed_before = {*self.subscribed}
        self.subscribed.update((peer, topic) for topic in rpc.get("subscribe", ()))
        self.subscribed.difference_update((peer, topic) for topic in rpc.get("unsubscribe", ()))
        if step["event"] == "disconnect":
            self.subscribed = {each for each in self.subscribed if each[0] != peer}

    @property
    def publish_threshold(self) -> float:
        return self.sequence["parameters"].get("Score", {}).get("Thresholds", {}).get("PublishThreshold", 0.0)

    def topic_of(self, name: str) -> str:
        return self.sequence["messages"][name]["topic"]

    def author_is_self(self, name: str) -> bool:
        return self.sequence["messages"][name].get("from") == "self"

    def _idontwant_of_authors(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IDONTWANT does not go to the author of a message."""
        found = False
        for name in step.get("rpc", {}).get("messages", ()):
            author = self.sequence["messages"][name].get("from")
            if author in _sent_to(ours, name) - _sent_to(theirs, name):
                ours["rpcs"][author]["idontwant"].remove(name)
                found = True
        return found

    def _idontwant_of_own(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IDONTWANT is also sent for messages with the router as author that other peers sent."""
        found = False
        for name in step.get("rpc", {}).get("messages", ()):
            if self.author_is_self(name) and not _sent_to(ours, name):
                for peer in _sent_to(theirs, name):
                    theirs["rpcs"][peer]["idontwant"].remove(name)
                    found = True
        return found

    def _idontwant_of_promised(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """IDONTWANT is also sent to peers from which the message was requested."""
        found = False
        for name in step.get("rpc", {}).get("messages", ()):
            more = _sent_to(theirs, name) - _sent_to(ours, name)
            if more and all((peer, name) in self.asked for peer in more):
                for peer in more:
                    theirs["rpcs"][peer]["idontwant"].remove(name)
                found = True
        return found

    def _publishes_the_unwanted(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """An own message is sent to peers in spite of their IDONTWANT."""
        name = step.get("message", "")
        if step["event"] != "publish":
            return False
        more = {peer for peer in _sent(theirs, name) - _sent(ours, name) if (peer, name) in self.unwanted}
        for peer in more:
            theirs["rpcs"][peer]["messages"].remove(name)
        return bool(more)

    def _publishes_past_members(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """An own message is sent to other peers instead of the members with a score below `publish`."""
        name = step.get("message", "")
        if step["event"] != "publish" or "Score" not in self.sequence["parameters"]:
            return False
        members = {*ours["mesh"].get(self.topic_of(name), ())}
        less, more = _sent(ours, name) - _sent(theirs, name), _sent(theirs, name) - _sent(ours, name)
        poor = {peer for peer in members if ours["scores"][peer] < self.publish_threshold}
        if not less or not less <= poor or len(more) > len(poor) or more & poor:
            return False
        for side, peers in ((ours, less), (theirs, more)):
            for peer in peers:
                side["rpcs"][peer]["messages"].remove(name)
        return True

    def _dials_direct_peers(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """A direct peer is dialled when it becomes direct, and not in the first heartbeat."""
        found = step["event"] == "direct" and theirs["dials"] == [step["peer"]]
        if found or (step["event"] == "heartbeat" and self.beats == 1):
            for side in (ours, theirs):
                side["dials"] = [peer for peer in side["dials"] if peer not in self.direct]
        return found

    def _names_by_new_scores(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """A PRUNE of a heartbeat does not name a peer whose score became negative by its own PRUNE just before."""
        pruned = {peer for peer, form in theirs["rpcs"].items() if form.get("prune")}
        found = False
        for peer in pruned if step["event"] == "heartbeat" else ():
            for topic, said in theirs["rpcs"][peer]["prune"].items():
                mine = ours["rpcs"].get(peer, {}).get("prune", {}).get(topic, {})
                less = {*mine.get("peers", ())} - {*said.get("peers", ())}
                if less and less <= {other for other in pruned if theirs["scores"].get(other, 0.0) < 0}:
                    mine["peers"] = [other for other in mine["peers"] if other not in less]
                    found = True
        return found

    def _gossips_by_old_scores(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
        """For a peer that a heartbeat prunes, its score before the PRUNE decides if it gets IHAVE.

        So there may be other candidates for a topic's gossip, and the choice of all peers for this topic may differ.
        """
        if step["event"] != "heartbeat" or "Score" not in self.sequence["parameters"]:
            return False
        topics: set[str] = set()
        for peer, form in theirs["rpcs"].items():
            mine = ours["rpcs"].get(peer, {})
            if form.get("prune") and mine.get("prune") and bool(form.get("ihave")) != bool(mine.get("ihave")):
                topics |= {*form.get("ihave", ()), *mine.get("ihave", ())}
        for side in (ours, theirs):
            _remove_gossip(side["rpcs"], topics)
        return bool(topics)

    def ending_difference(self, step: dict[str, Any], ours: Seen, theirs: Seen) -> str:
        """Return the name of the known difference that makes the states differ in a step, or an empty string."""
        return next((name for name, rule in _ENDS.items() if rule(self, step, ours, theirs)), "")


def _remove_gossip(rpcs: dict[str, Any], topics: set[str]) -> None:
    for peer, form in [*rpcs.items()]:
        for topic in topics & {*form.get("ihave", ())}:
            del form["ihave"][topic]
        if form.get("ihave") == {}:
            del form["ihave"]
        if not form:
            del rpcs[peer]


def _sent(side: Seen, name: str) -> set[str]:
    return {peer for peer, form in side["rpcs"].items() if name in form.get("messages", ())}


def _sent_to(side: Seen, name: str) -> set[str]:
    return {peer for peer, form in side["rpcs"].items() if name in form.get("idontwant", ())}


def _short_fanout(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A publication replaces the peers of a fan-out with fewer than D peers, and forgets the old ones."""
    if step["event"] != "publish" or not same_peers(ours, theirs, "mesh"):
        return False
    topic = known.topic_of(step["message"])
    before, after = known.fanout.get(topic, []), theirs["fanout"].get(topic, [])
    able = [peer for peer in before if ours["scores"].get(peer, 0.0) >= known.publish_threshold]
    return bool(before) and len(able) < known.sequence["parameters"]["D"] and not {*before} & {*after}


def _grafts_pruned_peers(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A heartbeat grafts a peer that it has just pruned, and sends it both GRAFT and PRUNE."""
    both = {(peer, topic) for peer, form in theirs["rpcs"].items() for topic in form.get("graft", ())
            if topic in form.get("prune", {})}  # fmt: skip
    return step["event"] == "heartbeat" and any(peer not in ours["mesh"].get(topic, ()) for peer, topic in both)


def _old_peers(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """No backoff begins for a pruned peer with protocol 1.0."""
    more = {(topic, peer) for topic, ends in ours["backoffs"].items() for peer, end in ends.items()
            if end > max(step["at"], _backoff(theirs, topic, peer))}  # fmt: skip
    return (
        bool(more)
        and all(known.protocols.get(peer) == OLD for _, peer in more)
        and same_peers(ours, theirs, "mesh", "fanout")
    )


def _zero_backoff(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A PRUNE with a backoff of 0 begins no backoff."""
    topics = [topic for topic, said in step.get("rpc", {}).get("prune", {}).items() if said.get("backoff") == 0]
    peer = step.get("peer", "")
    return any(_backoff(ours, topic, peer) > _backoff(theirs, topic, peer) for topic in topics)


def _long_pause(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A seen id is forgotten only when another message comes, and then even if its message waits for a verdict."""
    return _names_differ(ours, theirs, known.old)


def _direct_peer_is_judged(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Thresholds and the limit of IHAVEs apply to direct peers, too."""
    peer = step.get("peer", "")
    if peer not in known.direct or not _worse(ours, theirs) <= {peer}:
        return False
    gossip = known.sequence["parameters"].get("Score", {}).get("Thresholds", {}).get("GossipThreshold", 0)
    names = {name for ids in step.get("rpc", {}).get("ihave", {}).values() for name in ids}
    return theirs["scores"].get(peer, 0.0) < gossip or _names_differ(ours, theirs, names, "iwant")


def _counts_the_unwanted(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """An IWANT for a message for which the peer sent IDONTWANT counts as answered."""
    names = {name for peer, name in known.unwanted if peer == step.get("peer")}
    asked = {*step.get("rpc", {}).get("iwant", ())}
    return _names_differ(ours, theirs, names & asked, "messages") and not _worse(ours, theirs)


def _other_topics(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Messages of topics that are not joined are validated, cached and seen, and sent in answer to IWANT."""
    if {*step.get("rpc", {}).get("messages", ())} & known.foreign and _worse(ours, theirs) == {step["peer"]}:
        return True
    different = {*_named(ours)} ^ {*_named(theirs)}
    sampled = bool(different) and all(kind == "ihave" for kind, _, _ in different)
    return (sampled and any(name in known.foreign for _, _, name in different)) or _names_differ(
        ours, theirs, known.foreign
    )


def _slow_verdict(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """The gossip windows of a message begin at its arrival, not at its verdict.

    A verdict after the last window has no effect. A verdict after the topic was left has an effect.
    """
    if (
        step.get("message") in known.slow
        and same_peers(ours, theirs, "mesh", "fanout")
        and ours["scores"] != theirs["scores"]
    ):
        return True
    return _names_differ(ours, theirs, known.slow)


def _lonely_publish(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A message without recipients is not published: it is neither cached nor seen."""
    return _names_differ(ours, theirs, known.lonely)


def _ihave_limit(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """An IHAVE may have any number of ids; only the number of requested ids is limited."""
    names = {name for ids in step.get("rpc", {}).get("ihave", {}).values() for name in ids}
    return len(names) > known.sequence["parameters"]["MaxIHaveLength"] and _names_differ(ours, theirs, names, "iwant")


def _promises_without_scores(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Without scores a promise never ends, so a requested id is not requested again. Other ids may replace it."""
    before = {name for _, name in known.asked_before}
    different = {*_named(ours)} ^ {*_named(theirs)}
    asked = all(kind == "iwant" and peer == step.get("peer") for kind, peer, _ in different)
    again = any(name in before and (kind, peer, name) in {*_named(ours)} for kind, peer, name in different)
    return "Score" not in known.sequence["parameters"] and asked and again


def _subscribes_again(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Each SUBSCRIBE may be answered with GRAFT, not only the first."""
    ours_to, theirs_to = (side["rpcs"].get(step.get("peer", ""), {}).get("graft", ()) for side in (ours, theirs))
    more = {*theirs_to} - {*ours_to}
    again = {
        topic
        for topic in step.get("rpc", {}).get("subscribe", ())
        if (step["peer"], topic) in known.subscribed_before
    }
    return bool(more) and more <= again


def _floodsub_control(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """GRAFT and IDONTWANT of a floodsub peer are accepted."""
    floods = {peer for peer, protocol in known.protocols.items() if protocol == FLOODSUB}
    unwanted = {name for peer, name in known.unwanted if peer in floods}
    answers = theirs["rpcs"].get(step.get("peer", ""), {}).get("prune", {})
    grafts = step.get("rpc", {}).get("graft", ())
    if step.get("peer") in floods and (
        _adds_sender(step, ours, theirs, "graft") or any(topic in answers for topic in grafts)
    ):
        return True
    return _names_differ(ours, theirs, unwanted, "messages")


def _own_promised(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A message with the router as author fulfils no promise."""
    peers = {peer for peer, name in known.asked if known.author_is_self(name)}
    worse = _worse(ours, theirs)
    return step["event"] == "heartbeat" and bool(worse) and worse <= peers


def _retained_address(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """A disconnected peer does not count at its address."""
    gone = {known.addresses[peer] for peer in known.gone}
    better = _worse(theirs, ours)
    return bool(better) and all(known.addresses.get(peer) in gone for peer in better)


def _no_retention(known: KnownDifferences, step: dict[str, Any], ours: Seen, theirs: Seen) -> bool:
    """Retained scores are deleted only at a decay, even if they are retained for 0 seconds."""
    parameters = known.sequence["parameters"].get("Score", {})
    different = _worse(ours, theirs) | _worse(theirs, ours)
    return step["event"] == "connect" and parameters.get("RetainScore") == 0 and different == {step["peer"]}


_ENDS: dict[str, Callable[[KnownDifferences, dict[str, Any], Seen, Seen], bool]] = {
    rule.__name__.removeprefix("_"): rule
    for rule in (
        _short_fanout, _grafts_pruned_peers, _old_peers, _other_topics, _slow_verdict, _lonely_publish,
        _ihave_limit, _direct_peer_is_judged, _counts_the_unwanted, _long_pause, _promises_without_scores,
        _zero_backoff, _subscribes_again, _floodsub_control, _own_promised, _retained_address, _no_retention,
    )
}  # fmt: skip


def _names_differ(ours: Seen, theirs: Seen, names: set[str], *kinds: str) -> bool:
    """Return whether all differences in messages, requests and deliveries are about these messages and kinds."""
    different = {*_named(ours)} ^ {*_named(theirs)}
    return bool(different) and all(name in names and (not kinds or kind in kinds) for kind, _, name in different)


def _backoff(side: Seen, topic: str, peer: str) -> int:
    return side["backoffs"].get(topic, {}).get(peer, 0)


def _named(side: Seen) -> Iterator[tuple[str, str, str]]:
    for kind in ("delivers", "validates"):
        yield from ((kind, "", name) for name in side[kind])
    for peer, form in side["rpcs"].items():
        for kind in ("messages", "iwant", "idontwant"):
            yield from ((kind, peer, name) for name in form.get(kind, ()))
        for topic, names in form.get("ihave", {}).items():
            yield from (("ihave", f"{peer} {topic}", name) for name in names)


def _worse(ours: Seen, theirs: Seen) -> set[str]:
    """Return the peers whose score is lower in `theirs`."""
    return {peer for peer, score in ours["scores"].items() if theirs["scores"].get(peer, 0.0) < score - TOLERANCE}


def _adds_sender(step: dict[str, Any], ours: Seen, theirs: Seen, part: str) -> bool:
    """Return whether a topic that a part of an RPC names has the sender as its only additional member in `theirs`."""
    more = {topic: {*peers} - {*ours["mesh"].get(topic, ())} for topic, peers in theirs["mesh"].items()}
    return any(more.get(topic) == {step["peer"]} for topic in step.get("rpc", {}).get(part, ()))
