"""Known differences of go's router, each as narrow as possible.

The docstring of a difference describes go's router, unless it names Hearsay. If a difference changes only the sent
parts, `KnownDifferences` removes these parts from the results of the step, and the comparison goes on. A difference
of the routers' states ends the comparison of a sequence. `docs/benchmarks/differential.md` has the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from compare import same_peers
from go_sequences import FLOODSUB, NEWEST

from hearsay.vectors.score_run import TOLERANCE

Step = dict[str, Any]
Seen = dict[str, Any]


class KnownDifferences:
    """The known differences in one sequence: a call with a step removes them from the results of both sides."""

    def __init__(self, sequence: dict[str, Any]) -> None:
        self.more: str = sequence.get("more", "")
        self.parameters = sequence["parameters"]
        self.messages = sequence["messages"]
        self.names: Counter[str] = Counter()
        self.beats = 0
        self.direct: set[str] = set()
        self.connected: set[str] = set()
        self.protocols: dict[str, str] = {}
        self.had_old_protocol: set[str] = set()
        """Peers that were connected with a protocol before 1.3."""
        self.late: set[str] = set()
        """Messages that were accepted after their topic was left."""
        self.subscribed: set[tuple[str, str]] = set()
        self.strangers: set[tuple[str, str]] = set()
        """Pairs of a peer and a topic for which the peer sent GRAFT without a subscription."""
        self.unwanted: set[tuple[str, str]] = set()
        """Pairs of a peer and a message for which the peer sent IDONTWANT."""

    def __call__(self, step: Step, ours: Seen, theirs: Seen) -> tuple[Seen, Seen]:
        self._remember(step, theirs)
        ours, theirs = deepcopy(ours), deepcopy(theirs)
        for side in (ours, theirs):
            for ends in side["backoffs"].values():
                for peer in self.direct & {*ends}:
                    del ends[peer]
        for rule in (
            self._direct_dials, self._sends_the_unwanted, self._floods_not_to_all_members,
            self._gossips_before_prunes, self._names_after_prunes,
        ):  # fmt: skip
            if rule(step, ours, theirs):
                self.names[rule.__name__.removeprefix("_")] += 1
        return ours, theirs

    def _remember(self, step: Step, theirs: Seen) -> None:
        peer = step.get("peer", "")
        match step["event"]:
            case "heartbeat":
                self.beats += 1
            case "connect":
                self.connected.add(peer)
                self.protocols[peer] = step["protocol"]
                if step["protocol"] != NEWEST:
                    self.had_old_protocol.add(peer)
            case "disconnect":
                self.connected.discard(peer)
                for pairs in (self.unwanted, self.subscribed, self.strangers):
                    pairs.difference_update([each for each in pairs if each[0] == peer])
            case "verdict" if self.messages[step["message"]]["topic"] not in theirs["mesh"]:
                self.late.add(step["message"])
            case "direct":
                (self.direct.add if step["direct"] else self.direct.discard)(peer)
            case "rpc":
                rpc = step["rpc"]
                self.unwanted.update((peer, name) for name in rpc.get("idontwant", ()))
                self.subscribed.update((peer, topic) for topic in rpc.get("subscribe", ()))
                self.subscribed.difference_update((peer, topic) for topic in rpc.get("unsubscribe", ()))
                self.strangers.update({(peer, topic) for topic in rpc.get("graft", ())} - self.subscribed)
            case _:
                pass

    def _direct_dials(self, step: Step, ours: Seen, theirs: Seen) -> bool:
        """Direct peers are dialled in the last heartbeat of an interval, and not in the first."""
        if step["event"] != "heartbeat":
            return False
        away = sorted(self.direct - self.connected)
        every = self.parameters.get("DirectConnectTicks", 300)
        found = False
        for side, beat in ((ours, 1), (theirs, 0)):
            if away and self.beats % every == beat % every and side["dials"] == away:
                side["dials"], found = [], True
        return found

    def _sends_the_unwanted(self, step: Step, ours: Seen, theirs: Seen) -> bool:
        """Direct peers get messages in spite of their IDONTWANT, and all members get flooded own messages."""
        flooded = step["event"] == "publish" and self.parameters.get("FloodPublish", True)
        found = False
        for peer, form in theirs["rpcs"].items():
            if not flooded and (peer not in self.direct or peer == step.get("peer")):
                continue
            extra = {*form.get("messages", ())} - {*ours["rpcs"].get(peer, {}).get("messages", ())}
            if extra and all((peer, name) in self.unwanted for name in extra):
                form["messages"] = [name for name in form["messages"] if name not in extra]
                found = True
        return found

    def _floods_not_to_all_members(self, step: Step, ours: Seen, theirs: Seen) -> bool:
        """A flooded own message is not sent to members with a score below the publish threshold."""
        least = self.parameters.get("Score", {}).get("Thresholds", {}).get("PublishThreshold", 0)
        if step["event"] != "publish" or not self.parameters.get("FloodPublish", True):
            return False
        found = False
        for peer, form in ours["rpcs"].items():
            extra = {*form.get("messages", ())} - {*theirs["rpcs"].get(peer, {}).get("messages", ())}
            if (
                extra
                and theirs["scores"].get(peer, 0) < least
                and any(peer in mesh for mesh in theirs["mesh"].values())
            ):
                form["messages"] = [name for name in form["messages"] if name not in extra]
                found = True
        return found

    def _gossips_before_prunes(self, step: Step, ours: Seen, theirs: Seen) -> bool:
        """A heartbeat sends the IHAVE of a topic before it prunes the next topic, which may lower a peer's score."""
        pruned = {peer for peer, form in ours["rpcs"].items() if "prune" in form}
        if step["event"] != "heartbeat" or not pruned:
            return False
        found = False
        for topic in sorted({topic for form in theirs["rpcs"].values() for topic in form.get("ihave", ())}):
            mine, other = _sent_to(ours, topic), _sent_to(theirs, topic)
            if other - mine and other - mine <= pruned and (mine < other or len(mine) == len(other)):
                for form in (*ours["rpcs"].values(), *theirs["rpcs"].values()):
                    form.get("ihave", {}).pop(topic, None)
                found = True
        return found

    def ending_difference(self, step: Step, ours: Seen, theirs: Seen) -> str:
        """Return the name of the known difference that makes the states differ in a step, or an empty string."""
        names = [*_ANYWHERE, *([self.more] if self.more in _ENDS else [])]
        return next((name for name in names if _ENDS[name](self, step, ours, theirs)), "")

    def _names_after_prunes(self, step: Step, ours: Seen, theirs: Seen) -> bool:
        """A heartbeat first prunes, which may lower scores, and then chooses the peers that its PRUNEs name."""
        pruned = {peer for peer, form in ours["rpcs"].items() if "prune" in form}
        found = False
        for peer in pruned if step["event"] == "heartbeat" else ():
            for topic, said in ours["rpcs"][peer]["prune"].items():
                answer = theirs["rpcs"].get(peer, {}).get("prune", {}).get(topic, {})
                mine, other = {*said.get("peers", ())}, {*answer.get("peers", ())}
                if mine - other and mine - other <= pruned and len(other) <= len(mine):
                    said["peers"] = answer["peers"] = sorted(mine & other)
                    found = True
        return found


