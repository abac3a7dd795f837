"""Scripts of this folder: conversations of real routers, connected by links that deliver only by command.

A script has prose (lines that start with `#`), commands (lines that start with `> `) and, after each command, the
actions of the routers that it caused, or `(nothing)`. Time is in milliseconds and advances only by command.

    node NAME ROUTER [key=value …]     a router, with parameters; `score.KEY`, `score.thresholds.KEY`, `gater.KEY` are
                                       keys of tables, `score.topic.KEY` of all topics, `[a,b]` is a list
    hand NAME [PROTOCOL]               a peer without a router, for which the script sends RPCs by `say`
    connect A B [outbound] [ADDRESS]   A and B are connected; with `outbound`, A dialled B, which has the address
    rate A B NUMBER                    A's application gives B this score
    direct|undirect A B                B becomes a direct peer of A, or is one no longer
    scores A                           show the scores that A gives its peers
    disconnect A B
    join|leave NAME TOPIC
    parts NAME TOPIC supports|requests the application `WholeMessages` uses partial messages of the topic
    part NAME TOPIC GROUP              the application publishes parts of a group
    publish NAME TOPIC ID [BYTES]      the application publishes a message of this size, by default that of its ID
    deliver                            deliver all RPCs in flight, and those that they cause, until none is left
    drop A B                           lose all RPCs in flight from A to B
    fail A B                           report to A that its RPCs in flight to B could not be sent
    say A B PART [; PART …]            send a hand-made RPC from A to B; parts are written as they are printed
    found NAME TOPIC PEER …            discovery found these peers
    unreachable A B                    A's dial of B failed
    rtt A B MS                         A measured its round-trip time to B
    wait MS                            advance the clock, without firing timers
    beat NAME                          advance the clock to NAME's next timer, and fire it
    accept|reject|ignore NAME ID       the application's verdict
    state NAME                         show the state of NAME
    quiet                              do not show the effects of the next commands, as for set-up
    loud                               show the effects again
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import control_words

from hearsay.core.language.actions import (
    Action,
    CopyWithheld,
    Deliver,
    DeliverPartial,
    Dial,
    Disconnect,
    DuplicateReceived,
    ExtensionTestReceived,
    FindContacts,
    MessageRejected,
    NamedPeerDialled,
    OverlayChange,
    OverlayChanged,
    PartDropped,
    PeerGrafted,
    PeerPruned,
    PeerRemoved,
    Ping,
    RemindOfPartial,
    Send,
    Validate,
    Withdraw,
)
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    DirectPeerChosen,
    Event,
    Join,
    Leave,
    MessageValidated,
    PartialPeer,
    PartialsChosen,
    PartsFor,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    PublishPartial,
    RoundTripMeasured,
    RpcReceived,
    SendFailed,
    TimerFired,
    Verdict,
)
from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import (
    EPISUB,
    FLOODSUB,
    MESHSUB,
    MESHSUB_11,
    MESHSUB_12,
    MESHSUB_13,
    RANDOMSUB,
    Control,
    ControlPart,
    ExtensionTest,
    Message,
    Partial,
    PartialUse,
    Rpc,
    Subscription,
)
from hearsay.core.registry import RouterKind, create, find_router, negotiate
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.router import Router

NUMBER = re.compile(r"-?\d+\.\d+")
PROTOCOLS = {
    "floodsub": FLOODSUB,
    "randomsub": RANDOMSUB,
    "meshsub": MESHSUB,
    "meshsub11": MESHSUB_11,
    "meshsub12": MESHSUB_12,
    "meshsub13": MESHSUB_13,
    "episub": EPISUB,
}


class WholeMessages:
    """An application that announces `all` to every peer, and sends it to peers that have not announced it."""

    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        metadata = None if peer.sent else b"all"
        return PartsFor(None if peer.received == b"all" or peer.note else b"all", metadata, note=True)


EVENTS: dict[str, Callable[..., Event]] = {
    "rate": lambda peer, rating: PeerRated(peer, float(rating)),
    "direct": DirectPeerChosen,
    "undirect": lambda peer: DirectPeerChosen(peer, False),
    "join": Join,
    "leave": Leave,
    "parts": lambda topic, use: PartialsChosen(topic, PartialUse(use), WholeMessages()),
    "part": lambda topic, group: PublishPartial(topic, group.encode()),
    "found": lambda topic, *peers: ContactsFound(topic, peers),
    "unreachable": DialFailed,
    "rtt": lambda peer, milliseconds: RoundTripMeasured(peer, int(milliseconds) * 1000),
    "accept": lambda number: MessageValidated(number, Verdict.ACCEPT),
    "reject": lambda number: MessageValidated(number, Verdict.REJECT),
    "ignore": lambda number: MessageValidated(number, Verdict.IGNORE),
}
"""Commands that are one event for the router named by their first word; the other words are the event's values."""
SILENT = ("node", "hand", "wait", "quiet", "loud")
"""Commands that cause no event for a router."""


