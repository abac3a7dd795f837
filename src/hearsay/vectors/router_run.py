"""The execution of a vector of kind `router` on Hearsay's router. The actions of each step, and the changes of the
router's state, are compared with the expectations of the step.

The *form* of an RPC is an object of the vector that has the parts of the RPC by kind. A form has names of messages;
the vector has the messages by name. The order of parts is not compared.

Actions and changes that a step does not expect must not happen. If a router chooses peers at random, the step expects
a number of peers out of a set. If it chooses receivers of RPCs at random, backoffs are not compared.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearsay.core.language.actions import Action, Deliver, Dial, Send, Validate
from hearsay.core.language.events import (
    DirectPeerChosen,
    Event,
    Join,
    Leave,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    RpcReceived,
    TimerFired,
    Verdict,
)
from hearsay.core.language.rpc import (
    Control,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.contract import UsageError
from hearsay.core.shell.guarantees import Peering
from hearsay.core.shell.router import Router
from hearsay.text import escape
from hearsay.vectors.schema import Misshapen
from hearsay.vectors.score_run import NAMES, TOLERANCE, Step, are_close, made, peer_values, read_parameters

NODE = "self"
"""The peer id of the router under test, and the author of the messages that the router publishes."""


def to_rpc(form: Mapping[str, Any], messages: Mapping[str, Message]) -> Rpc:
    """Return the RPC with this form. `messages` has the messages of the vector by name. Raise `Misshapen` if a
    message is missing.
    """
    subscriptions = [Subscription(topic, True) for topic in form.get("subscribe", ())]
    subscriptions += [Subscription(topic, False) for topic in form.get("unsubscribe", ())]
    return Rpc(
        tuple(subscriptions),
        tuple(named(name, messages) for name in form.get("messages", ())),
        Control(
            ihave=tuple(IHave(topic, tuple(ids)) for topic, ids in form.get("ihave", {}).items()),
            iwant=(IWant(tuple(form["iwant"])),) if form.get("iwant") else (),
            graft=tuple(map(Graft, form.get("graft", ()))),
            prune=tuple(_prune(topic, said) for topic, said in form.get("prune", {}).items()),
            idontwant=(IDontWant(tuple(form["idontwant"])),) if form.get("idontwant") else (),
        ),
    )


def named(name: str, messages: Mapping[str, Message]) -> Message:
    """Return the message with this name. Raise `Misshapen` if the vector does not have the message."""
    if name not in messages:
        raise Misshapen("messages", f"{name!r}, which a step names, is missing")
    return messages[name]


def _prune(topic: str, said: Mapping[str, Any]) -> Prune:
    return Prune(topic, said.get("backoff"), tuple(map(PeerInfo, said.get("peers", ()))))


_KINDS = ("subscribe", "unsubscribe", "messages", "ihave", "iwant", "graft", "prune", "idontwant")


def to_form(rpcs: Iterable[Rpc]) -> dict[str, Any]:
    """Return one form with the parts of all these RPCs. Each part is in the form once, in ascending order."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    ihave: defaultdict[str, set[str]] = defaultdict(set)
    prune: dict[str, Any] = {}
    for rpc in rpcs:
        for change in rpc.subscriptions:
            names["subscribe" if change.subscribe else "unsubscribe"].add(str(change.topic))
        names["messages"].update(str(message.id) for message in rpc.messages)
        control = rpc.control or Control()
        for part in control.ihave:
            ihave[str(part.topic)].update(map(str, part.ids))
        for part in control.iwant:
            names["iwant"].update(map(str, part.ids))
        names["graft"].update(str(part.topic) for part in control.graft)
        prune |= {str(part.topic): _said(part) for part in control.prune}
        for part in control.idontwant:
            names["idontwant"].update(map(str, part.ids))
    found: dict[str, Any] = {kind: sorted(each) for kind, each in names.items()}
    found["ihave"] = {topic: sorted(ids) for topic, ids in sorted(ihave.items())}
    found["prune"] = dict(sorted(prune.items()))
    return {kind: found[kind] for kind in _KINDS if found.get(kind)}


def _said(prune: Prune) -> dict[str, Any]:
    backoff = {} if prune.backoff_s is None else {"backoff": prune.backoff_s}
    return backoff | ({"peers": sorted(str(each.peer) for each in prune.peers)} if prune.peers else {})


ByTopic = dict[str, list[str]]
_GIVEN = {*NAMES["router"].values(), "first_heartbeat_spread_ms", "score"}
_PRESETS = ROUTERS["gossipsub"].presets
_CHOICES = {"spec": {}, "go": {name: value for name, value in _PRESETS["go"].items() if name not in _GIVEN}}
"""The parameters of an implementation's preset, except parameters that vectors can have."""