def _sent_to(seen: Seen, topic: str) -> set[str]:
    return {peer for peer, form in seen["rpcs"].items() if topic in form.get("ihave", {})}


def _empty_fanout(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A publication without recipients makes no fan-out; Hearsay makes one, and a heartbeat fills it."""
    more = {topic for topic, peers in ours["fanout"].items() if peers} - {*theirs["fanout"]}
    return step["event"] == "heartbeat" and bool(more) and same_peers(ours, theirs, "mesh", "backoffs")


def _bare_unsubscribe(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A peer that unsubscribes stays in the mesh if its PRUNE is missing or refused."""
    return _more(step, ours, theirs, "mesh", "unsubscribe")


def _direct_peers(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """IHAVE and IWANT of a direct peer with a low score get no answer."""
    return step.get("peer") in run.direct and _is_unanswered_gossip(step, ours, theirs)


def _floodsub_grafts(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """The GRAFT of a floodsub peer is accepted, or answered with PRUNE."""
    peer, grafts = step.get("peer", ""), step.get("rpc", {}).get("graft", ())
    answers = theirs["rpcs"].get(peer, {}).get("prune", {})
    return run.protocols.get(peer) == FLOODSUB and (
        _more(step, ours, theirs, "mesh", "graft") or any(topic in answers for topic in grafts)
    )


def _stranger_grafts(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A peer that sent GRAFT without a subscription is a member of the mesh, but no subscriber."""
    strangers = {peer for peer, _ in run.strangers}
    differing = {peer for peer in {*ours["rpcs"], *theirs["rpcs"]}
                 if _filled(ours["rpcs"].get(peer)) != _filled(theirs["rpcs"].get(peer))}  # fmt: skip
    changed = {peer for kind in ("mesh", "fanout") for topic in {*ours[kind], *theirs[kind]}
               for peer in {*ours[kind].get(topic, ())} ^ {*theirs[kind].get(topic, ())}}  # fmt: skip
    named = {peer for form in ours["rpcs"].values() for said in form.get("prune", {}).values()
             for peer in said.get("peers", ())}  # fmt: skip
    return bool(strangers & (differing | changed | (named if differing else set())))


def _fanout_unsubscribe(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A peer that unsubscribes stays in the fan-out until the heartbeat."""
    return _more(step, ours, theirs, "fanout", "unsubscribe")


def _leave_while_asked(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A message that is accepted after its topic was left is sent to a fan-out, scored and cached."""
    if step["event"] == "verdict" and run.messages[step["message"]]["topic"] not in theirs["mesh"]:
        return True
    return bool(run.late & {*step.get("rpc", {}).get("iwant", ())})


def _foreign_ids(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """The ids of all IHAVEs of an RPC are one set; a message of a topic that is not joined fulfils no promise."""
    peer = step.get("peer", "")
    mine, other = (side["rpcs"].get(peer, {}).get("iwant") for side in (ours, theirs))
    asked = bool(step.get("rpc", {}).get("ihave")) and mine != other
    return asked or ours["scores"] != theirs["scores"]


def _old_extensions(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A late extensions control also lowers the score of a peer with an older version.

    If such a peer reconnects, its next RPC does not count as its first.
    """
    old = "extensions" in step.get("rpc", {}) and step["peer"] in run.had_old_protocol
    return old and theirs["scores"][step["peer"]] < ours["scores"][step["peer"]]


def _leaving_first(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A member that unsubscribes leaves the mesh by its PRUNE, after the rest of the RPC is handled."""
    peer, rpc = step.get("peer", ""), step.get("rpc", {})
    others = [{name: form for name, form in side["rpcs"].items() if name != peer} for side in (ours, theirs)]
    return (
        "unsubscribe" in rpc
        and "prune" in rpc
        and others[0] == others[1]
        and same_peers(ours, theirs, "mesh", "fanout")
    )


def _unheard_first_rpc(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """An ignored RPC of a graylisted peer does not count as the peer's first RPC.

    So an extensions control in the next RPC is not late.
    """
    return "extensions" in step.get("rpc", {}) and _lower(ours, theirs)


def _member_becomes_direct(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """A member that becomes a direct peer stays in the mesh and in the fan-out."""
    stays = {each for kind in ("mesh", "fanout") for each in {*_members(theirs, kind)} - {*_members(ours, kind)}}
    return step["event"] == "direct" and {peer for _, peer in stays} == {step["peer"]}


def _ihave_limit(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """Each RPC with a control part counts as an IHAVE."""
    return "ihave" in step.get("rpc", {}) and _is_unanswered_gossip(step, ours, theirs)


def _forget_at_once(run: KnownDifferences, step: Step, ours: Seen, theirs: Seen) -> bool:
    """With a retention of 0 seconds, a score is kept until the next decay."""
    return step["event"] in ("connect", "disconnect") and _lower(theirs, ours)


_ANYWHERE = (
    "empty_fanout", "bare_unsubscribe", "direct_peers", "old_extensions", "unheard_first_rpc",
    "leaving_first",
)  # fmt: skip
"""Differences that any sequence may have: effects of low scores, direct peers and changes of protocols."""
_ENDS: dict[str, Callable[[KnownDifferences, Step, Seen, Seen], bool]] = {
    rule.__name__.removeprefix("_"): rule
    for rule in (
        _empty_fanout, _bare_unsubscribe, _direct_peers, _floodsub_grafts, _stranger_grafts, _fanout_unsubscribe,
        _leave_while_asked, _foreign_ids, _old_extensions, _unheard_first_rpc, _leaving_first,
        _member_becomes_direct, _ihave_limit, _forget_at_once,
    )
}  # fmt: skip


def _members(seen: Seen, kind: str = "mesh") -> list[tuple[str, str]]:
    return [(topic, peer) for topic, peers in seen[kind].items() for peer in peers]


def _more(step: Step, ours: Seen, theirs: Seen, kind: str, part: str) -> bool:
    """Return whether go's only additional peer is the sender of an RPC, in topics that a part of this RPC names."""
    more = {*_members(theirs, kind)} - {*_members(ours, kind)}
    named = {(topic, step.get("peer", "")) for topic in step.get("rpc", {}).get(part, ())}
    return bool(more) and more <= named


def _is_unanswered_gossip(step: Step, ours: Seen, theirs: Seen) -> bool:
    """Return whether the only difference is that Hearsay answers an IHAVE or IWANT and go does not."""
    rpc, peer = step.get("rpc", {}), step.get("peer", "")
    mine, other = (side["rpcs"].get(peer, {}) for side in (ours, theirs))
    lost = [answer for asked, answer in (("ihave", "iwant"), ("iwant", "messages"))
            if rpc.get(asked) and mine.get(answer) and not other.get(answer)]  # fmt: skip
    others = [{name: form for name, form in side["rpcs"].items() if name != peer} for side in (ours, theirs)]
    return bool(lost) and others[0] == others[1] and same_peers(ours, theirs, "mesh", "fanout", "backoffs")


def _lower(theirs: Seen, ours: Seen) -> bool:
    """Return whether all scores that differ are lower in `theirs`."""
    peers = {*ours["scores"], *theirs["scores"]}
    gaps = [theirs["scores"].get(peer, 0.0) - ours["scores"].get(peer, 0.0) for peer in peers]
    return min(gaps, default=0.0) < -TOLERANCE and max(gaps) < TOLERANCE


def _filled(form: Any) -> dict[str, Any]:
    return {part: said for part, said in (form or {}).items() if said}
