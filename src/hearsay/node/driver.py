"""Drives one router: events in, actions performed, its timer kept.

The router is the core's, unchanged. What a peer's stream brings is decoded, checked for signatures and handed to it;
what it wants sent is encoded once, split at the limit, queued per peer, and written once per turn of the event loop.
"""

from __future__ import annotations

import asyncio
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING

from hearsay.core.language.actions import (
    Action,
    Deliver,
    DeliverPartial,
    Dial,
    Disconnect,
    DuplicateReceived,
    ExtensionTestReceived,
    FindContacts,
    LinkEager,
    MessagePublished,
    MessageRejected,
    PartDropped,
    PeerGrafted,
    Ping,
    Reason,
    RemindOfPartial,
    Send,
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
from hearsay.core.language.rpc import Message, Portion, Rpc, knows_idontwant
from hearsay.core.registry import create
from hearsay.core.shell.contract import RouterFailed, UsageError, describe_error
from hearsay.core.shell.randomness import Randomness
from hearsay.libp2p.limits.resources import Resources
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.config import NodeConfig
from hearsay.node.fairness.conduct import EarlyGrafts, Offence, offence_in
from hearsay.node.incoming.intake import Intake
from hearsay.node.incoming.reception import Reception
from hearsay.node.incoming.statistics import Statistics
from hearsay.node.incoming.validation import Validation
from hearsay.node.links import Links
from hearsay.node.outgoing_queue import OutgoingMemory
from hearsay.node.sending import PeerLink, Sender
from hearsay.node.surroundings import Clock, Surroundings
from hearsay.wire.messages import MessageIds
from hearsay.wire.signing import SignaturePolicy

if TYPE_CHECKING:
    from hearsay.node.metrics.measurements import Durations
    from hearsay.node.metrics.traffic import Traffic
    from hearsay.node.trace_rows import TraceRows

_rpc_received = fast_init(RpcReceived)
_message_validated = fast_init(MessageValidated)


class Driver:
    def __init__(
        self, config: NodeConfig, peer: PeerId, clock: Clock, resources: Resources, around: Surroundings
    ) -> None:
        kind, parameters = config.router_parameters()
        limits = self._limits = config.limits
        self._clock = clock
        self._around = around
        self._name = kind.name
        self.failure: RouterFailed | None = None
        """Why the router is not asked any more."""
        chance = Randomness(int.from_bytes(urandom(7), "big"))
        try:
            self.router = create(kind, peer, parameters, chance, clock())
        except Exception as error:
            raise self._failure("being made", error) from error
        self.message_ids = MessageIds(config.message_id)
        self.signatures: dict[str, SignaturePolicy] = {}
        self._default_signatures = config.signatures
        self.statistics = Statistics()
        self._trace: TraceRows | None = None
        self._traffic: Traffic | None = None
        self._durations: Durations | None = None
        self.validation = Validation(
            limits,
            parameters.max_pending_validations,
            resources.share("validations", limits.pending_validation_bytes),
            around.budget_of,
            self._decided,
            self.statistics,
        )
        self._reception = Reception(
            self,
            self.router,
            clock,
            limits,
            resources,
            self.validation,
            self.statistics,
            self.message_ids,
            around.learn,
        )
        self._early_grafts = EarlyGrafts(monotonic, limits.conduct.backoff_grace_s)
        memory = OutgoingMemory(resources.share("outgoing", limits.outgoing_bytes))
        self._sender = Sender(
            memory,
            limits.rpc.max_rpc_bytes,
            self.statistics,
            around.record_of,
            self._say_again,
            withdraws=any(map(knows_idontwant, self.protocols)),
        )
        self.links = Links(
            limits.peer_queue_bytes, self._sender, self._reception, self._early_grafts, around, self.feed
        )
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._arm()

    def record_in(self, trace: TraceRows) -> None:
        """From now on what happens is written there."""
        self._trace = self._sender.trace = self._reception.trace = trace

    def count_in(self, traffic: Traffic, durations: Durations) -> None:
        """From now on what goes through is counted there, too, and how long it takes."""
        self._traffic = self._sender.traffic = self._reception.traffic = traffic
        self._durations = self._sender.durations = self._reception.durations = durations

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.router.strategy.protocols

    def policy(self, topic: str) -> SignaturePolicy:
        return self.signatures.get(topic, self._default_signatures)

    def feed(self, event: Event, now_us: Micros | None = None) -> None:
        """One event into the router, and all it asks for. One that failed is asked no more: its state is torn."""
        if self.failure is not None:
            return
        try:
            actions = self.router.handle(event, self._clock() if now_us is None else now_us)
        except UsageError:
            raise
        except Exception as error:
            self._give_up(f"handling {type(event).__name__}", error)
            return
        try:
            for action in actions:
                self.perform(action)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            what = f"handling {type(event).__name__}"
            self._give_up(f"after {what}, asking for what cannot be done", error)
        self._sender.forget_encoded()
        if self.router.due != self._armed_for and self.failure is None:
            self._arm()

    def publish(self, event: Event) -> tuple[int, int]:
        """Feed a publication; to how many peers it goes, and how many have no room for it."""
        self._sender.count_anew()
        self.feed(event)
        return self._sender.messages_sent, self._sender.messages_dropped

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.links.close()
        await self._reception.close()
        await self.validation.close()
        if self._trace is not None:
            await self._trace.close()

    def _give_up(self, what: str, error: Exception) -> None:
        self.failure = self._failure(what, error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._around.failed(self.failure)

    def _failure(self, what: str, error: Exception) -> RouterFailed:
        failure = RouterFailed(f"router {self._name} failed at this node, {what}: {describe_error(error)}")
        failure.__cause__ = error
        return failure

    def stream_opened(self, peer: PeerId) -> None:
        if peer in self.router.connected:
            self.feed(StreamOpened(peer))

    def hand_over(self, intake: Intake, rpc: Rpc, portion: Portion | None, now_us: Micros) -> None:
        """An RPC, or a portion of one, into the router."""
        peer = intake.peer
        if peer in self.router.connected:
            accepted = not self.validation.looks
            began_s = monotonic() if self._durations is not None else 0.0
            self.feed(_rpc_received(peer, rpc, accepted, portion), max(now_us, self.router.now))
            if self._durations is not None:
                self._durations.rpc.note(monotonic() - began_s)
            if rpc.subscriptions:
                self._around.reachable()

    def refused(self, message: Message, peer: PeerId, reason: Reason) -> None:
        """Report a refused message to a router that keeps scores: it decides by the reason what it costs."""
        if self.router.strategy.keeps_scores and peer in self.router.connected:
            self.feed(MessageRefused(peer, message, reason))

    def blame(self, peer: PeerId, offence: Offence, count: int) -> None:
        """Count offences against a peer. If it is gone, the rest of what it sent is dropped."""
        self._around.offence(peer, offence, count)
        self.links.hear_no_more(peer)

    def perform(self, action: Action) -> None:
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
                if self._trace is not None:
                    self._trace.delivered(action)
                if self._traffic is not None:
                    self._traffic.delivered(action.message.topic)
                self._around.deliver(action)
            case DeliverPartial() | RemindOfPartial():
                self._around.partial(action)
            case ExtensionTestReceived():
                self.statistics.test_messages += 1
            case Validate():
                self._validate(action)
            case Dial() | Ping() | FindContacts():
                self._around.ask(action)
            case Disconnect():
                assert isinstance(action.peer, bytes)
                self._around.disconnect(action.peer)
            case Withdraw():
                assert isinstance(action.peer, bytes)
                link = self.links.of.get(action.peer)
                if link is not None:
                    self._sender.withdraw(link, action.message_id)
            case _:
                if isinstance(action, DuplicateReceived):
                    self.statistics.duplicates += 1
                    self.validation.copy_came(action.message_id, action.peer)
                elif isinstance(action, MessageRejected):
                    self.statistics.rejected += 1
                    self._look_for_offence(action)
                elif isinstance(action, PartDropped):
                    self.statistics.parts_dropped += action.count
                    self.statistics.dropped_because[action.reason] += action.count
                    self._look_for_offence(action)
                elif isinstance(action, MessagePublished):
                    self.statistics.published += 1
                elif isinstance(action, PeerGrafted | LinkEager):
                    self._early_grafts.grafted(action.peer, action.topic)
                    asyncio.get_running_loop().call_soon(self._around.reachable)
                if self._trace is not None:
                    self._trace.happened(action)
                if self._traffic is not None:
                    self._traffic.happened(action)

    def _look_for_offence(self, told: MessageRejected | PartDropped) -> None:
        offence = offence_in(told, self.router, self._early_grafts)
        if offence is not None:
            assert isinstance(told.peer, bytes)
            self.blame(told.peer, offence, 1)

    def _validate(self, action: Validate) -> None:
        message, sender = action.message, action.received_from
        assert isinstance(sender, bytes)
        durations = self._durations
        if durations is not None:
            durations.validation_began(message.id, monotonic())
        verdict = self.validation.ask(message, sender)
        if verdict is None:
            return
        if durations is not None:
            durations.validation_ended(message.id)
        self.feed(_message_validated(message.id, verdict))

    def _decided(self, message: Message, senders: list[PeerId], verdict: Verdict) -> None:
        """A validator that took its time has answered."""
        if self._durations is not None:
            self._durations.validation_ended(message.id)
        if message.id in self.router.pending:
            self.feed(MessageValidated(message.id, verdict))
        self._reception.verdict_came(senders)

    def _say_again(self, link: PeerLink, rpc: Rpc) -> None:
        if link.connected and self.links.of.get(link.peer) is link:
            self.feed(SendFailed(link.peer, rpc))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = self.router.due
        if self._armed_for is not None:
            wait_s = max(0, self._armed_for - self._clock()) / 1_000_000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        due = self.router.due
        self._timer = None
        if due is not None and self._clock() >= due:
            began_s = monotonic()
            self.feed(TimerFired())
            if self._durations is not None:
                self._durations.heartbeat.note(monotonic() - began_s)
        else:
            self._arm()