@dataclass(slots=True)
class StepResult:
    """The result of a step: the actions of the router in the step, and its state after the step. Lists are in
    ascending order.
    """

    rpcs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    delivers: list[str] = field(default_factory=list[str])
    validates: list[str] = field(default_factory=list[str])
    dials: list[str] = field(default_factory=list[str])
    mesh: ByTopic = field(default_factory=dict[str, list[str]])
    fanout: ByTopic = field(default_factory=dict[str, list[str]])
    backoffs: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    scores: dict[str, float] = field(default_factory=dict[str, float])


def router_parameters(given: Mapping[str, Any], implementation: str) -> GossipsubParameters:
    """Return the parameters of the router. Parameters of the vector (`given`) replace those of the implementation,
    and these replace those of the specification.
    """
    values: dict[str, Any] = {**_PRESETS["spec"], "first_heartbeat_ms": 0, "first_heartbeat_spread_ms": 0}
    values |= {**_CHOICES[implementation], **read_parameters(given, "router")}
    if "max_ids_per_ihave" in values:
        values["max_ids_asked"] = values["max_ids_per_ihave"]
    values["accept_exchange"] = values.get("exchange_peers", 0) > 0
    if "Score" in given:
        score = given["Score"]
        values["score"] = {
            **peer_values(implementation),
            **read_parameters(score, "peer"),
            "thresholds": read_parameters(score.get("Thresholds", {}), "thresholds"),
            "topics": [_topic(name, own) for name, own in score.get("Topics", {}).items()],
        }
    return made(GossipsubParameters, values, tuple(NAMES), tuple(given.get("Score", {}).get("Topics", {})))


