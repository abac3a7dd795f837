"""The driver of one router: it feeds events, performs actions and keeps the timer.

The router is that of the core, unchanged. Input of a peer passes through `hearsay.node.receive`; the driver handles
the resulting events. RPCs of the router are encoded once, split at the limit, queued per peer, and written once per
turn of the event loop. Metrics and the trace observe all RPCs. Events for the application go to the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, Rpc, knows_idontwant
from hearsay.core.registry import create
from hearsay.core.shell.contract import RouterFailed, UsageError, describe_error
from hearsay.core.shell.randomness import Randomness
from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.identify import Identification
from hearsay.libp2p.services.ping import PingService
from hearsay.node.conduct import EarlyGrafts, Offence, Statistics, offence_in
from hearsay.node.config import NodeConfig
from hearsay.node.incoming.validation import Validation
from hearsay.node.links import ConductEnforcer, Links
from hearsay.node.meeting.discovery import Discovery
from hearsay.node.meeting.request_handler import RequestHandler
from hearsay.node.observers import Observers
from hearsay.node.outgoing_queue import OutgoingMemory
from hearsay.node.receive import Receiver
from hearsay.node.receive_events import (
    AddressReceived,
    DriverEvent,
    FrameRefused,
    Misconduct,
    RpcAdmitted,
    RpcDecoded,
)
from hearsay.node.sending import PeerLink, Sender


class Reachable:
    """A report that a message may now reach a peer that it could not reach before."""


Report: TypeAlias = Deliver | DeliverPartial | RemindOfPartial | Reachable | RouterFailed
"""An event for the node: for its application, or about the driver."""

_rpc_received = fast_init(RpcReceived)
_message_validated = fast_init(MessageValidated)


def forward_clock() -> Callable[[], Micros]:
    """Return a monotonic clock of Unix time in microseconds."""
    offset_ns = time_ns() - monotonic_ns()
    return lambda: (monotonic_ns() + offset_ns) // 1000


class Driver:
    def __init__(
        self,
        config: NodeConfig,
        host: NodeHost,
        identification: Identification,
        discovery: Discovery,
        ping_service: PingService,
        conduct_enforcer: ConductEnforcer,
        report: Callable[[Report], None],
    ) -> None:
        kind, parameters = config.router_parameters()
        limits, resources = config.limits, host.resources
        self.clock = forward_clock()
        self._host = host
        self._identification = identification
        self._discovery = discovery
        self._enforcer = conduct_enforcer
        self._report = report
        self._name = kind.name
        self.failure: RouterFailed | None = None
        """The failure of the router, or None. A failed router gets no more events."""
        chance = Randomness(int.from_bytes(urandom(7), "big"))
        try:
            self.router = create(kind, host.peer, parameters, chance, self.clock())
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
        self.receiver = Receiver(config, self.router, resources, self.validation, self.statistics, self.clock)
        self._early_grafts = EarlyGrafts(monotonic, limits.conduct.backoff_grace_s)
        self._sender = Sender(
            OutgoingMemory(resources.share("outgoing", limits.outgoing_bytes)),
            limits.rpc.max_rpc_bytes,
            self.statistics,
            self.observers,
            self._record_of,
            self._report_send_failure,
            withdraws=any(map(knows_idontwant, self.protocols)),
        )
        self.links = Links(
            host,
            limits.peer_queue_bytes,
            self._sender,
            self.receiver,
            limits.verification_threads,
            self._early_grafts,
            self.feed,
            self._act,
        )
        conduct_enforcer.attach(self.links, self.statistics)
        self.requests = RequestHandler(discovery, ping_service, lambda: self.links.connected, self.feed)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._arm()

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.router.strategy.protocols

    def feed(self, event: Event, now_us: Micros | None = None) -> None:
        """Pass an event to the router and perform its actions. A failed router gets no more events."""
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
            what = f"handling {type(event).__name__}"
            self._fail(f"after {what}, performing an action", error)
        self._sender.last_encoded = None
        if self.router.due != self._armed_for and self.failure is None:
            self._arm()

    def publish(self, event: Event) -> tuple[int, int]:
        """Pass a publication to the router. Return the number of peers to which the message was sent, and how many of
        their queues had no room for it.
        """
        self._sender.messages_sent = self._sender.messages_dropped = 0
        self.feed(event)
        return self._sender.messages_sent, self._sender.messages_dropped

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.links.close()
        await self.links.verification.close()
        await self.validation.close()
        if self.observers.trace is not None:
            await self.observers.trace.close()

    def _fail(self, what: str, error: Exception) -> None:
        self.failure = self._failure(what, error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
            case FrameRefused():
                self._blame(event.peer, Offence.MALFORMED, 1)
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
        """Count offences of a peer. If the peer is gone, its remaining input is dropped."""
        self._enforcer.add_offences(peer, offence, count)
        self.links.stop_receiving(peer)

    def _perform(self, action: Action) -> None:
        match action:
            case Send():
                assert isinstance(action.peer, bytes)
                link = self.links.of.get(action.peer)
                if link is not None and link.connected:
                    self._sender.send(action, link)
            case Deliver():
                self.statistics.delivered += 1
                if isinstance(action.received_from, bytes):
                    link = self.links.of.get(action.received_from)
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
                assert isinstance(action.peer, bytes)
                self._discovery.hang_up(action.peer)
            case Withdraw():
                assert isinstance(action.peer, bytes)
                link = self.links.of.get(action.peer)
                if link is not None:
                    self._sender.withdraw(link, action.message_id)
            case _:
                self._note(action)

    def _note(self, action: TraceAction) -> None:
        """Count an event of the router, and report it to the observers."""
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
            assert isinstance(event.peer, bytes)
            self._blame(event.peer, offence, 1)

    def _validate(self, action: Validate) -> None:
        message, sender = action.message, action.received_from
        assert isinstance(sender, bytes)
        durations = self.observers.durations
        if durations is not None:
            durations.validation_began(message.id, monotonic())
        verdict = self.validation.ask(message, sender)
        if verdict is None:
            return
        if durations is not None:
            durations.validation_ended(message.id)
        self.feed(_message_validated(message.id, verdict))

    def _decided(self, message: Message, senders: list[PeerId], verdict: Verdict) -> None:
        """Handle the verdict of a validator that did not answer at once."""
        if self.observers.durations is not None:
            self.observers.durations.validation_ended(message.id)
        if message.id in self.router.pending:
            self.feed(MessageValidated(message.id, verdict))
        for peer in self.receiver.peers_to_resume(senders):
            self.links.resume(peer)

    def _record_of(self, peer: PeerId) -> bytes | None:
        """Return the signed peer record of a peer or of this node; None if unknown."""
        if peer == self._host.peer:
            return self._identification.record()
        known = self._identification.known.get(peer)
        return (known is not None and known.signed_record) or self._discovery.book.record(peer)

    def _report_send_failure(self, link: PeerLink, rpc: Rpc) -> None:
        if link.connected and self.links.of.get(link.peer) is link:
            self.feed(SendFailed(link.peer, rpc))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
