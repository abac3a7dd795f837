"""Gossipsub 1.1 and 1.2 between Hearsay and other implementations over sockets: IDONTWANT, scores, peer exchange."""

from __future__ import annotations

from contextlib import AsyncExitStack
from hashlib import sha256

import pytest
from foreign_peers import PeerProcess
from scripted_peer import ScriptedPeer
from test_foreign_peers import LIMITS, build_or_skip, connect_peer, run, wait_for_mesh, wait_until

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import Verdict
from hearsay.core.language.rpc import (
    MESHSUB_11,
    MESHSUB_12,
    MESHSUB_13,
    Control,
    Graft,
    IDontWant,
    IHave,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.wire.messages import by_author, by_data
from hearsay.wire.signing import SignaturePolicy

JOINED = Rpc((Subscription("news", True),), (), Control(graft=(Graft("news"),)))
QUICK = {"heartbeat_interval_ms": 200, "first_heartbeat_ms": 100}
SCORE = {
    "validation": "selective",
    "decay_interval_ms": 1000,
    "decay_to_zero": 0.01,
    "retain_ms": 60_000,
    "misbehaviour_weight": -100,
    "misbehaviour_decay": 0.99,
    "thresholds": {"gossip": -5000, "publish": -5500, "graylist": -6000},
    "topics": [
        {
            "topic": "news",
            "validation": "selective",
            "topic_weight": 1,
            "time_in_mesh_quantum_ms": 1000,
            "invalid_messages_weight": -1000,
            "invalid_messages_decay": 0.99,
        }
    ],
}
SPEAKS_12 = ("go", "rust", "js")


def deployed(*, unsigned=False, **parameters):
    return NodeConfig(
        preset="go",
        parameters={**QUICK, **parameters},
        limits=LIMITS,
        signatures=SignaturePolicy.STRICT_NO_SIGN if unsigned else SignaturePolicy.STRICT_SIGN,
        message_id=by_data if unsigned else by_author,
    )


@pytest.mark.parametrize("language", SPEAKS_12)
def test_the_newest_version_that_both_speak_is_negotiated(language):
    build_or_skip(language)

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed()))
            _, peer = await connect_peer(stack, language, node, topics=("news",))
            await wait_for_mesh(node, peer, ("news",))
            protocols = [known.protocol for known in node._running.router.connected.values()]
            assert protocols == [MESHSUB_13 if language in ("go", "rust") else MESHSUB_12]

    run(work())


@pytest.mark.parametrize("language", SPEAKS_12)
def test_a_peer_that_received_idontwant_sends_no_copy(language):
    """The messages before and after the unwanted message arrive on the same stream."""
    build_or_skip(language)

    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(PeerProcess(language, "--topics", "news", "--unsigned"))
            listener = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_12, by_data))
            listener.send(JOINED)
            source = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_12, by_data))
            source.send(JOINED)
            await peer.until(lambda: peer.topics.get("news") == 2)
            unwanted = IDontWant((sha256(b"unwanted").digest(),))
            listener.send(Rpc(control=Control(idontwant=(unwanted,))))
            for data in (b"first", b"unwanted", b"last"):
                source.send(Rpc(messages=(source.message(data, SignaturePolicy.STRICT_NO_SIGN),)))
                if data != b"unwanted":
                    await wait_until(lambda data=data: data in listener.received_data())
            assert b"unwanted" not in listener.received_data()

    run(work())


def test_we_send_no_copy_to_a_peer_that_sent_idontwant():
    """Go sends IDONTWANT while its validator runs; then we receive the same message from another peer."""
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(unsigned=True)))
            flags = ("--unsigned", "--slow", "2s")
            _, peer = await connect_peer(stack, "go", node, *flags, topics=("news",))
            await wait_for_mesh(node, peer, ("news",))
            large = b"large".ljust(4096, b"x")
            source = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_12, by_data))
            source.send(JOINED, Rpc(messages=(source.message(large, SignaturePolicy.STRICT_NO_SIGN),)))
            (known,) = node._running.router.connected
            unwanted = node._running.router.strategy.unwanted
            await wait_until(lambda: unwanted.holds(known, sha256(large).digest()))
            other = await stack.enter_async_context(ScriptedPeer(node.addresses[0], MESHSUB_12, by_data))
            sent = node.statistics.bytes_sent
            other.send(JOINED, Rpc(messages=(other.message(large, SignaturePolicy.STRICT_NO_SIGN),)))
            await wait_until(lambda: node.statistics.delivered == 1)
            await node.flush()
            assert node.statistics.bytes_sent - sent < 1000
            await peer.until(lambda: len(peer.messages) == 1)

    run(work())


