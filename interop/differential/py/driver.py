"""Play sequences on py-libp2p's Pubsub and GossipSub in virtual time: JSON lines in, JSON lines out.

The host is a replacement that opens streams and records the bytes that are written to them; all other code is
py-libp2p's. The program runs in the environment of the Python peer. Random choices return the first peers in the
order of names, and the last peers when a mesh is pruned.
"""

import json
import logging
import random
import sys
import types

import libp2p.pubsub.gossipsub
import libp2p.pubsub.pubsub
import libp2p.tools.timed_cache.base_timed_cache
import libp2p.tools.timed_cache.last_seen_cache
import trio
from libp2p.network.stream.exceptions import StreamEOF
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from libp2p.utils import encode_varint_prefixed
from trio.testing import wait_all_tasks_blocked

SECOND = 1_000_000
BEGIN = 1_000_000_000
"""The Unix time at which a sequence begins, in seconds."""
SELF = "self"


class Clock(trio.abc.Clock):
    """A clock that changes only when `now_us` is set."""

    now_us = 0

    def start_clock(self):
        pass

    def current_time(self):
        return self.now_us / SECOND

    def deadline_to_sleep_time(self, deadline):
        return 0 if deadline <= self.current_time() else 1_000

    def time(self):
        return BEGIN + self.current_time()


CLOCK = Clock()


class FirstByName:
    """A replacement of `random` in the router. A sample has the first elements in the order of names, or the last."""

    last = False

    def sample(self, pool, count):
        return sorted(pool, key=ID.to_bytes, reverse=self.last)[:count]


class Router(GossipSub):
    def _select_peers_for_pruning(self, topic, num_to_prune):
        DRAWS.last = True
        chosen = super()._select_peers_for_pruning(topic, num_to_prune)
        DRAWS.last = False
        return chosen


DRAWS = FirstByName()
for module in (
    libp2p.pubsub.gossipsub,
    libp2p.pubsub.pubsub,
    libp2p.tools.timed_cache.base_timed_cache,
    libp2p.tools.timed_cache.last_seen_cache,
):
    module.time = CLOCK
for module in (libp2p.pubsub.gossipsub, libp2p.pubsub.pubsub):
    module.env_to_send_in_RPC = lambda _host: (b"", False)
libp2p.pubsub.gossipsub.random = DRAWS
libp2p.tools.timed_cache.base_timed_cache.BaseTimedCache._background_cleanup = lambda _cache: None
trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True


class Stream:
    """A stream to a peer; each write is decoded as an RPC and added to `sent`."""

    metric_send_channel = None

    def __init__(self, peer, protocol, sent):
        self.peer, self.protocol, self.sent = peer, protocol, sent
        self.muxed_conn = types.SimpleNamespace(peer_id=peer)

    def get_protocol(self):
        return self.protocol

    async def write(self, data):
        end = next(place for place, byte in enumerate(data) if byte < 0x80) + 1
        self.sent.append((self.peer, rpc_pb2.RPC.FromString(data[end:])))


class OneRpc(Stream):
    """A stream from a peer that contains a single RPC."""

    def __init__(self, peer, rpc):
        super().__init__(peer, "", [])
        self.data = encode_varint_prefixed(rpc.SerializeToString())

    async def read(self, count=None):
        if not self.data:
            raise StreamEOF
        part, self.data = self.data[:count], self.data[count:]
        return part


class Host:
    """The part of a host that Pubsub uses."""

    def __init__(self):
        self.sent = []
        self.dialled = []
        self.protocols = {}

    def get_id(self):
        return ID(SELF.encode())

    def get_network(self):
        return self

    def get_peerstore(self):
        return self

    def register_notifee(self, _notifee):
        pass

    def set_stream_handler(self, _protocol, _handler):
        pass

    def get_connections(self, _peer):
        return []

    def get_peer_record(self, _peer):
        return None

    def peer_info(self, peer):
        return peer

    async def connect(self, peer):
        self.dialled.append(peer)

    async def new_stream(self, peer, _protocols):
        return Stream(peer, self.protocols[peer], self.sent)


def peer_id(name):
    return ID(name.encode())


def name_of(peer):
    return peer.to_bytes().decode()


