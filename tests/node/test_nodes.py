"""Real nodes on loopback: delivery, survivors, validation, publishing, discovery, misbehaviour of peers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from tempfile import TemporaryFile

import pytest
from waiting import run, until

from hearsay.cli.published_lines import PublishedLines
from hearsay.core.language.events import Verdict
from hearsay.libp2p.names.errors import DialError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.meeting.address_book import AddressState
from hearsay.node.node import Node
from hearsay.wire.fields import RpcLimits, TooLarge
from hearsay.wire.messages import by_content
from hearsay.wire.signing import SignaturePolicy

QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}
MESH_ROUTERS = ("meshsub", "gossipsub")


def config(router="gossipsub", **more):
    parameters = {**(QUICK if router in MESH_ROUTERS else {}), **more.pop("parameters", {})}
    return NodeConfig(router=router, parameters=parameters, **more)


class Network:
    """Nodes that all join one topic; node i dials a few before it, in a fixed pattern."""

    def __init__(self, configs):
        self.nodes = [Node(made) for made in configs]
        self.topics = {}

    async def __aenter__(self):
        for place, node in enumerate(self.nodes):
            await node.__aenter__()
            self.topics[node] = await node.join("news")
            for back in (1, 2, 3, 5, 8):
                if place >= back:
                    await node.connect(self.nodes[place - back].addresses[0])
        await self.settled()
        return self

    async def __aexit__(self, *_):
        for node in self.nodes:
            await node.close()

    async def settled(self):
        """Wait until each node knows the subscriptions of all its peers and has a mesh if its router has meshes."""

        def ready(node):
            alive = list(node.peers)
            links = len(alive) == len(node._host.connections) > 0
            mesh = node.config.router not in MESH_ROUTERS or len(node.mesh("news")) >= min(4, len(alive))
            return links and node.topic_peers("news") == len(alive) and mesh

        await until(lambda: all(ready(node) for node in self.nodes))

    async def deliver(self, senders, label):
        """Publish from each sender; every node gets every message once."""
        for number, node in enumerate(senders):
            await self.topics[node].publish(f"{label} {number}".encode())
        for node in self.nodes:
            got = [(await self.topics[node].next()).data for _ in senders]
            assert sorted(got) == sorted(f"{label} {number}".encode() for number in range(len(senders)))


@pytest.mark.parametrize("router", ["floodsub", "randomsub", "meshsub", "gossipsub"])
def test_twenty_nodes_deliver_everything_and_so_do_the_survivors(router):
    parameters = {"degree": 10} if router == "randomsub" else {}

    @run
    async def test():
        async with Network([config(router, parameters=parameters) for _ in range(20)]) as network:
            await network.deliver(network.nodes, "all")
            killed, network.nodes = network.nodes[::4], [n for i, n in enumerate(network.nodes) if i % 4]
            for node in killed:
                for connection in list(node._host.connections.values()):
                    connection.abort()
                await node.close()
            await network.settled()
            await network.deliver(network.nodes, "survivors")

    test()


@run
async def test_large_messages_and_topics_that_are_not_ascii():
    async with Node(config()) as one, Node(config()) as other:
        await one.connect(other.addresses[0])
        here, there = await one.join("グループ"), await other.join("グループ")
        await until(lambda: one.mesh("グループ") and other.mesh("グループ"))
        data = bytes(range(256)) * 3900
        await here.publish(data)
        message = await there.next()
        assert (message.data, message.author, message.received_from) == (data, one.peer, one.peer)
        assert (await here.next()).received_from is None
        with pytest.raises(TooLarge, match="fit into an RPC"):
            await here.publish(bytes(1 << 20))


@run
async def test_publishing_reports_sent_and_waiting_messages():
    async with Node(config()) as one, Node(config()) as other:
        topic = await one.join("news")
        alone = await topic.publish(b"no peer yet")
        assert (alone.sent, alone.dropped, alone.waiting) == (0, 0, False)
        kept = await topic.publish(b"later", wait_for_peers=True)
        assert kept.waiting
        there = await other.join("news")
        await one.connect(other.addresses[0])
        assert (await there.next()).data == b"later"
        sent = await topic.publish(b"now")
        assert (sent.sent, sent.waiting) == (1, False)
        assert (await there.next()).message_id == sent.message_id


@run
async def test_publishing_to_a_topic_one_has_not_joined():
    async with Node(config()) as one, Node(config()) as other:
        there = await other.join("news")
        await one.connect(other.addresses[0])
        await until(lambda: one.topic_peers("news"))
        await one.publish("news", b"from outside")
        assert (await there.next()).data == b"from outside"


@run
async def test_leaving_ends_the_iteration_and_tells_the_others():
    async with Node(config()) as one, Node(config()) as other:
        here, _ = await one.join("news"), await other.join("news")
        await one.connect(other.addresses[0])
        await until(lambda: other.mesh("news"))
        reading = asyncio.ensure_future(anext(here, None))
        await here.leave()
        assert await reading is None
        await until(lambda: not other.topic_peers("news"))
        with pytest.raises(ValueError, match="not joined"):
            await one.leave("news")


@run
async def test_validators_decide():
    async with Node(config()) as one, Node(config()) as other:
        here, there = await one.join("news"), await other.join("news")
        asked = []

        async def slow(message):
            asked.append(message.data)
            await asyncio.sleep(0)
            return Verdict.IGNORE if message.data == b"ignore" else Verdict.ACCEPT

        other.add_validator("news", lambda message: message.data != b"reject")
        other.add_validator("news", slow)
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news"))
        for data in (b"reject", b"ignore", b"accept"):
            await here.publish(data)
        assert (await there.next()).data == b"accept"
        assert asked == [b"ignore", b"accept"]
        assert other.statistics.rejected == 2


@run
async def test_a_validator_that_takes_too_long_has_ignored_the_message():
    limits = NodeLimits(validation_s=0.05)
    async with Node(config()) as one, Node(config(limits=limits)) as other:
        here, there = await one.join("news"), await other.join("news")
        never = asyncio.Event()

        async def stuck(message):
            if message.data == b"stuck":
                await never.wait()
            return True

        other.add_validator("news", stuck)
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news"))
        await here.publish(b"stuck")
        await until(lambda: other.statistics.validations_timed_out)
        await here.publish(b"fine")
        assert (await there.next()).data == b"fine"


@run
async def test_reading_from_a_peer_pauses_while_validation_is_behind():
    limits = NodeLimits(pending_validations_per_peer=4, validation_s=60)
    async with Node(config()) as one, Node(config(limits=limits)) as other:
        here, there = await one.join("news"), await other.join("news")
        gate, asked = asyncio.Event(), []

        async def gated(message):
            asked.append(message)
            await gate.wait()
            return True

        other.add_validator("news", gated)
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news"))
        for number in range(50):
            await here.publish(bytes([number]) * 60_000)
        link = other._driver.links.by_peer[one.peer]
        await until(lambda: link.intake.input.paused)
        received = other.statistics.rpcs_received
        assert await one.ping(other.peer) > 0
        assert other.statistics.rpcs_received - received <= 1
        gate.set()
        assert [(await there.next()).data[0] for _ in range(50)] == list(range(50))


@run
async def test_strict_no_sign_and_ids_by_content():
    unsigned = {"signatures": SignaturePolicy.STRICT_NO_SIGN, "message_id": by_content}
    async with Node(config(**unsigned)) as one, Node(config(**unsigned)) as other:
        here, there = await one.join("news"), await other.join("news")
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news") and other.mesh("news"))
        await here.publish(b"who said that?")
        message = await there.next()
        assert (message.author, message.message_id) == (None, by_content("news", None, None, b"who said that?"))
        again = await there.publish(b"who said that?")
        assert again.sent == 0


@run
async def test_policies_differ_by_topic_and_wrong_messages_are_counted():
    async with Node(config()) as one, Node(config()) as other:
        for node, policy in ((one, SignaturePolicy.STRICT_NO_SIGN), (other, SignaturePolicy.STRICT_SIGN)):
            await node.join("news", signatures=policy, message_id=by_content)
            await node.join("signed")
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news") and one.mesh("signed"))
        await one.publish("news", b"not signed")
        await one.publish("signed", b"signed")
        assert (await other._topics._topics["signed"].next()).data == b"signed"
        assert other.statistics.bad_signatures == 1


@run
async def test_bootstrap_finds_a_peer_that_comes_later_and_comes_back():
    identity = PrivateKey.generate()
    async with Node(config()) as first:
        address = first.addresses[0].partition("/p2p/")[0]
    async with Node(config(bootstrap=(address,))) as seeker:
        seeker._discovery._first_retry_s = 0.02
        for _ in range(2):
            async with Node(config(listen=(address,)), identity=identity) as found:
                await until(lambda found=found: found.peer in seeker.peers)
            await until(lambda: not seeker.peers)


@run
async def test_a_peer_that_ends_every_connection_is_not_dialled_at_once_again():
    async with Node(config()) as rude:
        rude._host.on_peer_up.append(rude.disconnect)
        news = []
        seeker = Node(config(bootstrap=rude.addresses))
        seeker.on_address_news.append(news.append)
        async with seeker:
            await until(lambda: any(each.state is AddressState.LOST or each.retry_s for each in news))
            assert news[-1].retry_s >= 1


@run
async def test_states_of_rendezvous_points_are_reported():
    async with Node(config(rendezvous_point=True)) as point:
        dead, alive = "/ip4/127.0.0.1/tcp/1", point.addresses[0]
        node = Node(config(rendezvous=(dead, alive)))
        async with node:
            await until(lambda: len(node.address_news) == 2)
            news = {each.address: each for each in node.address_news}
            assert (news[dead].state, news[dead].reason) == (AddressState.FAILED, "Connection refused")
            assert (news[alive].state, news[alive].peer) == (AddressState.CONNECTED, point.peer)


@run
async def test_waiting_for_the_peers_of_a_topic():
    for router in ("gossipsub", "floodsub", "episub"):
        async with Node(config(router)) as one, Node(config(router)) as other:
            await one.join("news")
            await other.join("news")
            assert not await one.wait_for_peers("news", within_s=0.01)
            assert not one.reaches_somebody("news")
            waiting = asyncio.ensure_future(one.wait_for_peers("news"))
            await one.connect(other.addresses[0])
            assert await waiting
            assert (await one.publish("news", b"hello")).sent == 1


@run
async def test_messages_that_wait_in_vain_are_counted():
    limits = NodeLimits(waiting_publishes=2)
    async with Node(config(limits=limits)) as one:
        for number in range(5):
            await one.publish("news", bytes([number]), wait_for_peers=True)
        assert (one.waiting("news"), one.statistics.gave_up_waiting) == (2, 3)


@run
async def test_making_room_loses_nothing_to_a_slow_peer():
    limits = NodeLimits(peer_queue_bytes=1 << 20)
    async with Node(config("floodsub", limits=limits)) as one, Node(config("floodsub")) as other:
        here, there = await one.join("news"), await other.join("news")
        await one.connect(other.addresses[0])
        await one.wait_for_peers("news")
        for number in range(60):
            assert await one.make_room(within_s=60)
            assert (await here.publish(bytes([number]) * 100_000)).dropped == 0
        assert [(await there.next()).data[0] for _ in range(60)] == list(range(60))


@run
async def test_closing_reports_the_peers_that_confirmed_all_messages():
    async with Node(config()) as one, Node(config()) as other:
        await other.join("news")
        await one.connect(other.addresses[0])
        await one.wait_for_peers("news")
        await one.publish("news", b"the last words")
        await one.close()
        assert one.confirmed == {other.peer}
        assert (await other._topics._topics["news"].next()).data == b"the last words"


@run
async def test_an_error_of_connecting_names_the_reason():
    async with Node(config()) as node:
        with pytest.raises(DialError, match="own address"):
            await node.connect(node.addresses[0])


@run
async def test_peer_exchange_connects_pruned_peers():
    hub_config = config(parameters={"degree": 1, "degree_low": 1, "degree_high": 1, "exchange_peers": 8})
    leaf = config(parameters={"exchange_peers": 8, "accept_exchange": True})
    async with Node(hub_config) as hub, Node(leaf) as one, Node(leaf) as other:
        for node in (hub, one, other):
            await node.join("news")
        for node in (one, other):
            await node.connect(hub.addresses[0])
        await until(lambda: one.peer in other.peers and other.peer in one.peers)


@run
async def test_a_slow_peer_loses_messages_and_stalls_no_peer():
    limits = NodeLimits(peer_queue_bytes=1 << 20)
    async with (
        Node(config("floodsub", limits=limits)) as one,
        Node(config("floodsub")) as slow,
        Node(config("floodsub")) as quick,
    ):
        here, _, there = [await node.join("news") for node in (one, slow, quick)]
        await slow.connect(one.addresses[0])
        await quick.connect(one.addresses[0])
        await until(lambda: one.topic_peers("news") == 2)
        await until(lambda: slow.peers)
        slow._driver.links.by_peer[one.peer].intake.input.paused = True
        slow._driver.links.by_peer[one.peer].intake.schedule()
        dropped = 0
        for number in range(60):
            dropped += (await here.publish(bytes([number]) * 100_000)).dropped
            assert (await there.next()).data[0] == number
        assert dropped == one.statistics.messages_dropped > 0
        assert one._driver.links.by_peer[slow.peer].queue.bytes <= 1 << 20


@run
async def test_the_application_that_does_not_read_misses_the_oldest():
    async with Node(config(limits=replace(NodeLimits(), topic_queue=3))) as node:
        topic = await node.join("news")
        for number in range(5):
            await topic.publish(bytes([number]))
        assert [(await topic.next()).data[0] for _ in range(3)] == [2, 3, 4]
        assert node.statistics.missed == 2


@run
async def test_what_waits_for_the_application_is_bounded_in_bytes():
    async with Node(config(limits=NodeLimits(topic_queue_bytes=100_000))) as node:
        topic = await node.join("news")
        for number in range(10):
            await topic.publish(bytes([number]) * 30_000)
        assert [(await topic.next()).data[0] for _ in range(3)] == [7, 8, 9]
        assert node.statistics.missed == 7
        assert node._topics._room.used == 0


@run
async def test_topics_that_are_not_read_take_no_room_from_one_that_is():
    async with Node(config(limits=NodeLimits(all_topic_queues_bytes=200_000))) as node:
        unread = [await node.join(f"unread {number}") for number in range(3)]
        topic = await node.join("news")
        for number in range(20):
            for other in unread:
                await other.publish(bytes([number]) * 30_000)
            await topic.publish(bytes([number]) * 50_000)
            assert (await topic.next()).data[0] == number
        assert node._topics._room.used <= 200_000
        for other in unread:
            await other.leave()
        assert node._topics._room.used == 0


@run
async def test_the_same_data_in_two_topics_arrives_in_both():
    unsigned = {"signatures": SignaturePolicy.STRICT_NO_SIGN, "message_id": by_content}
    async with Node(config(**unsigned)) as one, Node(config(**unsigned)) as other:
        here = [await one.join(name) for name in ("news", "weather")]
        there = [await other.join(name) for name in ("news", "weather")]
        await one.connect(other.addresses[0])
        await until(lambda: one.mesh("news") and one.mesh("weather"))
        for topic in here:
            assert (await topic.publish(b"rain")).sent == 1
        for topic in (*here, *there):
            assert (await topic.next()).data == b"rain"


@run
async def test_an_rpc_beyond_the_limit_is_split():
    limits = NodeLimits(rpc=RpcLimits(max_rpc_bytes=2000))
    async with Node(config(limits=limits)) as one, Node(config(limits=limits)) as other:
        for number in range(100):
            await one.join(f"a topic with a rather long name, number {number}")
        await one.connect(other.addresses[0])
        await until(lambda: other.topic_peers("a topic with a rather long name, number 99"))
        assert other.statistics.malformed_rpcs == 0


@run
async def test_a_rendezvous_point_brings_the_peers_of_a_topic_together():
    async with Node(config(rendezvous_point=True)) as point:
        settings = {"rendezvous": (point.addresses[0],)}
        async with (
            Node(config(**settings)) as one,
            Node(config(**settings)) as two,
            Node(config(**settings)) as other,
        ):
            topic, _, _ = await one.join("news"), await other.join("weather"), await two.join("news")
            await until(lambda: one.topic_peers("news") == two.topic_peers("news") == 1)
            await two.publish("news", b"found", wait_for_peers=True)
            assert (await topic.next()).data == b"found"
            assert other.peers == (point.peer,)


@run
async def test_some_of_a_list_of_rendezvous_points_may_be_dead():
    """One point refuses connections, one accepts them and stays silent, and the third serves. Later only the first
    serves, started again.
    """
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    mute = f"/ip4/127.0.0.1/tcp/{silent.sockets[0].getsockname()[1]}"
    identity = PrivateKey.generate()
    async with Node(config(rendezvous_point=True), identity=identity) as soon_dead:
        back = soon_dead.addresses[0]
    async with AsyncExitStack() as stack:
        point = await stack.enter_async_context(Node(config(rendezvous_point=True)))
        settings = {"rendezvous": (back, mute, point.addresses[0])}
        one, two = [await stack.enter_async_context(Node(config(**settings))) for _ in range(2)]
        for node in (one, two):
            await node.join("news")
        await until(lambda: one.topic_peers("news") == two.topic_peers("news") == 1)
        await point.close()
        listen = (back.partition("/p2p/")[0],)
        again = Node(config(rendezvous_point=True, listen=listen), identity=identity)
        await stack.enter_async_context(again)
        newcomer = await stack.enter_async_context(Node(config(**settings)))
        await newcomer.join("news")
        await until(lambda: newcomer.topic_peers("news") == 2)
    silent.close()


@run
async def test_a_peer_with_which_no_protocol_is_agreed_yet_is_not_called_foreign():
    async with Node() as other, Node() as node:
        await node.connect(other.addresses[0])
        lines = PublishedLines(node, "news", False, 3.0, lambda event, text: None)
        assert lines.no_recipient_reason() == "1 connected, not yet agreed on a protocol within 3 s"
        await until(lambda: node.peers)
        assert node.agreeing == ()


@run
async def test_a_line_that_full_queues_drop_is_not_blamed_on_the_mesh():
    limits = NodeLimits(peer_queue_bytes=2_000)
    async with Node(config("floodsub")) as other, Node(config("floodsub", limits=limits)) as node:
        await other.join("news")
        await node.connect(other.addresses[0])
        await node.wait_for_peers("news")
        lines = PublishedLines(node, "news", False, 3.0, lambda event, text: None)
        with TemporaryFile() as given, pytest.MonkeyPatch.context() as patch:
            given.write(b"x" * 5_000)
            given.seek(0)
            patch.setattr("sys.stdin", given)
            await lines.publish()
        assert lines.problems() == ["1 message for topic news reached no peer: the queues of slow peers had no room"]
