"""A driver of one router of gossipsub 1.1, by default with go's parameters. The test sends the RPCs of its peers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hearsay.core.language.actions import Action, Dial, PartDropped, Reason, Send, Via
from hearsay.core.language.events import (
    Event,
    Join,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    RpcReceived,
    TimerFired,
    Verdict,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import (
    MESHSUB_11,
    Control,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router

MS: Micros = 1_000
SECOND: Micros = 1_000_000
TOPIC = "t"
MAX_TIMERS_AT_ONCE = 100
"""Maximum number of timers that fire at one time. If there are more, a timer is due again without end."""

GO: dict[str, Any] = {
    "degree": 6,
    "degree_low": 5,
    "degree_high": 12,
    "degree_lazy": 6,
    "degree_score": 4,
    "degree_out": 2,
    "prune_trigger": "at_high",
    "full_mesh": "refuse",
    "unknown_graft": "ignore",
    "prune_backoff_ms": 60_000,
    "first_heartbeat_ms": 100,
    "first_heartbeat_spread_ms": 0,
    "gossip_targets": "filter_then_select",
    "gossip_factor": 0.25,
    "max_ihave_messages": 10,
    "direct_connect_ticks": 300,
    "idontwant_threshold_bytes": 0,
}
"""go's defaults. A test that uses scores adds the table `score`."""

_TOPIC = {"topic": TOPIC, "topic_weight": 1, "time_in_mesh_quantum_ms": 1_000, "invalid_messages_decay": 0.99}

Part = Subscription | Message | IHave | IWant | Graft | Prune | IDontWant


def score_table(*topics: dict[str, Any], thresholds: dict[str, float] | None = None, **peer: Any) -> dict[str, Any]:
    """Return a table `[router.score]`. Only the application's score counts, unless topics or parameters are given."""
    return {
        "validation": "selective",
        "application_weight": 1,
        "decay_interval_ms": 1_000,
        "decay_to_zero": 0.01,
        "thresholds": thresholds or {"gossip": -10, "publish": -100, "graylist": -10_000},
        "topics": [{**_TOPIC, **topic} for topic in topics],
        **peer,
    }


def rpc(*parts: Part) -> Rpc:
    def of(kind: type) -> tuple[Any, ...]:
        return tuple(part for part in parts if isinstance(part, kind))

    control = Control(of(IHave), of(IWant), of(Graft), of(Prune), (), of(IDontWant))
    return Rpc(of(Subscription), of(Message), control if control != Control() else None)


def message(name: str, source: str = "author", size: int = 1, topic: str = TOPIC) -> Message:
    return Message(name, topic, bytes(size), source)


class RouterDriver:
    """The router `me`, which joins the topic `t` at the start, and its clock."""

    def __init__(self, joined: Iterable[str] = (TOPIC,), seed: int = 1, **given: Any) -> None:
        parameters = GossipsubParameters.from_mapping({**GO, **given})
        self.strategy = Gossipsub(parameters)
        self.router = Router("me", self.strategy, Randomness(seed))
        self.now: Micros = 0
        for topic in joined:
            self.feed(Join(topic))

    def feed(self, event: Event) -> list[Action]:
        return self.router.handle(event, self.now)

    def connect(
        self,
        *peers: str,
        outbound: bool = False,
        topics: tuple[str, ...] = (TOPIC,),
        protocol: str = MESHSUB_11,
        address: str = "",
    ) -> None:
        for peer in peers:
            self.feed(PeerConnected(peer, protocol, topics, address, outbound))

    def disconnect(self, peer: str) -> None:
        self.feed(PeerDisconnected(peer))

    def receive(self, peer: str, *parts: Part) -> list[Action]:
        return self.feed(RpcReceived(peer, rpc(*parts)))

    def graft(self, *peers: str) -> list[Action]:
        return [action for peer in peers for action in self.receive(peer, Graft(TOPIC))]

    def rate(self, rating: float, *peers: str) -> None:
        for peer in peers:
            self.feed(PeerRated(peer, rating))

    def publish(self, name: str, topic: str = TOPIC) -> list[Action]:
        return self.feed(Publish(message(name, "me", topic=topic)))

    def verdict(self, name: str, verdict: Verdict) -> list[Action]:
        return self.feed(MessageValidated(name, verdict))

    def run(self, until: Micros) -> list[Action]:
        """Advance the clock to `until`; fire every timer when it is due, also those due at `until`."""
        actions: list[Action] = []
        at_once = 0
        while (due := self.router.deadline()) is not None and due <= until:
            at_once = at_once + 1 if due <= self.now else 0
            assert at_once < MAX_TIMERS_AT_ONCE, f"more than {MAX_TIMERS_AT_ONCE} timers fire at {due} us"
            self.now = max(self.now, due)
            actions += self.feed(TimerFired())
        self.now = until
        return actions

    def wait(self, span: Micros) -> list[Action]:
        return self.run(self.now + span)

    def beat(self, times: int = 1) -> list[Action]:
        """Advance the clock over a number of heartbeats; also fire all timers that are due before them."""
        actions: list[Action] = []
        for _ in range(times):
            actions += self.run(self.strategy.heartbeat.due)
        return actions

    def mesh(self, topic: str = TOPIC) -> list[object]:
        return list(self.strategy.mesh.topics[topic])

    def score(self, peer: str) -> float:
        return self.strategy.standing.score(peer)


def sent(actions: Iterable[Action], kind: type) -> list[tuple[object, Any]]:
    """Return the sent control parts of a kind, each with its receiver."""
    return [
        (action.peer, part)
        for action in actions
        if isinstance(action, Send) and action.rpc.control is not None
        for part in action.rpc.control.parts()
        if isinstance(part, kind)
    ]


def receivers(actions: Iterable[Action], kind: type) -> list[object]:
    return [peer for peer, _ in sent(actions, kind)]


def copies(actions: Iterable[Action]) -> list[tuple[object, object]]:
    """Return the sent copies of messages as pairs of receiver and message id."""
    return [(action.peer, each.id) for action in actions if isinstance(action, Send) for each in action.rpc.messages]


def ways(actions: Iterable[Action]) -> dict[object, Via]:
    """Return the reason of the first message that each peer gets, by peer."""
    return {action.peer: action.vias[0] for action in actions if isinstance(action, Send) and action.vias}


def dialled(actions: Iterable[Action]) -> list[object]:
    return [action.peer for action in actions if isinstance(action, Dial)]


def dropped(actions: Iterable[Action]) -> list[tuple[object, str, int, Reason]]:
    return [
        (action.peer, action.kind.name, action.count, action.reason)
        for action in actions
        if isinstance(action, PartDropped)
    ]
