"""Partial messages between our nodes, over real sockets."""

from __future__ import annotations

import pytest
from waiting import run, until

from hearsay.core.language.rpc import PartialUse
from hearsay.node.conduct import Offence
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.partial import EqualParts, Outcome, PartsExchange, PublishPartial
from hearsay.wire.signing import SignaturePolicy

QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}
FORM = EqualParts(count=4, part_bytes=3, group_bytes=2, check=lambda group, index, part: part != b"bad")
GROUP = b"g1"
PARTS = {0: b"abc", 1: b"def", 2: b"ghi", 3: b"jkl"}
WHOLE = FORM.encode(GROUP, PARTS)


def config(*, partial=True, signatures=SignaturePolicy.STRICT_NO_SIGN):
    return NodeConfig(preset="go", parameters={**QUICK, "partial_messages": partial}, signatures=signatures)


async def connect_and_graft(first, second):
    await first.connect(second.addresses[0])
    await until(lambda: second.peer in first.mesh("news") and first.peer in second.mesh("news"))


def add(topic, exchange, indexes):
    topic.follow(exchange.add("news", GROUP, {index: PARTS[index] for index in indexes}))


@run
async def test_two_halves_make_the_message_at_both():
    one, other = PartsExchange(FORM), PartsExchange(FORM)
    async with Node(config()) as first, Node(config()) as second:
        here, there = await first.join("news", partial=one), await second.join("news", partial=other)
        await connect_and_graft(first, second)
        add(here, one, (0, 1))
        add(there, other, (2, 3))
        assert (await here.next()).data == (await there.next()).data == WHOLE
        assert (first.statistics.delivered, second.statistics.delivered) == (1, 1)
        assert second.statistics.duplicates == 0


@run
async def test_parts_become_a_full_message_for_those_who_know_none_and_parts_again():
    """Nodes in a row: two with partial messages, one without, and one with them."""
    middle, last = PartsExchange(FORM), PartsExchange(FORM)
    source = PartsExchange(FORM)
    async with Node(config()) as a, Node(config()) as b, Node(config(partial=False)) as c, Node(config()) as d:
        at_a = await a.join("news", partial=source)
        at_b = await b.join("news", partial=middle)
        at_c = await c.join("news")
        at_d = await d.join("news", partial=last)
        for pair in ((a, b), (b, c), (c, d)):
            await connect_and_graft(*pair)
        add(at_a, source, range(4))
        for topic in (at_a, at_b, at_c, at_d):
            assert (await topic.next()).data == WHOLE
        assert dict(last.held("news", GROUP)) == PARTS


@run
async def test_who_supports_parts_and_requests_none_gets_the_full_message():
    one, other = PartsExchange(FORM), PartsExchange(FORM)
    async with Node(config()) as first, Node(config()) as second:
        here = await first.join("news", partial=one)
        there = await second.join("news", partial=other, partial_use=PartialUse.SUPPORTS)
        await connect_and_graft(first, second)
        await here.publish(WHOLE)
        assert (await there.next()).data == WHOLE


@run
async def test_a_forged_part_is_an_offence():
    class Forger(PartsExchange):
        def add_forged(self):
            self.add("news", GROUP, {0: b"bad"})
            return Outcome((PublishPartial("news", GROUP),))

    forged = Forger(EqualParts(count=4, part_bytes=3, group_bytes=2), eager=True)
    async with Node(config()) as honest, Node(config()) as bad:
        await honest.join("news", partial=PartsExchange(FORM))
        topic = await bad.join("news", partial=forged)
        await connect_and_graft(honest, bad)
        topic.follow(forged.add_forged())
        await until(lambda: honest.statistics.offences[Offence.REJECTED] == 1)


@run
async def test_who_left_takes_no_parts_and_may_come_back():
    one, other = PartsExchange(FORM), PartsExchange(FORM)
    async with Node(config()) as first, Node(config()) as second:
        here, there = await first.join("news", partial=one), await second.join("news", partial=other)
        await connect_and_graft(first, second)
        await there.leave()
        await until(lambda: first.topic_peers("news") == 0)
        add(here, one, range(4))
        with pytest.raises(ValueError, match="has no partial messages"):
            there.follow(other.add("news", GROUP, {0: b"abc"}))
        await second.join("news", partial=other)


@run
async def test_joining_with_an_application_needs_a_router_that_asks_it_and_messages_without_author():
    async with Node(config(partial=False)) as without:
        with pytest.raises(ValueError, match="the router has no partial messages"):
            await without.join("news", partial=PartsExchange(FORM))
        await without.join("news")
    async with Node(config(signatures=SignaturePolicy.STRICT_SIGN)) as signing:
        with pytest.raises(ValueError, match="the topic's messages are signed"):
            await signing.join("news", partial=PartsExchange(FORM))
        await signing.join("news", signatures=SignaturePolicy.STRICT_NO_SIGN, partial=PartsExchange(FORM))