class Conversation:
    def __init__(self) -> None:
        self._routers: dict[str, Router] = {}
        self._hands: dict[str, tuple[str, ...]] = {}
        self._under_way: defaultdict[tuple[str, str], deque[Rpc]] = defaultdict(deque)
        self._now = 0
        self._messages: dict[str, Message] = {}
        self._is_quiet = False

    def play(self, command: str) -> list[str]:
        """Execute a command; return a line for each action of the routers that it causes."""
        verb, *words = command.split()
        if verb in EVENTS:
            name, *rest = words
            lines = list(self._feed(name, EVENTS[verb](*rest)))
        else:
            play: Callable[..., Iterator[str] | None] = getattr(self, f"_{verb}")
            lines = list(play(*words) or ())
        if self._is_quiet or verb in SILENT:
            return []
        return lines or ["(nothing)"]

    def _quiet(self) -> None:
        self._is_quiet = True

    def _loud(self) -> None:
        self._is_quiet = False

    def _node(self, name: str, router: str, *settings: str) -> None:
        kind, parameters = chosen_router(router, settings)
        self._routers[name] = create(kind, name, parameters, Randomness(1), self._now)

    def _hand(self, name: str, protocol: str = "meshsub") -> None:
        self._hands[name] = (PROTOCOLS[protocol],)

    def _connect(self, a: str, b: str, *words: str) -> Iterator[str]:
        outbound = "outbound" in words
        address = next((word for word in words if word != "outbound"), "")
        for one, other, of_other, dialled in ((a, b, address, outbound), (b, a, "", False)):
            if one in self._routers:
                protocol = negotiate(self._protocols(one), self._protocols(other))
                assert protocol is not None
                yield from self._feed(one, PeerConnected(other, protocol, (), of_other, dialled))

    def _scores(self, name: str) -> Iterator[str]:
        for peer, parts in self._routers[name].strategy.scores():
            yield f"{peer} has {parts.score:g}"

    def _disconnect(self, a: str, b: str) -> Iterator[str]:
        for one, other in ((a, b), (b, a)):
            self._under_way.pop((one, other), None)
        for one, other in ((a, b), (b, a)):
            if one in self._routers:
                yield from self._feed(one, PeerDisconnected(other))

    def _publish(self, name: str, topic: str, number: str, size: str = "0") -> Iterator[str]:
        data = number.encode().ljust(int(size), b"\0")
        message = self._messages.setdefault(number, Message(number, topic, data, name))
        yield from self._feed(name, Publish(message))

    def _deliver(self) -> Iterator[str]:
        while any(self._under_way.values()):
            for source, destination in sorted(self._under_way):
                waiting, self._under_way[source, destination] = self._under_way[source, destination], deque()
                for rpc in waiting:
                    if destination in self._routers:
                        yield from self._feed(destination, RpcReceived(source, rpc))

    def _drop(self, a: str, b: str) -> Iterator[str]:
        for rpc in self._under_way.pop((a, b), ()):
            yield f"lost: {a} -> {b}: {_shown(rpc)}"

    def _fail(self, a: str, b: str) -> Iterator[str]:
        for rpc in self._under_way.pop((a, b), ()):
            yield f"not sent: {a} -> {b}: {_shown(rpc)}"
            yield from self._feed(a, SendFailed(b, rpc))

    def _say(self, a: str, b: str, *words: str) -> Iterator[str]:
        yield from self._feed(b, RpcReceived(a, self._parsed(a, " ".join(words))))

    def _wait(self, span_ms: str) -> None:
        self._now += int(span_ms) * 1000

    def _beat(self, name: str) -> Iterator[str]:
        due = self._routers[name].deadline()
        assert due is not None
        self._now = max(self._now, due)
        yield from self._feed(name, TimerFired())

    def _state(self, name: str) -> Iterator[str]:
        state = self._routers[name].inspect()
        yield f"subscriptions: {', '.join(map(str, state.subscriptions)) or '-'}"
        for topic, last_us in state.fanout:
            yield f"fan-out: {topic}, last publish at {last_us // 1000} ms"
        for peer in state.peers:
            peerings = ", ".join(f"{topic} {peering}" for topic, peering in peer.peerings)
            yield f"peer {peer.peer}: {peerings or '-'}"
        for seen in state.seen:
            held = ", held" if seen.held else ""
            who = seen.sender or "the application"
            yield f"seen {seen.message_id} at {seen.first_us // 1000} ms from {who}{held}"

    def _feed(self, name: str, event: Event) -> Iterator[str]:
        for action in self._routers[name].handle(event, self._now):
            if isinstance(action, Send):
                self._under_way[name, str(action.peer)].append(action.rpc)
            line = _action_line(name, action)
            if line:
                yield line

    def _protocols(self, name: str) -> tuple[str, ...]:
        return self._routers[name].strategy.protocols if name in self._routers else self._hands[name]

    def _parsed(self, sender: str, text: str) -> Rpc:
        subscriptions: list[Subscription] = []
        messages: list[Message] = []
        control: list[ControlPart] = []
        partial: Partial | None = None
        test: ExtensionTest | None = None
        for part in text.split("; "):
            control_part = control_words.parsed(part.split())
            if control_part is not None:
                control.append(control_part)
                continue
            match part.split():
                case ["SUBSCRIBE" | "UNSUBSCRIBE" as word, topic, *use]:
                    subscriptions.append(Subscription(topic, word == "SUBSCRIBE", PartialUse(*use or ["none"])))
                case ["PARTIAL", topic, group, parts, metadata]:
                    said = [None if value == "-" else value.encode() for value in (parts, metadata)]
                    partial = Partial(topic, group.encode(), *said)
                case ["MESSAGE", number, "in", topic, *rest]:
                    default = Message(number, topic, number.encode(), sender)
                    message = self._messages.setdefault(number, default)
                    messages.append(replace(message, hops=int(rest[1])) if rest else message)
                case ["TEST"]:
                    test = ExtensionTest()
                case _:
                    raise ValueError(f"not a part of an RPC: {part}")
        made = Control.of(control) if control else None
        return Rpc(tuple(subscriptions), tuple(messages), made, partial, test)


