"""The driver of a router: it passes events to the router, performs its actions and keeps its timer.

The router is one of `hearsay.core`, unchanged. Input of a peer passes through `hearsay.node.receive`; the driver
handles the resulting events. An RPC of the router is encoded once, even for several peers. It is split if it exceeds
the size limit, and then queued for each peer. In each iteration of the event loop, the queues are written at most
once. Metrics and the trace observe all RPCs. The driver reports messages for the application to the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom
from time import monotonic, monotonic_ns, time_ns
from typing import TypeAlias, assert_never

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
    MessagePublished,
    MessageRejected,
    NamedPeerDialled,
    OverlayChange,
    OverlayChanged,
    PartDropped,
    PeerAdded,
    PeerGrafted,
    PeerPruned,
    PeerRemoved,
    Ping,
    RemindOfPartial,
    Send,
    TopicJoined,
    TopicLeft,
    TraceAction,
    Validate,
    Withdraw,
    fast_init,
)
from hearsay.core.language.events import (
    Event,
    MessageRefused,
    MessageValidated,
    RpcReceived,
    SendFailed,
    StreamOpened,
    TimerFired,
    Verdict,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, Rpc, knows_idontwant
from hearsay.core.registry import create
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.contract import RouterFailed, UsageError, describe_error
from hearsay.libp2p.identify import Identification, PingService
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import NodeHost
from hearsay.node.conduct import EarlyGrafts, Offence, Statistics, offence_in
from hearsay.node.config import NodeConfig
from hearsay.node.links import ConductEnforcer, Links
from hearsay.node.meeting.discovery import Discovery, RequestHandler
from hearsay.node.outgoing_queue import OutgoingMemory
from hearsay.node.receive import Receiver
from hearsay.node.receive_events import AddressReceived, DriverEvent, Misconduct, RpcAdmitted, RpcDecoded
from hearsay.node.sending import Observers, PeerLink, Sender
from hearsay.node.validation import Validation
from hearsay.wire.fields import raw


class Reachable:
    """A report that a message of this node may now reach a peer that it could not reach before."""


Report: TypeAlias = Deliver | DeliverPartial | RemindOfPartial | Reachable | RouterFailed
"""An event that the driver reports to the node."""

_rpc_received = fast_init(RpcReceived)
_message_validated = fast_init(MessageValidated)


@dataclass(eq=False)
class Driver:
    """The driver of the router of a node."""

    _config: NodeConfig
    _host: NodeHost
    _identification: Identification
    _discovery: Discovery
    _ping_service: PingService
    _enforcer: ConductEnforcer
    _report: Callable[[Report], None]
    """Passes an event to the node."""

    def __post_init__(self) -> None:
        kind, parameters = self._config.router_parameters()
        limits, resources = self._config.limits, self._host.resources
        offset_ns = time_ns() - monotonic_ns()
        self.clock: Callable[[], Micros] = lambda: (monotonic_ns() + offset_ns) // 1000
        """A monotonic clock in microseconds. At the creation of the driver it agreed with the Unix time."""
        self._name = kind.name
        self.failure: RouterFailed | None = None
        """The failure of the router, or None. A failed router gets no more events."""
        chance = Randomness(int.from_bytes(urandom(7), "big"))
        try:
            self.router = create(kind, self._host.peer, parameters, chance, self.clock())
        except Exception as error:
            raise self._failure("while it was created", error) from error
        self.statistics = Statistics()
        self.observers = Observers()
        self.validation = Validation(
            limits,
            parameters.max_pending_validations,
            resources.share("validations", limits.pending_validation_bytes),
            lambda peer: self.links.budget_of(peer),
            self._decided,
            self.statistics,
        )
        self.receiver = Receiver(self._config, self.router, resources, self.validation, self.statistics, self.clock)
        self._early_grafts = EarlyGrafts(monotonic, limits.conduct.backoff_grace_s)
        self._sender = Sender(
            OutgoingMemory(resources.share("outgoing", limits.outgoing_bytes)),
            limits.rpc.max_rpc_bytes,
            self.statistics,
            self.observers,
            self._record_of,
            self._report_send_failure,
            any(map(knows_idontwant, self.protocols)),
        )
        self.links = Links(self._host, limits, self._sender, self.receiver, self._early_grafts, self.feed, self._act)
        self._enforcer.attach(self.links, self.statistics)
        self.requests = RequestHandler(self._discovery, self._ping_service, lambda: self.links.connected, self.feed)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._arm()

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.router.strategy.protocols

    def feed(self, event: Event, now_us: Micros | None = None) -> None:
        """Pass an event to the router at the time `now_us` (None: now), and perform the router's actions.

        A failed router gets no more events. If the router fails at this event, the failure is reported, not raised.
        Raises `UsageError` if the router refuses the event. An `OSError` or `MemoryError` of an action is passed on.
        """
        if self.failure is not None:
            return
        try:
            actions = self.router.handle(event, self.clock() if now_us is None else now_us)
        except UsageError:
            raise
        except Exception as error:
            self._fail(f"handling {type(event).__name__}", error)
            return
        try:
            for action in actions:
                self._perform(action)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            self._fail(f"after handling {type(event).__name__}, performing an action", error)
        self._sender.last_encoded = None
        if self.router.due != self._armed_for and self.failure is None:
            self._arm()

    def publish(self, event: Event) -> tuple[int, int]:
        """Pass a publication to the router. Return the number of peers to which the router sends the message, and the
        number of these peers whose queue has no room for the message.
        """
        self._sender.messages_sent = self._sender.messages_dropped = 0
        self.feed(event)
        return self._sender.messages_sent, self._sender.messages_dropped

    async def close(self) -> None:
        self._disarm()
        self.links.close()
        await self.links.verification.close()
        await self.validation.close()
        if self.observers.trace is not None:
            await self.observers.trace.close()

    def _fail(self, what: str, error: Exception) -> None:
        self.failure = self._failure(what, error)
        self._disarm()
        self._report(self.failure)

    def _failure(self, what: str, error: Exception) -> RouterFailed:
        failure = RouterFailed(f"router {self._name} failed at this node, {what}: {describe_error(error)}")
        failure.__cause__ = error
        return failure

    def _act(self, event: DriverEvent) -> None:
        """Handle an event of a peer's input."""
        observers, router = self.observers, self.router
        match event:
            case RpcDecoded():
                observers.received(event.peer, event.rpc)
            case RpcAdmitted():
                if event.peer in router.connected:
                    self._pass_to_router(event)
            case MessageRefused():
                observers.happened(MessageRejected(event.message, event.peer, event.reason))
                if router.strategy.keeps_scores and event.peer in router.connected:
                    self.feed(event)
            case Misconduct():
                self._blame(event.peer, event.offence, event.count)
            case PartDropped():
                self._perform(event)
            case StreamOpened():
                if event.peer in router.connected:
                    self.feed(event)
            case AddressReceived():
                self._discovery.learn(event.record, event.sender, event.named)
            case _:
                assert_never(event)

    def _pass_to_router(self, admitted: RpcAdmitted) -> None:
        """Pass an RPC, or a portion of one, to the router."""
        accepted = not self.validation.checks_messages
        durations = self.observers.durations
        began_s = monotonic() if durations is not None else 0.0
        received = _rpc_received(admitted.peer, admitted.rpc, accepted, admitted.portion)
        self.feed(received, max(admitted.now_us, self.router.now))
        if durations is not None:
            durations.rpc.note(monotonic() - began_s)
        if admitted.rpc.subscriptions:
            self._report(Reachable())

    def _blame(self, peer: PeerId, offence: Offence, count: int) -> None:
        """Add offences to the record of a peer. If the peer is gone, drop its remaining input."""
        self._enforcer.add_offences(peer, offence, count)
        self.links.stop_receiving(peer)

    def _perform(self, action: Action) -> None:
        match action:
            case Send():
                link = self.links.by_peer.get(raw(action.peer))
                if link is not None and link.connected:
                    self._sender.send(action, link)
            case Deliver():
                self.statistics.delivered += 1
                sender = action.received_from
                link = None if sender is None else self.links.by_peer.get(raw(sender))
                if link is not None:
                    link.delivered += 1
                self.observers.delivered(action)
                self._report(action)
            case DeliverPartial() | RemindOfPartial():
                self._report(action)
            case ExtensionTestReceived():
                self.statistics.test_messages += 1
            case Validate():
                self._validate(action)
            case Dial() | Ping() | FindContacts():
                self.requests.perform(action)
            case Disconnect():
                self._discovery.hang_up(raw(action.peer))
            case Withdraw():
                link = self.links.by_peer.get(raw(action.peer))
                if link is not None:
                    self._sender.withdraw(link, action.message_id)
            case _:
                self._note(action)

    def _note(self, action: TraceAction) -> None:
        """Count an action that is only a report of the router, and pass it to the observers."""
        match action:
            case DuplicateReceived():
                self.statistics.duplicates += 1
                self.validation.add_sender(action.message_id, action.peer)
            case MessageRejected():
                self.statistics.rejected += 1
                self._look_for_offence(action)
            case PartDropped():
                self.statistics.parts_dropped += action.count
                self.statistics.dropped_because[action.reason] += action.count
                self._look_for_offence(action)
            case MessagePublished():
                self.statistics.published += 1
            case PeerGrafted() | OverlayChanged(OverlayChange.EAGER):
                self._early_grafts.grafted(action.peer, action.topic)
                asyncio.get_running_loop().call_soon(self._report, Reachable())
            case (
                PeerAdded() | PeerRemoved() | TopicJoined() | TopicLeft() | PeerPruned() | CopyWithheld()
                | NamedPeerDialled() | OverlayChanged()
            ):  # fmt: skip
                pass
            case _:
                assert_never(action)
        self.observers.happened(action)

    def _look_for_offence(self, event: MessageRejected | PartDropped) -> None:
        offence = offence_in(event, self.router, self._early_grafts)
        if offence is not None:
            self._blame(raw(event.peer), offence, 1)

    def _validate(self, action: Validate) -> None:
        message = action.message
        durations = self.observers.durations
        if durations is not None:
            durations.validation_began(message.id, monotonic())
        verdict = self.validation.ask(message, raw(action.received_from))
        if verdict is None:
            return
        if durations is not None:
            durations.validation_ended(message.id)
        self.feed(_message_validated(message.id, verdict))

    def _decided(self, message: Message, senders: list[PeerId], verdict: Verdict) -> None:
        """Handle the verdict on a message whose validators did not all answer at once."""
        if self.observers.durations is not None:
            self.observers.durations.validation_ended(message.id)
        if message.id in self.router.pending:
            self.feed(MessageValidated(message.id, verdict))
        for peer in self.receiver.peers_to_resume(senders):
            self.links.resume(peer)

    def _record_of(self, peer: PeerId) -> bytes | None:
        """Return the signed record of a peer or of this node; None if the record is unknown."""
        if peer == self._host.peer:
            return self._identification.record()
        known = self._identification.known.get(peer)
        return (known is not None and known.signed_record) or self._discovery.book.record(peer)

    def _report_send_failure(self, link: PeerLink, rpc: Rpc) -> None:
        if link.connected and self.links.by_peer.get(link.peer) is link:
            self.feed(SendFailed(link.peer, rpc))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._disarm()
        self._armed_for = self.router.due
        if self._armed_for is not None:
            wait_s = max(0, self._armed_for - self.clock()) / 1_000_000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        due = self.router.due
        self._timer = None
        if due is not None and self.clock() >= due:
            began_s = monotonic()
            self.feed(TimerFired())
            if self.observers.durations is not None:
                self.observers.durations.heartbeat.note(monotonic() - began_s)
        else:
            self._arm()