class Run:
    """The play of a sequence. A message id is author and sequence number, as py-libp2p's message cache requires; the
    sequence number is the name of the message."""

    def __init__(self, sequence):
        self.parameters = sequence["parameters"]
        self.messages = {name: self._message(name, own) for name, own in sequence["messages"].items()}
        self.ids = {name: each.from_id + each.seqno for name, each in self.messages.items()}
        self.names = {own: name for name, own in self.ids.items()}
        self.host = Host()
        self.router = self._router()
        self.pubsub = Pubsub(
            self.host, self.router, seen_ttl=1_000, strict_signing=False,
            max_concurrent_validator_count=1_000, validation_timeout=100_000, validation_cache_ttl=100_000,
        )  # fmt: skip
        self.subscriptions = {}
        self.asked = []
        self.found = []
        self.verdicts = {}

    @staticmethod
    def _message(name, own):
        data = name.encode().ljust(own["size"], b"\0")
        author = own.get("from", "").encode()
        return rpc_pb2.Message(from_id=author, seqno=name.encode(), data=data, topicIDs=[own["topic"]])

    def _router(self):
        given = self.parameters
        router = Router(
            protocols=["/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0", "/floodsub/1.0.0"],
            degree=given["D"],
            degree_low=given["Dlo"],
            degree_high=given["Dhi"],
            time_to_live=given["FanoutTTL"] // SECOND,
            gossip_window=given["HistoryGossip"],
            gossip_history=given["HistoryLength"],
            heartbeat_initial_delay=given["HeartbeatInitialDelay"] / SECOND,
            heartbeat_interval=given["HeartbeatInterval"] // SECOND,
            do_px=given["PrunePeers"] > 0,
            px_peers_count=given["PrunePeers"],
            prune_back_off=given["PruneBackoff"] // SECOND,
            unsubscribe_back_off=given["UnsubscribeBackoff"] // SECOND,
            max_idontwant_messages=given["MaxIDontWantLength"],
            adaptive_gossip_enabled=False,
            spam_protection_enabled=False,
            eclipse_protection_enabled=False,
            pending_messages_ttl=-1.0,
        )
        router.graft_flood_threshold = given["GraftFloodThreshold"] / SECOND
        if not given["OpportunisticGraftTicks"]:
            router.scorer = None
        return router

    async def play(self, steps):
        async with background_trio_service(self.pubsub), background_trio_service(self.router):
            if self.parameters.get("Validate"):
                for topic in {own.topicIDs[0] for own in self.messages.values()}:
                    self.pubsub.set_topic_validator(topic, self._validate, True)
            await wait_all_tasks_blocked()
            for step in steps:
                await self._advance(step["at"])
                if step["event"] != "heartbeat":
                    await self._perform(step)
                await wait_all_tasks_blocked()
                self.found.append(self._seen())

    async def _advance(self, to):
        """Advance the clock to a time, with a stop at the time of each heartbeat before it."""
        interval = self.parameters["HeartbeatInterval"]
        beats = range(self.parameters["HeartbeatInitialDelay"], to + 1, interval)
        for beat in (beat for beat in beats if beat > CLOCK.now_us):
            CLOCK.now_us = beat
            await wait_all_tasks_blocked()
        CLOCK.now_us = to

    async def _validate(self, _forwarder, message):
        if message.from_id == SELF.encode():
            return True
        name = message.seqno.decode()
        self.asked.append(name)
        send, receive = trio.open_memory_channel(1)
        self.verdicts.setdefault(name, []).append(send)
        return await receive.receive()

    async def _perform(self, step):
        peer = peer_id(step.get("peer", ""))
        match step["event"]:
            case "connect":
                self.host.protocols[peer] = step["protocol"]
                await self.pubsub._handle_new_peer(peer)
            case "disconnect":
                self.pubsub._handle_dead_peer(peer)
            case "join":
                self.subscriptions[step["topic"]] = await self.pubsub.subscribe(step["topic"])
            case "leave":
                self._take_delivered()
                del self.subscriptions[step["topic"]]
                await self.pubsub.unsubscribe(step["topic"])
            case "publish":
                message = self.messages[step["message"]]
                self.pubsub._next_seqno = lambda: message.seqno
                await self.pubsub.publish(message.topicIDs[0], message.data)
            case "rpc":
                await self.pubsub.continuously_read_stream(OneRpc(peer, self._rpc(step["rpc"])))
            case "verdict":
                for waiting in self.verdicts.pop(step["message"], []):
                    waiting.send_nowait(step["verdict"] == "accept")
            case event:
                raise ValueError(event)

    def _rpc(self, form):
        rpc = rpc_pb2.RPC()
        for kind in ("subscribe", "unsubscribe"):
            for topic in form.get(kind, ()):
                rpc.subscriptions.add(subscribe=kind == "subscribe", topicid=topic)
        rpc.publish.extend(self.messages[name] for name in form.get("messages", ()))
        if not form.keys() - {"subscribe", "unsubscribe", "messages"}:
            return rpc
        rpc.control.SetInParent()
        for topic, names in form.get("ihave", {}).items():
            rpc.control.ihave.add(topicID=topic, messageIDs=self._ids(names))
        for kind in ("iwant", "idontwant"):
            if form.get(kind):
                getattr(rpc.control, kind).add(messageIDs=self._ids(form[kind]))
        for topic in form.get("graft", ()):
            rpc.control.graft.add(topicID=topic)
        for topic, said in form.get("prune", {}).items():
            prune = rpc.control.prune.add(topicID=topic, backoff=said.get("backoff"))
            for other in said.get("peers", ()):
                prune.peers.add(peerID=other.encode())
        return rpc

    def _ids(self, names):
        return [self.ids[name] for name in names]

    def _seen(self):
        router, now = self.router, CLOCK.now_us
        rpcs = {}
        for peer, rpc in self.host.sent:
            self._add(rpcs.setdefault(name_of(peer), {}), rpc)
        self.host.sent.clear()
        self._take_delivered()
        seen = {
            "rpcs": {peer: {kind: _sorted(said) for kind, said in form.items()} for peer, form in rpcs.items()},
            "delivers": sorted(self.delivered),
            "validates": sorted(self.asked),
            "dials": sorted(map(name_of, self.host.dialled)),
            "mesh": {topic: sorted(map(name_of, peers)) for topic, peers in router.mesh.items()},
            "fanout": {topic: sorted(map(name_of, peers)) for topic, peers in router.fanout.items()},
            "backoffs": {
                topic: {name_of(peer): (end - BEGIN) * SECOND for peer, end in ends.items()
                        if (end - BEGIN) * SECOND > now}
                for topic, ends in router.back_off.items()
            },
        }  # fmt: skip
        self.delivered, self.asked, self.host.dialled = [], [], []
        return seen

    delivered: list = []  # noqa: RUF012

    def _take_delivered(self):
        for subscription in self.subscriptions.values():
            channel = subscription.receive_channel
            while channel.statistics().current_buffer_used:
                self.delivered.append(channel.receive_nowait().seqno.decode())

    def _add(self, form, rpc):
        control = rpc.control
        for each in rpc.subscriptions:
            form.setdefault("subscribe" if each.subscribe else "unsubscribe", set()).add(each.topicid)
        for message in rpc.publish:
            form.setdefault("messages", set()).add(self.names[message.from_id + message.seqno])
        for ihave in control.ihave:
            form.setdefault("ihave", {}).setdefault(ihave.topicID, set()).update(self._names(ihave.messageIDs))
        for kind in ("iwant", "idontwant"):
            for part in getattr(control, kind):
                form.setdefault(kind, set()).update(self._names(part.messageIDs))
        for graft in control.graft:
            form.setdefault("graft", set()).add(graft.topicID)
        for prune in control.prune:
            said = {"backoff": prune.backoff} if prune.HasField("backoff") else {}
            if prune.peers:
                said["peers"] = {other.peerID.decode() for other in prune.peers}
            form.setdefault("prune", {})[prune.topicID] = said

    def _names(self, ids):
        return {self.names.get(own, f"0x{own.hex()}") for own in ids}


def _sorted(said):
    if isinstance(said, dict):
        return {name: _sorted(each) for name, each in said.items()}
    return sorted(said) if isinstance(said, set) else said


def main():
    logging.disable()
    for line in sys.stdin:
        sequence = json.loads(line)
        trio._core._run._r = random.Random(0)
        CLOCK.now_us = 0
        run = Run(sequence)
        result = {"name": sequence["name"], "steps": run.found}
        try:
            trio.run(run.play, sequence["steps"], clock=CLOCK)
        except Exception as error:
            result["error"] = repr(error)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
