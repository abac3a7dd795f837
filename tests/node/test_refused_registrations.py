"""Registrations that a rendezvous point refuses: the node tries again soon only if the reason may be over soon."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from one_host import with_host
from waiting import until

from hearsay.libp2p.host import Host
from hearsay.libp2p.rendezvous import MessageType, PeerRecord, RendezvousMessage, Status, seal_record
from hearsay.libp2p.rendezvous_streams import PointLimits, Registry, RegistryLimits, RendezvousPoint
from hearsay.node.meeting.rendezvous import RendezvousSearch


class RecordingRegistry(Registry):
    """A registry that records the status of each answer to a REGISTER."""

    def __init__(self, limits):
        super().__init__(asyncio.get_running_loop().time, limits)
        self.statuses = []

    def answer(self, peer, address, asked):
        answer = super().answer(peer, address, asked)
        if asked.type is MessageType.REGISTER:
            self.statuses.append(answer.status)
        return answer


def start_point(host, **limits):
    point = RendezvousPoint(host, PointLimits())
    point.registry = RecordingRegistry(RegistryLimits(**limits))
    return point.registry


@asynccontextmanager
async def searching(host, topic):
    """Yield a host that searches for peers of a topic, its signed record, and a list that grows in each round."""
    asking, rounds = Host(), []
    try:
        await asking.listen("/ip4/127.0.0.1/tcp/0")
        record = seal_record(asking.identity, PeerRecord(asking.peer, 1, asking.addresses))
        search = RendezvousSearch(
            asking,
            host.addresses,
            topics=lambda: [topic],
            record=lambda: record,
            found=lambda *_: None,
            report=rounds.append,
            interval_s=0.01,
        )
        try:
            yield asking, record, rounds
        finally:
            await search.close()
    finally:
        await asking.close()


@with_host()
async def test_a_node_registers_as_soon_as_a_point_without_room_has_room_again(host):
    registry = start_point(host, per_peer=1)
    async with searching(host, "news") as (asking, record, _):
        other = RendezvousMessage(type=MessageType.REGISTER, namespace="other", record=record)
        assert registry.answer(asking.peer, "127.0.0.1", other).status == Status.OK
        await until(lambda: len(registry.statuses) >= 3)
        assert registry.statuses[1:] == [Status.UNAVAILABLE] * (len(registry.statuses) - 1)
        registry.answer(asking.peer, "127.0.0.1", RendezvousMessage(type=MessageType.UNREGISTER, namespace="other"))
        await until(lambda: registry.statuses[-1] == Status.OK)
        assert len(registry) == 1


@with_host()
async def test_the_delay_grows_with_each_refusal_of_a_point_without_room(host):
    registry = start_point(host, per_peer=0)
    async with searching(host, "news") as (_, _, rounds):
        await until(lambda: len(rounds) == 40)
        assert 3 <= len(registry.statuses) < 20
        assert set(registry.statuses) == {Status.UNAVAILABLE}


@with_host()
async def test_a_refused_namespace_is_not_registered_again_soon(host):
    """The second attempt has a record of the older form."""
    registry = start_point(host)
    async with searching(host, "n" * 256) as (_, _, rounds):
        await until(lambda: len(rounds) == 20)
        assert registry.statuses == [Status.INVALID_NAMESPACE] * 2
