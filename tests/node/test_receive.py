"""The path of an RPC to the router, without sockets and threads: bytes and verdicts are input, events output."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from test_intake import ExpensiveAuthor

from hearsay.core.language.actions import PartDropped, Reason
from hearsay.core.language.events import Join, MessageRefused, PeerConnected, RpcReceived, StreamOpened
from hearsay.core.language.rpc import MESHSUB_11, Control, IWant, Rpc, Subscription
from hearsay.core.registry import create
from hearsay.core.rules.randomness import Randomness
from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.resources import Budget, ResourceLimits, Resources
from hearsay.node.conduct import Offence, Statistics
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.receive import PeerInput, Receiver
from hearsay.node.receive_events import CheckNeeded, Misconduct, PauseNeeded, RpcAdmitted, RpcDecoded
from hearsay.node.validation import Validation
from hearsay.wire.encode import encode_rpc
from hearsay.wire.messages import by_content
from hearsay.wire.signing import Author, SignaturePolicy, signature_fault

OWN, OTHER = (peer_id_of(PrivateKey.generate().public) for _ in range(2))
CHEAP = Author(PrivateKey.generate(), 1)


@dataclass
class Machine:
    """A router in the topic `news` with one peer, whose bytes go through a `PeerInput`; the test sets the clock."""

    config: NodeConfig = field(default_factory=NodeConfig)
    now_us: int = 0

    def __post_init__(self):
        kind, parameters = self.config.router_parameters()
        resources = Resources(ResourceLimits())
        self.router = create(kind, OWN, parameters, Randomness(1), 0)
        self.statistics = Statistics()
        self.validation = Validation(
            self.config.limits,
            parameters.max_pending_validations,
            resources.share("validations", self.config.limits.pending_validation_bytes),
            lambda peer: Budget("peer", 1 << 30),
            lambda message, senders, verdict: None,
            self.statistics,
        )
        self.receiver = Receiver(
            self.config, self.router, resources, self.validation, self.statistics, lambda: self.now_us
        )
        self.input = PeerInput(self.receiver, OTHER)
        self.router.handle(Join("news"), 0)
        self.router.handle(PeerConnected(OTHER, MESHSUB_11), 0)

    def feed(self, *rpcs):
        self.input.feed(b"".join(frame(encode_rpc(rpc)) for rpc in rpcs))

    def events(self):
        """Return all events that the input can give now; admitted RPCs also go to the router."""
        found = []
        while (events := self.input.step()) is not None:
            for event in events:
                if isinstance(event, RpcAdmitted):
                    self.router.handle(RpcReceived(event.peer, event.rpc, True, event.portion), event.now_us)
            found += events
            if any(isinstance(event, PauseNeeded) for event in events):
                break
        return found

    def admitted(self):
        return [event.portion.messages if event.portion else event.rpc.messages for event in self.events()
                if isinstance(event, RpcAdmitted)]  # fmt: skip


def news(data):
    return CHEAP.write("news", data, SignaturePolicy.STRICT_SIGN)


def data_of(admitted):
    return [[message.data for message in messages] for messages in admitted]


def kinds(events):
    return [type(event) for event in events]


def test_a_topic_may_have_message_ids_of_its_own():
    receiver = Machine().receiver
    receiver.id_functions["content"] = by_content
    assert receiver.message_id("other", b"peer", b"number", b"data") == b"peernumber"
    assert receiver.message_id("content", b"peer", b"number", b"data") == by_content("content", None, None, b"data")


def test_an_rpc_is_observed_and_then_admitted_whole():
    machine = Machine()
    machine.feed(Rpc((Subscription("news", True),), (news(b"one"), news(b"two"))))
    decoded, admitted = machine.events()
    assert isinstance(decoded, RpcDecoded)
    assert isinstance(admitted, RpcAdmitted)
    assert decoded.rpc is admitted.rpc
    assert admitted.portion is None
    assert (machine.statistics.rpcs_received, machine.input.empty) == (1, True)


def test_bytes_may_come_one_by_one():
    machine = Machine()
    for byte in frame(encode_rpc(Rpc(messages=(news(b"slowly"),)))):
        assert machine.admitted() == []
        machine.input.feed(bytes([byte]))
    assert data_of(machine.admitted()) == [[b"slowly"]]


@pytest.mark.parametrize("data", [frame(b"\xff\xff"), b"\xff\xff\xff\xff\x7f"])
def test_a_frame_that_cannot_be_read_ends_its_stream(data):
    machine = Machine()
    machine.input.feed(data)
    assert machine.events() == [Misconduct(OTHER, Offence.MALFORMED, 1)]
    assert (machine.statistics.malformed_rpcs, machine.input.empty) == (1, True)


def test_a_forged_message_is_refused_and_the_others_of_its_rpc_are_admitted():
    machine = Machine()
    true, forged = news(b"true"), news(b"forged")
    forged = type(forged)(b"", "news", b"other", forged.source, forged.seqno, forged.signature)
    machine.feed(Rpc(messages=(true, forged)))
    _, refused, misconduct, admitted = machine.events()
    assert isinstance(refused, MessageRefused)
    assert refused.reason is Reason.BAD_SIGNATURE
    assert misconduct == Misconduct(OTHER, Offence.FORGED, 1)
    assert [message.data for message in admitted.portion.messages] == [b"true"]
    assert machine.statistics.bad_signatures == 1


def test_many_messages_are_admitted_in_portions():
    machine = Machine()
    machine.feed(Rpc(messages=tuple(news(b"%d" % number) for number in range(10))))
    assert list(map(len, machine.admitted())) == [4, 4, 2]
    assert machine.receiver.waiting_bytes.used == 0


def test_expensive_signatures_are_checked_elsewhere_and_hold_up_what_follows():
    machine = Machine()
    expensive = ExpensiveAuthor().write(b"expensive")
    machine.feed(Rpc(messages=(expensive,)), Rpc(messages=(news(b"behind"),)))
    *_, check, behind = machine.events()
    assert isinstance(check, CheckNeeded)
    assert isinstance(behind, RpcDecoded)
    assert machine.events() == []
    machine.input.checked({id(message): signature_fault(message) for message in check.messages})
    assert data_of(machine.admitted()) == [[b"expensive"], [b"behind"]]


def test_without_room_at_the_validators_an_rpc_waits_for_a_verdict():
    limits = NodeLimits(concurrent_validations=0, pending_validations_per_peer=1)
    machine = Machine(NodeConfig(limits=limits))

    async def never(message):
        return True

    machine.validation.add("news", never, False)
    machine.feed(Rpc(messages=(news(b"one"),)))
    (pending,) = machine.admitted()[0]
    assert machine.validation.ask(pending, OTHER) is None
    machine.feed(Rpc(messages=(news(b"two"),)))
    assert machine.admitted() == []
    assert machine.input.paused
    assert list(machine.receiver.peers_to_resume([OTHER])) == [OTHER]
    assert machine.admitted() == []
    assert machine.input.paused, "there is no room yet"
    machine.validation.remove("news", never)
    assert list(machine.receiver.peers_to_resume([OTHER])) == [OTHER]
    assert data_of(machine.admitted()) == [[b"two"]]
    asyncio.run(machine.validation.close())


def test_without_room_to_wait_a_frame_is_kept_and_tried_again():
    machine = Machine()
    machine.receiver.waiting_bytes.reserve(machine.receiver.waiting_bytes.limit)
    machine.feed(Rpc(messages=tuple(news(b"%d" % number) for number in range(5))))
    assert kinds(machine.events()) == [PauseNeeded]
    assert machine.statistics.rpcs_received == 0
    machine.receiver.waiting_bytes.release(machine.receiver.waiting_bytes.limit)
    assert list(map(len, machine.admitted())) == [4, 1]


def test_messages_beyond_the_limit_of_an_rpc_are_dropped_before_their_signatures_are_checked():
    machine = Machine(NodeConfig(parameters={"max_messages_per_rpc": 2}))
    machine.feed(Rpc(messages=tuple(news(b"%d" % number) for number in range(4))))
    decoded, dropped, admitted = machine.events()
    assert isinstance(decoded, RpcDecoded)
    assert isinstance(dropped, PartDropped)
    assert (dropped.count, dropped.reason) == (2, Reason.OVER_LIMIT)
    assert data_of([admitted.portion.messages]) == [[b"0", b"1"]]


def test_an_allowance_that_is_used_up_refills_with_time():
    machine = Machine(NodeConfig(limits=NodeLimits(parts_per_s=1, parts_at_once=10)))
    machine.feed(*[Rpc(control=Control(iwant=(IWant((b"x",)),)))] * 10)
    machine.events()
    machine.now_us = 2_000_000
    rest, misconduct = machine.input.over_allowance()
    assert rest == PauseNeeded(pytest.approx(8.0), True)
    assert misconduct == Misconduct(OTHER, Offence.OVER_LIMIT, 1)
    assert len(machine.input.over_allowance()) == 1, "not reported again so soon"
    machine.now_us = 10_000_000
    assert machine.input.over_allowance() == []


def test_the_first_rpc_of_a_stream_that_replaces_another_says_so():
    machine = Machine()
    machine.input.open_stream(None, False, True)
    machine.feed(Rpc(messages=(news(b"first"),)), Rpc(messages=(news(b"second"),)))
    assert kinds(machine.events()) == [RpcDecoded, StreamOpened, RpcAdmitted, RpcDecoded, RpcAdmitted]


def test_what_is_left_at_the_end_is_counted_and_gives_its_room_back():
    machine = Machine()
    machine.feed(Rpc(messages=(ExpensiveAuthor().write(b"never"),)))
    machine.events()
    assert machine.receiver.waiting_bytes.used
    machine.input.end()
    assert (machine.statistics.abandoned_rpcs, machine.receiver.waiting_bytes.used) == (1, 0)
