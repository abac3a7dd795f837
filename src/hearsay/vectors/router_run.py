"""A router that a vector drives: what it does in each step, and its state afterwards.

RPCs in vectors have parts by kind, messages by name, and no order where the protocol has none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
from hearsay.core.language.state import Peering
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.shell.contract import UsageError
from hearsay.core.shell.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.vectors.schema import Misshapen
from hearsay.vectors.score_run import NAMES, Step, made, peer_values, read_parameters

NODE = "self"
"""The router under test; its own messages are from it."""


def to_rpc(form: Mapping[str, Any], messages: Mapping[str, Message]) -> Rpc:
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
    if name not in messages:
        raise Misshapen("messages", f"{name!r} is missing, which a step names")
    return messages[name]


def _prune(topic: str, said: Mapping[str, Any]) -> Prune:
    return Prune(topic, said.get("backoff"), tuple(map(PeerInfo, said.get("peers", ()))))


_KINDS = ("subscribe", "unsubscribe", "messages", "ihave", "iwant", "graft", "prune", "idontwant")


def to_form(rpcs: Iterable[Rpc]) -> dict[str, Any]:
    """Return the content of RPCs together."""
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


def sorted_form(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return an RPC of a file in the order of `to_form`, without empty parts."""
    return {kind: _sorted(parts) for kind, parts in form.items() if parts}


def _sorted(parts: Any) -> Any:
    if isinstance(parts, Mapping):
        return {str(name): _sorted(each) for name, each in parts.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return sorted(parts) if isinstance(parts, list) else parts  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


ByTopic = dict[str, list[str]]
_GIVEN = {*NAMES["router"].values(), "first_heartbeat_spread_ms", "score"}


def _choices(preset: Mapping[str, object]) -> dict[str, object]:
    """Where an implementation's router differs from the specification in what vectors do not set."""
    return {name: value for name, value in preset.items() if name not in _GIVEN}


_PRESETS = ROUTERS["gossipsub"].presets
_CHOICES = {"spec": {}, "go": _choices(_PRESETS["go"])}


@dataclass(slots=True)
class Seen:
    """The result of a step: actions of the router, and its state after it."""

    rpcs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    delivers: list[str] = field(default_factory=list[str])
    validates: list[str] = field(default_factory=list[str])
    dials: list[str] = field(default_factory=list[str])
    mesh: ByTopic = field(default_factory=dict[str, list[str]])
    fanout: ByTopic = field(default_factory=dict[str, list[str]])
    backoffs: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    scores: dict[str, float] = field(default_factory=dict[str, float])


def router_parameters(given: Mapping[str, Any], implementation: str) -> GossipsubParameters:
    """The specification's, what the vector says in their place, and the implementation's choices."""
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
    def __init__(self, vector: Mapping[str, Any], implementation: str, seed: int = 1) -> None:
        self._strategy = Gossipsub(router_parameters(vector["parameters"], implementation))
        self._router = Router(NODE, self._strategy, Randomness(seed))
        self._messages = {
            name: Message(name, each["topic"], bytes(each["size"]), each.get("from"))
            for name, each in vector["messages"].items()
        }

    def deadline(self) -> int | None:
        """Return the time of the router's next timer."""
        return self._router.deadline()

    def perform(self, step: Step, place: str) -> Seen:
        """Return the result of a step; raise `Misshapen` for one that is not possible."""
        try:
            actions = self._router.handle(self._event(step), step["at"])
        except UsageError as error:
            raise Misshapen(place, f"cannot be: {error}") from None
        return self._seen(actions)

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
                return Publish(named(step["message"], self._messages))
            case "rpc":
                return RpcReceived(peer, to_rpc(step["rpc"], self._messages))
            case "verdict":
                return MessageValidated(step["message"], Verdict(step["verdict"]))
            case "application_score":
                return PeerRated(peer, step["score"])
            case "direct":
                return DirectPeerChosen(peer, step["direct"])
            case _:
                return TimerFired()

    def _seen(self, actions: list[Action]) -> Seen:
        sent: dict[str, list[Rpc]] = {}
        seen = Seen()
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
        seen.rpcs = {peer: to_form(rpcs) for peer, rpcs in sorted(sent.items())}
        for topic, peer, peering in self._strategy.peerings():
            if peering is not Peering.METADATA_ONLY:
                kind = seen.mesh if peering is Peering.FULL_MESSAGE else seen.fanout
                kind.setdefault(str(topic), []).append(str(peer))
        for topic, peer, until in self._strategy.mesh.backoffs.ends():
            seen.backoffs.setdefault(str(topic), {})[str(peer)] = until
        seen.scores = {str(peer): parts.score for peer, parts in self._strategy.scores()}
        return seen