def _topic(name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    return {"topic": name, "validation": "selective", **read_parameters(own, "topic")}


class RouterRun:
    """A router that performs the steps of a vector, one call of `perform` for each."""

    def __init__(self, vector: Mapping[str, Any], implementation: str, seed: int = 1) -> None:
        self._strategy = Gossipsub(router_parameters(vector["parameters"], implementation))
        self._router = Router(NODE, self._strategy, Randomness(seed))
        self.messages = {
            name: Message(name, each["topic"], bytes(each["size"]), each.get("from"))
            for name, each in vector["messages"].items()
        }

    def deadline(self) -> int | None:
        """Return the time of the router's next timer in microseconds; None if no timer is set."""
        return self._router.deadline()

    def perform(self, step: Step, place: str) -> StepResult:
        """Pass the event of a step to the router, and return the result. `place` is the path of the step in the file.
        Raise `Misshapen` if the event is impossible.
        """
        try:
            actions = self._router.handle(self._event(step), step["at"])
        except UsageError as error:
            raise Misshapen(place, f"impossible event: {error}") from None
        return self._step_result(actions)

    def _event(self, step: Step) -> Event:
        peer: str = step.get("peer", "")
        match step["event"]:
            case "connect":
                address = step.get("address", "")
                return PeerConnected(peer, step["protocol"], (), address, step.get("outbound", False))
            case "disconnect":
                return PeerDisconnected(peer)
            case "join":
                return Join(step["topic"])
            case "leave":
                return Leave(step["topic"])
            case "publish":
                return Publish(named(step["message"], self.messages))
            case "rpc":
                return RpcReceived(peer, to_rpc(step["rpc"], self.messages))
            case "verdict":
                return MessageValidated(step["message"], Verdict(step["verdict"]))
            case "application_score":
                return PeerRated(peer, step["score"])
            case "direct":
                return DirectPeerChosen(peer, step["direct"])
            case _:
                return TimerFired()

    def _step_result(self, actions: list[Action]) -> StepResult:
        sent: dict[str, list[Rpc]] = {}
        seen = StepResult()
        for action in actions:
            match action:
                case Send():
                    sent.setdefault(str(action.peer), []).append(action.rpc)
                case Deliver():
                    seen.delivers.append(str(action.message.id))
                case Validate():
                    seen.validates.append(str(action.message.id))
                case Dial():
                    seen.dials.append(str(action.peer))
                case _:
                    pass
        for names in (seen.delivers, seen.validates, seen.dials):
            names.sort()
        seen.rpcs = {peer: to_form(rpcs) for peer, rpcs in sorted(sent.items())}
        for topic, peer, peering in sorted(self._strategy.peerings()):
            if peering is not Peering.METADATA_ONLY:
                kind = seen.mesh if peering is Peering.FULL_MESSAGE else seen.fanout
                kind.setdefault(str(topic), []).append(str(peer))
        for topic, peer, until in self._strategy.mesh.backoffs.ends():
            seen.backoffs.setdefault(str(topic), {})[str(peer)] = until
        seen.scores = {str(peer): parts.score for peer, parts in self._strategy.scores()}
        return seen


LONGEST_SHOWN = 400
Expected = Mapping[str, Any]


def changes(before: StepResult, now: StepResult) -> dict[str, Any]:
    """Return the actions of a step, and the parts of the state that the step changed, as an object with the keys of a
    step's expectations. Keys with an empty value are left out.
    """
    found: dict[str, Any] = {
        "rpcs": now.rpcs,
        "delivers": now.delivers,
        "validates": now.validates,
        "dials": now.dials,
        "mesh": _changed(before.mesh, now.mesh),
        "fanout": _changed(before.fanout, now.fanout),
        "backoffs": _prolonged(before.backoffs, now.backoffs),
        "scores": {peer: score for peer, score in now.scores.items() if score != before.scores.get(peer, 0.0)},
    }
    return {name: value for name, value in found.items() if value}


def _changed(before: ByTopic, now: ByTopic) -> ByTopic:
    topics = sorted({*before, *now})
    return {topic: now.get(topic, []) for topic in topics if before.get(topic, []) != now.get(topic, [])}


def _prolonged(before: dict[str, dict[str, int]], now: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the backoffs that began, or whose ends changed. Backoffs that are gone are left out, since a router may
    forget expired backoffs at any time.
    """
    found = {
        topic: {peer: end for peer, end in sorted(ends.items()) if before.get(topic, {}).get(peer) != end}
        for topic, ends in sorted(now.items())
    }
    return {topic: ends for topic, ends in found.items() if ends}


def run_router(vector: Mapping[str, Any], implementation: str) -> str | None:
    """Return a description of the first difference from the expectations of a vector of kind `router`; None without
    one.
    """
    run, before = RouterRun(vector, implementation), StepResult()
    for number, step in enumerate(vector["steps"]):
        now = run.perform(step, f"steps[{number}]")
        expected = step.get("differs", {}).get(implementation, step.get("expect", {}))
        for fault in faults(changes(before, now), expected, run.messages):
            return f"step {number}, {step['event']} at {step['at']} us: {fault}"
        before = now
    return None


def faults(found: Expected, expected: Expected, messages: Mapping[str, Message]) -> Iterator[str]:
    """Yield a description of each difference between the result of `changes` (`found`) and the expectations of a
    step.
    """
    yield from _rpc_faults(found.get("rpcs", {}), expected, messages)
    for name in ("delivers", "validates", "dials"):
        yield from _unequal(name, found.get(name, []), sorted(expected.get(name, [])))
    for name in ("mesh", "fanout"):
        drawn = expected.get(f"{name}_some", {})
        changed = {topic: peers for topic, peers in found.get(name, {}).items() if topic not in drawn}
        wanted = {topic: sorted(peers) for topic, peers in expected.get(name, {}).items()}
        yield from _unequal(name, changed, wanted)
        for topic, rule in drawn.items():
            peers = found.get(name, {}).get(topic, [])
            if len(peers) != rule["size"] or not set(rule["with"]) <= set(peers) <= set(rule["of"]):
                yield f"{name} of {topic} is {_shown(peers)}, not {_shown(rule)}"
    if not expected.get("some"):
        yield from _unequal("backoffs", found.get("backoffs", {}), expected.get("backoffs", {}))
    scores, wanted_scores = found.get("scores", {}), expected.get("scores", {})
    for peer in sorted({*scores, *wanted_scores}):
        if peer not in scores or peer not in wanted_scores:
            yield f"scores that change are {_shown(scores)}, not {_shown(wanted_scores)}"
        elif not are_close(scores[peer], wanted_scores[peer], TOLERANCE):
            yield f"the score of {peer} is {scores[peer]:.12g}, not {wanted_scores[peer]:.12g}"


def _rpc_faults(found: Mapping[str, Any], expected: Expected, messages: Mapping[str, Message]) -> Iterator[str]:
    """Yield a description of each difference between the RPCs that the router sent and the expected RPCs. `found` has
    for each peer one form, with the parts of all RPCs to the peer in the step.

    In the expectations, the key `rpcs` has the form for each peer to which the router must send. Each entry of the
    key `some` has a form, a set of peers (`among`), and the number of these peers to which the router must send the
    form (`count`). The router may not send to any other peer.
    """
    certain = {peer: to_form([to_rpc(form, messages)]) for peer, form in expected.get("rpcs", {}).items()}
    for peer in sorted(certain):
        yield from _unequal(f"what {peer} is sent", found.get(peer, {}), certain[peer])
    rest = {peer: rpc for peer, rpc in found.items() if peer not in certain}
    for group in expected.get("some", []):
        form = to_form([to_rpc(group["rpc"], messages)])
        members = [peer for peer in group["among"] if rest.get(peer) == form]
        if len(members) != group["count"]:
            yield f"{len(members)} of {_shown(group['among'])} are sent {_shown(form)}, not {group['count']}"
        rest = {peer: rpc for peer, rpc in rest.items() if peer not in members}
    for peer, rpc in rest.items():
        yield f"{peer} is sent {_shown(rpc)}, and should not"


def _unequal(what: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what}: {_shown(found)}, not {_shown(wanted)}"


def _shown(value: object) -> str:
    text = escape(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