def chosen_router(router: str, settings: Sequence[str]) -> tuple[RouterKind, RouterParameters]:
    """Return the router and the parameters that the words of `node` name; `preset=NAME` selects a preset."""
    kind = find_router(router)
    values = dict(setting.split("=") for setting in settings)
    preset = kind.presets[values.pop("preset", next(iter(kind.presets)))]
    return kind, kind.parameters.from_mapping({**preset, **_tables(values)})


def _tables(values: Mapping[str, str]) -> dict[str, Any]:
    """Return values by dotted keys as nested tables: `a.b=1` becomes the table `a` with `b` = 1."""
    tables: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        place = tables
        for step in path:
            place = place.setdefault(step, {})
        place[name] = _plain(value)
    score = tables.get("score", {})
    if "topic" in score:
        score["topics"] = [{"topic": "any", **score.pop("topic")}]
    return tables


def _plain(value: str) -> object:
    if value.startswith("["):
        return value[1:-1].split(",")
    if value in ("true", "false"):
        return value == "true"
    if value.lstrip("-").isdigit():
        return int(value)
    return float(value) if NUMBER.fullmatch(value) else value


def _shown(rpc: Rpc) -> str:
    parts = [_shown_subscription(change) for change in rpc.subscriptions]
    parts += [_shown_message(message) for message in rpc.messages]
    if rpc.partial is not None:
        parts.append(_shown_partial(rpc.partial))
    if rpc.test is not None:
        parts.append("TEST")
    if rpc.control is not None:
        parts += map(control_words.shown, rpc.control.parts())
    return "; ".join(parts)


