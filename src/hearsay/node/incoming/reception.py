"""Input of peers on its way to the router: counted, within allowances, with room at the validators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from hearsay.core.language.actions import MessageRejected, PartDropped, Reason
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.rpc import Control, Features, Message, PartKind, Portion, Rpc
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Dialling
from hearsay.libp2p.limits.rates import Allowance
from hearsay.libp2p.limits.resources import Budget, Resources
from hearsay.libp2p.limits.turns import Turns
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.config import NodeLimits
from hearsay.node.fairness.conduct import Offence
from hearsay.node.incoming.intake import MESSAGES_AT_ONCE, IncomingRpc, Intake
from hearsay.node.incoming.statistics import Statistics
from hearsay.node.incoming.validation import Validation
from hearsay.node.incoming.verification import Verdicts, Verification
from hearsay.node.meeting.address_records import take_records
from hearsay.wire.decode import DecodedRpc, decode_rpc
from hearsay.wire.fields import WireError
from hearsay.wire.messages import MessageIds
from hearsay.wire.signing import Fault, SignaturePolicy, plain_fault, signature_fault

if TYPE_CHECKING:
    from hearsay.node.metrics.measurements import Durations
    from hearsay.node.metrics.traffic import Traffic
    from hearsay.node.trace_rows import TraceRows


class Admission:
    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._waiting: dict[PeerId, Intake] = {}
        self._idle: dict[PeerId, None] = {}
        """Those of them for whom no verdict of their own will make room: other peers take it all."""

    def has_room(self, intake: Intake, message: Message) -> bool:
        """Whether a message can wait for its verdict; if not, its peer waits."""
        peer = intake.peer
        if self._validation.has_room(peer, message):
            self.forget(peer)
            return True
        self._waiting.setdefault(peer, intake)
        if self._validation.pending(peer):
            self._idle.pop(peer, None)
        else:
            self._idle.setdefault(peer)
        intake.set_paused(True)
        return False

    def verdict_came(self, peers: Iterable[PeerId]) -> None:
        """A message of these peers waits no more: they may go on, and so may others."""
        for peer in peers:
            if peer in self._waiting:
                self._waiting[peer].set_paused(False)
        for peer in list(self._idle):
            if self._validation.full:
                return
            if peer in self._idle:
                self._waiting[peer].set_paused(False)

    def forget(self, peer: PeerId) -> None:
        self._waiting.pop(peer, None)
        self._idle.pop(peer, None)


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
        + len(control.features)
        + len(control.episub)
    )


class RouterHost(Protocol):
    """The driver of the router, to which RPCs go."""

    def policy(self, topic: str) -> SignaturePolicy: ...

    def blame(self, peer: PeerId, offence: Offence, count: int) -> None: ...

    def perform(self, action: PartDropped) -> None: ...

    def refused(self, message: Message, peer: PeerId, reason: Reason) -> None: ...

    def stream_opened(self, peer: PeerId) -> None: ...

    def hand_over(self, intake: Intake, rpc: Rpc, portion: Portion | None, now_us: Micros) -> None: ...


class Reception:
    def __init__(
        self,
        host: RouterHost,
        router: Router,
        clock: Callable[[], Micros],
        limits: NodeLimits,
        resources: Resources,
        validation: Validation,
        statistics: Statistics,
        message_ids: MessageIds,
        learn: Callable[[bytes, PeerId, PeerId | None], None],
    ) -> None:
        """`learn` takes a signed address, its sender, and the peer that it is said to belong to."""
        self._host = host
        self._router = router
        self._clock = clock
        self._limits = limits
        self._statistics = statistics
        self._message_ids = message_ids
        self._learn = learn
        self._judge = router.strategy.judge
        self.trace: TraceRows | None = None
        self.traffic: Traffic | None = None
        self.durations: Durations | None = None
        self._exchanged_peers = int(getattr(router.parameters, "dials_per_prune", 0))
        self._validation = validation
        self._admission = Admission(validation)
        self._turns = Turns(monotonic, asyncio.get_running_loop().call_soon)
        self._verification = Verification(limits.verification_threads, self._is_new)
        self._waiting = resources.share("RPCs that wait", limits.unverified_bytes)

    def intake_of(self, peer: PeerId) -> Intake:
        """For what comes in of a peer from now on."""
        limits = self._limits
        return Intake(
            peer,
            self,
            self._turns,
            self._verification,
            Allowance(limits.parts_per_s, limits.parts_at_once, monotonic()),
            Budget("RPCs that wait", limits.unverified_bytes_per_peer, (self._waiting,)),
            limits.rpc.max_rpc_bytes,
            monotonic,
        )

    def said_by(self, peer: PeerId) -> tuple[tuple[TopicId, ...], Features | None]:
        """The topics and extensions of a peer that the router knows."""
        features = self._router.strategy.features
        topics = tuple(sorted(self._router.connected[peer].topics))
        return topics, None if features is None else features.features_of(peer)

    def forget(self, peer: PeerId) -> None:
        self._admission.forget(peer)

    def verdict_came(self, senders: list[PeerId]) -> None:
        self._admission.verdict_came(senders)

    async def close(self) -> None:
        await self._verification.close()

    def decode(self, data: bytes, episub: bool) -> DecodedRpc | None:
        try:
            return decode_rpc(data, self._message_ids, self._limits.rpc, episub)
        except WireError:
            self._statistics.rpcs_received += 1
            self._statistics.bytes_received += len(data)
            return None

    def malformed(self, intake: Intake) -> None:
        self._statistics.malformed_rpcs += 1
        self._host.blame(intake.peer, Offence.MALFORMED, 1)

    def over_allowance(self, intake: Intake) -> None:
        self._host.blame(intake.peer, Offence.OVER_LIMIT, 1)

    def received(self, intake: Intake, size: int, decoded: DecodedRpc, episub: bool) -> IncomingRpc:
        statistics = self._statistics
        statistics.rpcs_received += 1
        statistics.bytes_received += size
        statistics.left_out_parts += decoded.left_out
        rpc = decoded.rpc
        intake.allowance.left -= 1 + len(rpc.messages) + len(rpc.subscriptions) + decoded.left_out
        intake.allowance.left -= rpc.partial is not None
        if self.trace is not None:
            self.trace.received(intake.peer, rpc)
        if self.traffic is not None:
            self.traffic.received(rpc)
        if self.durations is not None:
            self.durations.came(rpc.messages)
        rpc, records = take_records(rpc)
        incoming = IncomingRpc(rpc)
        over = incoming.stop - self._router.parameters.max_messages_per_rpc
        if over > 0:
            incoming.stop -= over
            self._host.perform(PartDropped(intake.peer, PartKind.PUBLISH, over, Reason.OVER_LIMIT))
        if self._judge is not None and incoming.stop and not self._judge.accepts_from(intake.peer):
            # Before their signatures cost anything.
            self._host.perform(PartDropped(intake.peer, PartKind.PUBLISH, incoming.stop, Reason.GRAYLISTED))
            incoming.stop = 0
        control = rpc.control
        if control is None:
            return incoming
        intake.allowance.left -= _parts(control) + len(records)
        if self._router.strategy.dialling is Dialling.BY_ROUTER and episub:
            for record in records:
                self._learn(record, intake.peer, None)
        if self._exchanged_peers and (self._judge is None or self._judge.trusts_exchange_of(intake.peer)):
            for prune in control.prune:
                named = prune.peers[: self._exchanged_peers] if prune.topic in self._router.joined else ()
                for known in named:
                    if known.record is not None and isinstance(known.peer, bytes):
                        self._learn(known.record, intake.peer, known.peer)
        return incoming

    @property
    def messages_at_once(self) -> int:
        """While validators are in use, each message has to ask for room by itself."""
        return 1 if self._validation.in_use else MESSAGES_AT_ONCE

    def has_to_wait(self, intake: Intake, messages: tuple[Message, ...]) -> bool:
        if not self._validation.in_use:
            return len(messages) > MESSAGES_AT_ONCE
        return len(messages) > 1 or any(
            self._is_new(message) and not self._validation.has_room(intake.peer, message) for message in messages
        )

    def has_room(self, intake: Intake, incoming: IncomingRpc) -> bool:
        """Whether the next messages can go to the router now. If not, the intake pauses until a verdict."""
        message = next(incoming.waiting(1), None)
        if message is None or not self._validation.in_use:
            return True
        self._router.seen.expire(self._clock())
        return not self._is_new(message) or self._admission.has_room(intake, message)

    def abandoned(self, intake: Intake, incoming: IncomingRpc) -> None:
        self._statistics.abandoned_rpcs += 1

    def is_unproven(self, message: Message) -> bool:
        return (
            message.signature is not None
            and self._is_new(message)
            and plain_fault(message, self._host.policy(str(message.topic))) is None
        )

    def let_in(self, intake: Intake, incoming: IncomingRpc) -> None:
        now_us = self._clock()
        if incoming.opens_stream and not incoming.next:
            self._host.stream_opened(intake.peer)
        messages = tuple(incoming.waiting(self.messages_at_once))
        if messages:
            # The router's view of what is seen: at a later time it might have forgotten, and not check again.
            self._router.seen.expire(now_us)
        portion = incoming.take(len(messages), self._authentic(intake, messages, incoming.verdicts))
        self._host.hand_over(intake, incoming.rpc, portion, now_us)

    def _is_new(self, message: Message) -> bool:
        """Whether a message would be taken. Those seen before, and of topics not joined, need no second look."""
        router = self._router
        return message.topic in router.joined and message.id not in router.seen.known

    def _authentic(self, intake: Intake, messages: tuple[Message, ...], verdicts: Verdicts) -> tuple[Message, ...]:
        """Without the messages whose signatures are wrong.

        This is done before the router marks a message as seen: else a forged copy would keep out the true one.
        """
        refused: list[tuple[Message, Fault]] = []
        for message in messages:
            if not self._is_new(message):
                continue
            fault = plain_fault(message, self._host.policy(str(message.topic)))
            if fault is None and message.signature is not None:
                number = id(message)
                fault = verdicts[number] if number in verdicts else signature_fault(message)
            if fault is not None:
                refused.append((message, fault))
            else:
                intake.allowance.left += _NEW_MESSAGE
        if not refused:
            return messages
        self._statistics.bad_signatures += len(refused)
        for message, fault in refused:
            if self.trace is not None:
                self.trace.happened(MessageRejected(message, intake.peer, fault.reason))
            if self.traffic is not None:
                self.traffic.rejected(message.topic, fault.reason)
            self._host.refused(message, intake.peer, fault.reason)
        forged = sum(fault.forged for _, fault in refused)
        if forged:
            self._host.blame(intake.peer, Offence.FORGED, forged)
        return tuple(message for message in messages if not any(message is wrong for wrong, _ in refused))
