"""Drives one router: events in, actions performed, its timer kept.

The router is the core's, unchanged. What a peer's stream brings is decoded, checked for signatures and handed to it;
what it wants sent is encoded once, split at the limit, queued per peer, and written once per turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING

from hearsay.core.language.actions import (
    Action,
    Deliver,
    Dial,
    Disconnect,
    DuplicateReceived,
    FindContacts,
    LinkEager,
    MessagePublished,
    MessageRejected,
    PartDropped,
    PeerGrafted,
    Ping,
    Reason,
    Send,
    TraceAction,
    Validate,
)
from hearsay.core.language.events import (
    Event,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    RpcReceived,
    SendFailed,
    TimerFired,
    Verdict,
)
from hearsay.core.language.fast_frozen import fast_init
from hearsay.core.language.identifiers import Identifier, Micros
from hearsay.core.language.rpc import MESHSUB_11, Control, Message, PartKind, Rpc
from hearsay.core.language.sizes import rpc_size
from hearsay.core.registry import create
from hearsay.core.shell.failures import RouterFailed, describe_error
from hearsay.core.shell.randomness import Randomness
from hearsay.core.shell.router import UsageError
from hearsay.libp2p.limits.frames import frame
from hearsay.libp2p.limits.resources import Budget, Resources
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.clock import Clock
from hearsay.node.config import NodeConfig
from hearsay.node.fairness.allowance import Allowance
from hearsay.node.fairness.conduct import EarlyGrafts, Offence
from hearsay.node.fairness.turns import Turns
from hearsay.node.incoming.admission import Admission
from hearsay.node.incoming.intake import Intake
from hearsay.node.incoming.statistics import Statistics
from hearsay.node.incoming.validation import Validation, ValidationLimits
from hearsay.node.incoming.verification import Verdicts, Verification
from hearsay.node.meeting.address_records import take_records, with_records
from hearsay.node.outgoing_queue import OutgoingMemory, OutgoingRpc, Priority, by_priority
from hearsay.node.peer_link import PeerLink
from hearsay.wire.decode import DecodedRpc, decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.limits import WireError
from hearsay.wire.message_ids import MessageIds
from hearsay.wire.signing import Fault, SignaturePolicy, plain_fault, signature_fault
from hearsay.wire.splitting import split_rpc

if TYPE_CHECKING:
    from hearsay.node.live_trace import LiveTrace

_BOUNDED = (PartKind.SUBSCRIBE, PartKind.PUBLISH)
"""Parts that no honest peer sends too many of; GRAFTs and ids beyond a limit come from honest ones, too."""

_rpc_received = fast_init(RpcReceived)
_message_validated = fast_init(MessageValidated)

_NEW_MESSAGE = 2
"""Parts of its allowance that a peer gets back for a message that was new: the message, and the RPC it came in."""
_IDS_PER_PART = 8
"""Ids count as parts of an RPC; so many of them as one."""


def _parts(control: Control) -> int:
    """What a control message costs of a peer's allowance."""
    ids = (
        sum([len(part.ids) for part in control.ihave])
        + sum([len(part.ids) for part in control.iwant])
        + sum([len(part.ids) for part in control.idontwant])
        + sum([len(part.peers) for part in control.prune])
    )
    return (
        ids // _IDS_PER_PART
        + len(control.ihave)
        + len(control.iwant)
        + len(control.idontwant)
        + len(control.graft)
        + len(control.prune)
        + len(control.extensions)
        + len(control.episub)
    )


def _overlooked(peer: PeerId, offence: Offence, count: int) -> None:
    """Without anybody who holds peers to something."""