def test_go_graylists_a_peer_that_sends_invalid_messages():
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(
                PeerProcess("go", "--topics", "news", "--scored", "--rejected", "bad")
            )
            bad = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_11))
            bad.send(JOINED)
            await peer.until(lambda: peer.mesh.get("news") == 1)
            bad.send(*(Rpc(messages=(bad.message(b"bad %d" % number),)) for number in range(3)))
            await peer.until(lambda: peer.scores.get(bad.name, 0) < -6000)
            await peer.until(lambda: peer.mesh.get("news") == 0)
            await wait_until(lambda: bad.prune_count() >= 1)
            rejected = peer.rejected
            bad.send(Rpc(messages=(bad.message(b"bad and not looked at"),)))
            before = peer.scores[bad.name]
            await peer.until(lambda: peer.scores[bad.name] > before)
            assert peer.rejected == rejected

    run(work())


def test_go_graylists_a_peer_that_sends_graft_during_backoff():
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(PeerProcess("go", "--topics", "news", "--scored"))
            bad = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_11))
            bad.send(JOINED)
            await peer.until(lambda: peer.mesh.get("news") == 1)
            bad.send(Rpc(control=Control(prune=(Prune("news", 60),))))
            await peer.until(lambda: peer.mesh.get("news") == 0)
            graft = Rpc(control=Control(graft=(Graft("news"),)))
            bad.send(*[graft] * 10)
            await peer.until(lambda: peer.scores.get(bad.name, 0) < -6000)
            assert peer.mesh.get("news") == 0

    run(work())


def test_go_counts_the_promises_we_break():
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(PeerProcess("go", "--topics", "news", "--scored"))
            bad = await stack.enter_async_context(ScriptedPeer(peer.address, MESHSUB_11))
            bad.send(JOINED)
            await peer.until(lambda: peer.mesh.get("news") == 1)
            bad.send(*(Rpc(control=Control(ihave=(IHave("news", (b"never %d" % number,)),))) for number in range(8)))
            await wait_until(lambda: any(control.iwant for control in bad.received_controls()))
            await peer.until(lambda: peer.scores.get(bad.name, 0) < 0)

    run(work())


def test_we_graylist_a_go_peer_that_sends_invalid_messages():
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(score=SCORE)))
            _, peer = await connect_peer(stack, "go", node, topics=("news",))
            await wait_for_mesh(node, peer, ("news",))
            node.add_validator("news", lambda message: Verdict.REJECT)
            (known,) = node.peers
            peer.send_command("publish news 100 3")
            await wait_until(lambda: node.scores.all[known].score < -6000)
            await wait_until(lambda: node.mesh("news") == ())
            await peer.until(lambda: peer.mesh.get("news") == 0)
            rejected = node.statistics.rejected
            peer.send_command("publish news 100 1")
            await wait_until(lambda: node.statistics.rejected > rejected or node.statistics.dropped_because)
            assert node.statistics.rejected == rejected
            assert set(node.statistics.dropped_because) <= {Reason.GRAYLISTED, Reason.LOW_SCORE, Reason.BACKOFF}

    run(work())


def test_we_dial_the_peer_that_a_prune_of_go_names():
    """A Go bootstrapper has no mesh: it answers our GRAFT with a PRUNE that names the third peer."""
    build_or_skip("go")

    async def work():
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(PeerProcess("go", "--topics", "news", "--bootstrapper"))
            third = await stack.enter_async_context(PeerProcess("go", "--topics", "news", "--connect", hub.address))
            await hub.until(lambda: hub.topics.get("news") == 1)
            exchanging = deployed(accept_exchange=True, exchange_peers=16)
            node = await stack.enter_async_context(Node(exchanging))
            await node.join("news")
            await node.connect(hub.address)
            await wait_until(lambda: len(node.connected) == 2)
            await wait_until(lambda: len(node.mesh("news")) == 1)
            await third.until(lambda: third.mesh.get("news") == 1)

    run(work())