def _shown_message(message: Message) -> str:
    hops = "" if message.hops is None else f" after {message.hops} hops"
    return f"MESSAGE {message.id} in {message.topic}{hops}"


def _shown_subscription(change: Subscription) -> str:
    use = "" if change.partial is PartialUse.NONE else f" {change.partial}"
    return f"{'SUBSCRIBE' if change.subscribe else 'UNSUBSCRIBE'} {change.topic}{use}"


def _shown_partial(partial: Partial) -> str:
    """Return `PARTIAL TOPIC GROUP PARTS METADATA`, with a dash for missing parts or metadata."""
    values = ["-" if value is None else value.decode() for value in (partial.parts, partial.metadata)]
    return f"PARTIAL {partial.topic} {partial.group.decode()} {' '.join(values)}"


TEXTS: dict[object, str] = {
    ExtensionTestReceived: "gets the test message of {0.peer}",
    Validate: "asks the application about {0.message.id}",
    DuplicateReceived: "has seen {0.message_id} before",
    CopyWithheld: "keeps {0.message.id} from {0.peer}, who does not want it",
    PeerGrafted: "grafts {0.peer} into {0.topic}",
    PeerPruned: "prunes {0.peer} from {0.topic}",
    PeerRemoved: "forgets {0.peer}",
    Dial: "dials {0.peer}",
    Withdraw: "need not send {0.message_id} to {0.peer}",
    Disconnect: "hangs up on {0.peer}",
    Ping: "pings {0.peer}",
    FindContacts: "looks for {0.count} contacts in {0.topic}",
    NamedPeerDialled: "learns of {0.peer} in {0.topic}",
    OverlayChange.NEIGHBOR_UP: "has {0.peer} as a neighbour in {0.topic}",
    OverlayChange.NEIGHBOR_DOWN: "has {0.peer} as a neighbour in {0.topic} no more",
    OverlayChange.PASSIVE_ADD: "remembers {0.peer} for {0.topic}",
    OverlayChange.PASSIVE_REMOVE: "takes {0.peer} off the passive list of {0.topic}",
    OverlayChange.EAGER: "makes {0.peer} eager in {0.topic}",
    OverlayChange.LAZY: "makes {0.peer} lazy in {0.topic}",
}
"""Texts of actions, by the class of the action or by the change of an overlay."""


def _action_line(name: str, action: Action) -> str | None:
    """Return the line for an action of a router; None for an action that is not shown."""
    match action:
        case Send():
            why = "".join(f" ({via.name.lower()})" for via in dict.fromkeys(action.vias))
            return f"{name} -> {action.peer}: {_shown(action.rpc)}{why}"
        case Deliver():
            source = "" if action.received_from is None else f" from {action.received_from}"
            return f"{name} delivers {action.message.id}{source}"
        case DeliverPartial():
            return f"{name} hands over {_shown_partial(action.partial)} from {action.received_from}"
        case RemindOfPartial():
            return f"{name} reminds of {action.group.decode()} in {action.topic}"
        case MessageRejected():
            return f"{name} does not use {action.message.id}: {action.reason.name.lower()}"
        case PartDropped():
            kind, reason = action.kind.name, action.reason.name.lower()
            return f"{name} drops {action.count} {kind} of {action.peer}: {reason}"
        case _:
            text = TEXTS.get(action.change if isinstance(action, OverlayChanged) else type(action))
            return None if text is None else f"{name} {text.format(action)}"