class Driver:
    """The node gives what is not its business: `deliver` to the application, do what the router may `ask` for,
    `disconnect` peers, `learn` a signed address, know the `record_of` a peer and the `address_of` one, and hear when
    somebody may have become `reachable`, that a peer has committed an `offence`, or that the router has `failed`."""

    def __init__(
        self,
        config: NodeConfig,
        peer: PeerId,
        clock: Clock,
        *,
        deliver: Callable[[Deliver], None],
        ask: Callable[[Dial | Ping | FindContacts], None],
        disconnect: Callable[[PeerId], None],
        learn: Callable[[bytes, PeerId], None],
        record_of: Callable[[PeerId], bytes | None],
        address_of: Callable[[PeerId], str],
        reachable: Callable[[], None],
        failed: Callable[[RouterFailed], None],
        resources: Resources,
        budget_of: Callable[[PeerId], Budget],
        offence: Callable[[PeerId, Offence, int], None] = _overlooked,
    ) -> None:
        kind, parameters = config.router_parameters()
        self._limits = config.limits
        self._clock = clock
        self._deliver = deliver
        self._ask = ask
        self._disconnect = disconnect
        self._learn = learn
        self._record_of = record_of
        accepts_exchange = bool(getattr(parameters, "accept_exchange", False))
        self._exchanged_peers = int(getattr(parameters, "exchange_peers", 0)) if accepts_exchange else 0
        self._address_of = address_of
        self._reachable = reachable
        self._failed = failed
        self._offence = offence
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
        self.links: dict[PeerId, PeerLink] = {}
        self.statistics = Statistics()
        self.trace: LiveTrace | None = None
        limits = config.limits
        self.validation = Validation(
            ValidationLimits(
                concurrent=limits.concurrent_validations,
                threads=limits.validation_threads,
                deadline_s=limits.validation_s,
                pending=parameters.max_pending_validations,
                pending_per_peer=limits.pending_validations_per_peer,
                pending_bytes_per_peer=limits.pending_validation_bytes_per_peer,
            ),
            resources.share("validations", limits.pending_validation_bytes),
            budget_of,
            self._decided,
            self.statistics,
        )
        held = resources.share("RPCs held back", limits.held_back_bytes)
        self._admission = Admission(self.validation, held, self.statistics, self._is_new, self._hand_over)
        self._turns = Turns(monotonic, asyncio.get_running_loop().call_soon)
        self._verification = Verification(limits.verification_threads, self._is_new)
        self._unverified = resources.share("messages whose signatures wait", limits.unverified_bytes)
        self._leaving: dict[PeerId, PeerLink] = {}
        """Links of peers that are gone, and sent something that is not handled."""
        self._early_grafts = EarlyGrafts(monotonic, limits.conduct.backoff_grace_s)
        self._to_flush: dict[PeerId, PeerLink] = {}
        self._outgoing = OutgoingMemory(resources.share("outgoing", limits.outgoing_bytes))
        self._last_encoded: tuple[Rpc, list[OutgoingRpc]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._sent = self._dropped = 0
        self._arm()

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
                self._perform(action)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            what = f"handling {type(event).__name__}"
            self._give_up(f"after {what}, asking for what cannot be done", error)
        self._last_encoded = None
        if self.router.due != self._armed_for and self.failure is None:
            self._arm()

    def publish(self, event: Event) -> tuple[int, int]:
        """Feed a publication; to how many peers it goes, and how many have no room for it."""
        self._sent = self._dropped = 0
        self.feed(event)
        return self._sent, self._dropped

    def peer_up(self, peer: PeerId) -> None:
        """A connection is there; its pubsub streams are not."""
        limits = self._limits
        intake = Intake(
            peer,
            self,
            self._turns,
            self._verification,
            Allowance(limits.parts_per_s, limits.parts_at_once, monotonic()),
            Budget("unverified", limits.unverified_bytes_per_peer, (self._unverified,)),
            limits.rpc.max_rpc_bytes,
            monotonic,
        )
        self.links[peer] = PeerLink(
            peer,
            limits.peer_queue_bytes,
            self._outgoing,
            self._address_of(peer),
            intake,
            left=self._left,
            lost=self._lost,
        )

    def peer_down(self, peer: PeerId) -> None:
        """A connection is gone. What the peer sent before is handled; then the router hears of it."""
        link = self.links.pop(peer, None)
        self._early_grafts.gone(peer)
        if link is None:
            return
        link.settled.set()
        link.queue.clear()
        self._to_flush.pop(peer, None)
        if link.connected:
            link.outbound = None
            self._leaving[peer] = link
            link.intake.leave(lambda: self._gone(peer))
        else:
            link.intake.end()
            self._admission.forget(peer)

    def outbound_open(self, link: PeerLink, stream: Stream) -> None:
        """The peer speaks pubsub: the router may know it."""
        before = self._leaving.get(link.peer)
        if before is not None:
            before.intake.end()
        link.outbound = stream
        self.feed(PeerConnected(link.peer, stream.protocol, address=self._address_of(link.peer)))
        link.set_outbound(stream)
        link.settled.set()

    def outbound_lost(self, link: PeerLink) -> None:
        if link.connected:
            link.set_outbound(None)
            self._to_flush.pop(link.peer, None)
            self.feed(PeerDisconnected(link.peer))

    def _gone(self, peer: PeerId) -> None:
        del self._leaving[peer]
        self._admission.forget(peer)
        self.feed(PeerDisconnected(peer))

    def inbound_open(self, stream: Stream) -> None:
        """A peer opened its stream to us."""
        link = self.links.get(stream.peer)
        if link is None:
            stream.reset()
        else:
            link.intake.receive_from(stream)

    async def flush(self) -> None:
        """Wait until all queues are empty and their bytes have left."""
        self._flush()
        await asyncio.gather(*(link.drain() for link in list(self.links.values())))

    async def make_room(self) -> None:
        """Wait until the queues that are more than half full are empty."""
        self._flush()
        most = self._limits.peer_queue_bytes // 2
        crowded = [link.drain() for link in self.links.values() if link.queue.bytes > most]
        if crowded:
            await asyncio.gather(*crowded)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for link in (*self.links.values(), *self._leaving.values()):
            link.intake.end()
        await self._verification.close()
        await self.validation.close()
        if self.trace is not None:
            await self.trace.close()

    def _give_up(self, what: str, error: Exception) -> None:
        self.failure = self._failure(what, error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._failed(self.failure)

    def _failure(self, what: str, error: Exception) -> RouterFailed:
        failure = RouterFailed(f"router {self._name} failed at this node, {what}: {describe_error(error)}")
        failure.__cause__ = error
        return failure

    def decode(self, data: bytes, episub: bool) -> DecodedRpc | None:
        try:
            return decode_rpc(data, self.message_ids, self._limits.rpc, episub)
        except WireError:
            self.statistics.rpcs_received += 1
            self.statistics.bytes_received += len(data)
            return None

    def malformed(self, intake: Intake) -> None:
        self.statistics.malformed_rpcs += 1
        self._blame(intake.peer, Offence.MALFORMED, 1)

    def over_allowance(self, intake: Intake) -> None:
        self._blame(intake.peer, Offence.OVER_LIMIT, 1)

    def received(self, intake: Intake, size: int, decoded: DecodedRpc, episub: bool) -> Rpc:
        statistics = self.statistics
        statistics.rpcs_received += 1
        statistics.bytes_received += size
        statistics.left_out_parts += decoded.left_out
        rpc = decoded.rpc
        intake.allowance.left -= 1 + len(rpc.messages) + len(rpc.subscriptions) + decoded.left_out
        if self.trace is not None:
            self.trace.received(intake.peer, rpc)
        over = len(rpc.messages) - self.router.parameters.max_messages_per_rpc
        if over > 0:
            self._perform(PartDropped(intake.peer, PartKind.PUBLISH, over, Reason.OVER_LIMIT))
            rpc = replace(rpc, messages=rpc.messages[:-over])
        control = rpc.control
        if control is None:
            return rpc
        intake.allowance.left -= _parts(control)
        rpc, records = take_records(rpc)
        if self.router.strategy.chooses_connections and episub:
            for record in records:
                self._learn(record, intake.peer)
        if self._exchanged_peers:
            for prune in control.prune:
                named = prune.peers[: self._exchanged_peers] if prune.topic in self.router.joined else ()
                for known in named:
                    if known.record is not None:
                        self._learn(known.record, intake.peer)
        return rpc

    def unproven(self, rpc: Rpc) -> list[Message]:
        return [
            message
            for message in rpc.messages
            if message.signature is not None
            and self._is_new(message)
            and plain_fault(message, self.policy(str(message.topic))) is None
        ]

    def let_in(self, intake: Intake, rpc: Rpc, verdicts: Verdicts) -> None:
        now_us = self._clock()
        if rpc.messages:
            # What is seen now is so for the router, too: at a later time it might have forgotten, and not look again.
            self.router.seen.expire(now_us)
            rpc = self._authentic(intake, rpc, verdicts)
            self._admission.admit(intake, rpc, now_us)
        else:
            self._hand_over(intake, rpc, now_us)

    def _hand_over(self, intake: Intake, rpc: Rpc, now_us: Micros | None) -> None:
        """An RPC, or a part of one, into the router."""
        peer = intake.peer
        if peer in self.router.connected:
            accepted = not self.validation.looks
            self.feed(_rpc_received(peer, rpc, accepted), None if now_us is None else max(now_us, self.router.now))
            if rpc.subscriptions:
                self._reachable()

    def _is_new(self, message: Message) -> bool:
        """Whether a message would be taken. Those seen before, and of topics not joined, need no second look."""
        router = self.router
        return message.topic in router.joined and message.id not in router.seen.known

    def _authentic(self, intake: Intake, rpc: Rpc, verdicts: Verdicts) -> Rpc:
        """Without the messages whose signatures are wrong.

        This is done before the router marks a message as seen: else a forged copy would keep out the true one.
        """
        refused: list[tuple[Message, Fault]] = []
        for message in rpc.messages:
            if not self._is_new(message):
                continue
            fault = plain_fault(message, self.policy(str(message.topic)))
            if fault is None and message.signature is not None:
                number = id(message)
                fault = verdicts[number] if number in verdicts else signature_fault(message)
            if fault is not None:
                refused.append((message, fault))
            else:
                intake.allowance.left += _NEW_MESSAGE
        if not refused:
            return rpc
        self.statistics.bad_signatures += len(refused)
        for message, _ in refused:
            self._trace(MessageRejected(message, intake.peer, Reason.BAD_SIGNATURE))
        forged = sum(fault.forged for _, fault in refused)
        if forged:
            self._blame(intake.peer, Offence.FORGED, forged)
        kept = tuple(message for message in rpc.messages if not any(message is wrong for wrong, _ in refused))
        return replace(rpc, messages=kept)

    def _blame(self, peer: PeerId, offence: Offence, count: int) -> None:
        """A peer did something no honest one does. Of one that is gone nothing more is taken then."""
        self._offence(peer, offence, count)
        link = self._leaving.get(peer)
        if link is not None:
            link.intake.end()

    def _perform(self, action: Action) -> None:
        match action:
            case Send():
                self._send(action)
            case Deliver():
                self.statistics.delivered += 1
                if self.trace is not None:
                    self.trace.delivered(action)
                self._deliver(action)
            case Validate():
                self._validate(action)
            case Dial() | Ping() | FindContacts():
                self._ask(action)
            case Disconnect():
                assert isinstance(action.peer, bytes)
                self._disconnect(action.peer)
            case _:
                if isinstance(action, DuplicateReceived):
                    self.statistics.duplicates += 1
                    self.validation.copy_came(action.message_id, action.peer)
                elif isinstance(action, MessageRejected):
                    self.statistics.rejected += 1
                    if action.reason is Reason.REJECTED:
                        self._offended(action.peer, Offence.REJECTED)
                elif isinstance(action, PartDropped):
                    self.statistics.parts_dropped += action.count
                    if action.reason is Reason.BACKOFF and self._broke_backoff(action):
                        self._offended(action.peer, Offence.BACKOFF_BROKEN)
                    elif action.reason is Reason.OVER_LIMIT and action.kind in _BOUNDED:
                        self._offended(action.peer, Offence.OVER_LIMIT)
                elif isinstance(action, MessagePublished):
                    self.statistics.published += 1
                elif isinstance(action, PeerGrafted | LinkEager):
                    self._early_grafts.grafted(action.peer, action.topic)
                    asyncio.get_running_loop().call_soon(self._reachable)
                self._trace(action)

    def _offended(self, peer: Identifier, offence: Offence) -> None:
        assert isinstance(peer, bytes)
        self._blame(peer, offence, 1)

    def _broke_backoff(self, action: PartDropped) -> bool:
        """Whether a peer that said GRAFT in backoff must have known."""
        peer = self.router.connected.get(action.peer)
        if peer is None or peer.protocol != MESHSUB_11 or action.topic is None:
            return False
        return not self._early_grafts.forgives(action.peer, action.topic)

    def _trace(self, action: TraceAction) -> None:
        if self.trace is not None:
            self.trace.happened(action)

    def _validate(self, action: Validate) -> None:
        message, sender = action.message, action.received_from
        assert isinstance(sender, bytes)
        verdict = self.validation.ask(message, sender)
        if verdict is not None:
            self.feed(_message_validated(message.id, verdict))

    def _decided(self, message: Message, senders: list[PeerId], verdict: Verdict) -> None:
        """A validator that took its time has answered."""
        if message.id in self.router.pending:
            self.feed(MessageValidated(message.id, verdict))
        self._admission.verdict_came(senders)

    def _send(self, action: Send) -> None:
        assert isinstance(action.peer, bytes)
        link = self.links.get(action.peer)
        if link is None or not link.connected:
            return
        self._sent += bool(action.rpc.messages)
        last = self._last_encoded
        if last is not None and last[0] is action.rpc:
            for entry in last[1]:
                self._queue(link, entry)
        else:
            self._encode(action, link)
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush[link.peer] = link

    def _encode(self, action: Send, link: PeerLink) -> None:
        """Frames for the parts of an RPC, each queued before the next is made: a short request may ask for much more
        than there is room for. One message goes to many peers, so what was made whole is kept for the next."""
        rpc = action.rpc
        if rpc.control is not None and any(prune.peers for prune in rpc.control.prune):
            rpc = replace(rpc, control=self._with_records(rpc.control))
        if rpc.control is not None and rpc.control.episub:
            rpc = replace(rpc, control=with_records(rpc.control, self._record_of))
        entries: list[OutgoingRpc] = []
        whole = True
        for priority, part in by_priority(rpc):
            pieces, oversized = split_rpc(part, self._limits.rpc.max_rpc_bytes)
            self.statistics.messages_dropped += len(oversized)
            several = len(pieces) > 1
            for piece in pieces:
                traced = self.trace.parts(piece, () if several else action.vias) if self.trace is not None else ()
                again = piece if priority is Priority.CONTROL else None
                entry = OutgoingRpc(priority, b"", len(piece.messages), again, traced)
                if several and not link.queue.make_room(rpc_size(piece), priority):
                    self._lost(link, entry)
                    self._dropped += bool(entry.messages)
                    continue
                entry.frame = frame(encode_rpc(piece))
                self._queue(link, entry)
                entries.append(entry)
            whole = whole and not several
        if whole:
            self._last_encoded = action.rpc, entries

    def _queue(self, link: PeerLink, entry: OutgoingRpc) -> None:
        if not link.queue.push(entry):
            self._dropped += bool(entry.messages)

    def _with_records(self, control: Control) -> Control:
        """Peer exchange with the signed addresses of those whose addresses are known."""
        prunes = [
            replace(
                prune,
                peers=tuple(
                    replace(known, record=self._record_of(known.peer))
                    for known in prune.peers
                    if isinstance(known.peer, bytes)
                ),
            )
            for prune in control.prune
        ]
        return replace(control, prune=tuple(prunes))

    def _flush(self) -> None:
        links, self._to_flush = self._to_flush, {}
        for link in links.values():
            link.flush()

    def _left(self, link: PeerLink, entries: list[OutgoingRpc]) -> None:
        """Entries of a queue went into the stream."""
        statistics = self.statistics
        for entry in entries:
            statistics.rpcs_sent += 1
            statistics.bytes_sent += len(entry.frame)
            if self.trace is not None:
                self.trace.sent(link.peer, entry.traced)

    def _lost(self, link: PeerLink, entry: OutgoingRpc) -> None:
        """An entry did not find room in a peer's queue."""
        statistics = self.statistics
        if entry.priority is Priority.GOSSIP:
            statistics.gossip_dropped += 1
        elif entry.priority is Priority.MESSAGE:
            statistics.messages_dropped += entry.messages
        else:
            statistics.control_dropped += 1
            assert entry.again is not None
            asyncio.get_running_loop().call_soon(self._say_again, link, entry.again)
        if self.trace is not None:
            self.trace.dropped(link.peer, entry.traced)

    def _say_again(self, link: PeerLink, rpc: Rpc) -> None:
        if link.connected and self.links.get(link.peer) is link:
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
            self.feed(TimerFired())
        else:
            self._arm()
