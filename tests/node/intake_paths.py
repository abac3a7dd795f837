"""Random RPCs on every path from a socket to the router of a real node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace

from hypothesis import strategies as st
from rpcs import RPCS
from test_intake import ExpensiveAuthor
from waiting import patience, until

from hearsay.core.language.events import RpcReceived
from hearsay.core.language.rpc import MESHSUB_13, Message, Rpc, Subscription
from hearsay.core.shell.router import Router
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_content
from hearsay.wire.signing import Author, SignaturePolicy

CHEAP = Author(PrivateKey.generate(), 1)
RECEIVED: list[RpcReceived] = []


class RecordingRouter(Router):
    """A router that also records the received RPCs in `RECEIVED`."""

    __slots__ = ()

    def handle(self, event, now):
        if type(event) is RpcReceived:
            RECEIVED.append(event)
        return super().handle(event, now)


@dataclass
class Sent:
    """RPCs of one peer: their parts other than messages, their numbers of messages, and whether the signatures of
    these messages are expensive.
    """

    rpcs: list[Rpc]
    counts: list[int]
    expensive: list[bool] = field(default_factory=list)


@st.composite
def sent_rpcs(draw, most_messages=11):
    rpcs = draw(st.lists(RPCS, min_size=1, max_size=5))
    counts = [draw(st.integers(0, most_messages)) for _ in rpcs]
    return Sent(rpcs, counts, [draw(st.booleans()) for _ in rpcs])


async def slow(message):
    await asyncio.sleep(0)
    return True


@dataclass(frozen=True)
class Path:
    """Settings of a node, and acts of its peer, with which RPCs take one of the paths to the router."""

    limits: dict[str, int] = field(default_factory=dict)
    validator: Callable | None = None
    signed: bool = False
    leaves: bool = False


PATHS = {
    "direct": Path(),
    "validators with room": Path(validator=slow),
    "validators without room": Path({"pending_validations_per_peer": 2}, slow),
    "expensive signatures": Path(signed=True),
    "little room to wait": Path({"unverified_bytes_per_peer": 3000, "unverified_bytes": 4000}, slow, signed=True),
    "the peer leaves": Path(validator=slow, leaves=True),
}

LAST = Rpc((Subscription("end of the test", True),))


@asynccontextmanager
async def recording_node(path):
    policy = SignaturePolicy.STRICT_SIGN if path.signed else SignaturePolicy.STRICT_NO_SIGN
    limits = NodeLimits(**path.limits)
    config = NodeConfig(signatures=policy, message_id=by_content, limits=limits, parameters={"test_extension": True})
    async with Node(config) as node:
        node._enforcer.add_offences = lambda *offence: None
        node._running.router.__class__ = RecordingRouter
        await node.join("news")
        if path.validator is not None:
            node.add_validator("news", path.validator)
        yield node


def assert_received(name, sent):
    """Send RPCs on a path, and assert that the router receives them all; return their number."""

    async def once():
        async with patience():
            return await received_on(PATHS[name], sent, ExpensiveAuthor())

    expected, received = asyncio.run(once())
    assert received == expected
    return len(expected)


async def received_on(path, sent, author):
    """Return the RPCs as decoded from the sent bytes, and the RPCs that the router received."""
    expected = []
    RECEIVED.clear()
    async with recording_node(path) as node:
        host = Host()
        host.handle(MESHSUB_13, lambda stream: None)
        try:
            await host.dial(node.addresses[0])
            stream = await host.open_stream(node.peer, [MESHSUB_13])
            for number, (rpc, count, expensive) in enumerate(
                zip(sent.rpcs, sent.counts, sent.expensive, strict=True)
            ):
                data = [b"%d %d" % (number, place) for place in range(count)]
                messages = tuple(
                    _message(each, author if path.signed and expensive else None, path.signed) for each in data
                )
                encoded = encode_rpc(replace(rpc, messages=messages))
                if encoded:  # An empty frame has no parts; the intake counts it and drops it.
                    expected.append(decode_rpc(encoded, by_content, RpcLimits()).rpc)
                stream.write(frame(encoded))
            stream.write(frame(encode_rpc(LAST)))
            if path.leaves:
                await stream.drain()
                await until(lambda: RECEIVED)
                await host.close()
            await until(lambda: len(join_portions(RECEIVED)) > len(expected))
        finally:
            await host.close()
        assert node.statistics.abandoned_rpcs == 0
    return expected, join_portions(RECEIVED)[:-1]


def _message(data, author, signed):
    if not signed:
        return Message(b"", "news", data)
    return author.write(data) if author is not None else CHEAP.write("news", data, SignaturePolicy.STRICT_SIGN)


def join_portions(events):
    """Return the RPCs of received events, with the portions of an RPC joined."""
    rpcs = []
    for event in events:
        portion = event.portion
        part = event.rpc if portion is None else portion.of(event.rpc)
        if portion is None or portion.is_first:
            rpcs.append(part)
        else:
            rpcs[-1] = join_two(rpcs[-1], part)
    return rpcs


def join_two(one, other):
    """Join two portions of an RPC. Fail if both have the same single part, which would be handled twice."""
    parts = {}
    for each in fields(one):
        first, second = getattr(one, each.name), getattr(other, each.name)
        if isinstance(first, tuple):
            parts[each.name] = first + second
        elif each.name == "control" and first is not None and second is not None:
            parts[each.name] = join_two(first, second)
        else:
            assert first is None or second is None
            parts[each.name] = second if first is None else first
    return type(one)(**parts)
