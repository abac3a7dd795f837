"""What a vector of a router looks like, and which of our parameters its names stand for.

Names are those of the specifications of v1.1 and v1.2 and of go-libp2p-pubsub. Times are microseconds.
"""

from __future__ import annotations

from hearsay.core.language.events import Verdict
from hearsay.core.language.rpc import FLOODSUB, MESHSUB, MESHSUB_11, MESHSUB_12
from hearsay.core.shell.parameters import MAX_COUNT
from hearsay.vectors.score_format import (
    KNOWN,
    LARGEST,
    LATEST_US,
    MILLISECOND,
    MOST_PEERS,
    MOST_STEPS,
    MOST_TOPICS,
    Parameter,
    time,
)
from hearsay.vectors.score_format import PARAMETERS as SCORE
from hearsay.vectors.shapes import (
    Address,
    Cases,
    Listing,
    Named,
    Number,
    Shape,
    Shared,
    Table,
    Text,
    Truth,
    Whole,
    Word,
)

NODE = "self"
"""What the router is called that is looked at; its own messages are from it."""
PROTOCOLS = (FLOODSUB, MESHSUB, MESHSUB_11, MESHSUB_12)
MOST_IDS = 10_000
MOST_MESSAGES = 10_000
LARGEST_MESSAGE = 1 << 20


def _count(ours: str, low: int = 0, high: int = MAX_COUNT) -> Parameter:
    return Parameter(ours, Whole(low, high))


ROUTER = {
    "D": _count("degree"),
    "Dlo": _count("degree_low"),
    "Dhi": _count("degree_high"),
    "Dscore": _count("degree_score"),
    "Dout": _count("degree_out"),
    "Dlazy": _count("degree_lazy"),
    "GossipFactor": Parameter("gossip_factor", Number(0, 1)),
    "HistoryLength": _count("history_length", 1, 100_000),
    "HistoryGossip": _count("history_gossip", 0, 100_000),
    "GossipRetransmission": _count("iwant_answers_per_id"),
    "MaxIHaveLength": _count("max_ids_per_ihave", 1),
    "MaxIHaveMessages": _count("max_ihave_messages"),
    "IWantFollowupTime": time("iwant_followup_ms", MILLISECOND),
    "HeartbeatInitialDelay": time("first_heartbeat_ms"),
    "HeartbeatInterval": time("heartbeat_interval_ms", MILLISECOND),
    "FanoutTTL": time("fanout_ttl_ms"),
    "PruneBackoff": time("prune_backoff_ms", MILLISECOND),
    "UnsubscribeBackoff": time("unsubscribe_backoff_ms"),
    "GraftFloodThreshold": time("graft_flood_ms"),
    "PrunePeers": _count("exchange_peers", 0, 1_000),
    "OpportunisticGraftTicks": _count("opportunistic_graft_ticks"),
    "OpportunisticGraftPeers": _count("opportunistic_graft_peers"),
    "DirectConnectTicks": _count("direct_connect_ticks"),
    "FloodPublish": Parameter("flood_publish", Truth()),
    "IDontWantMessageThreshold": _count("idontwant_threshold_bytes"),
    "IDontWantMessageTTL": _count("idontwant_ttl_heartbeats", 1),
    "MaxIDontWantLength": _count("max_ids_per_idontwant", 1),
    "MaxIDontWantMessages": _count("max_idontwants", 1),
    "Validate": Parameter("validate", Truth("the application is asked about messages of others")),
}
THRESHOLDS = {
    "GossipThreshold": Parameter("gossip", Number(-MAX_COUNT, 0)),
    "PublishThreshold": Parameter("publish", Number(-MAX_COUNT, 0)),
    "GraylistThreshold": Parameter("graylist", Number(-MAX_COUNT, 0)),
    "AcceptPXThreshold": Parameter("accept_exchange", Number(0, MAX_COUNT)),
    "OpportunisticGraftThreshold": Parameter("opportunistic_graft", Number(0, MAX_COUNT)),
}
_THRESHOLDS = Table({name: each.shape for name, each in THRESHOLDS.items()}, (), "what is left out is 0")
_SCORE = Table({**SCORE.fields, "Thresholds": _THRESHOLDS}, SCORE.required, "without it all scores are 0")
PARAMETERS = Table({**{name: each.shape for name, each in ROUTER.items()}, "Score": _SCORE})

_peer, _topic, _message = Text("a peer"), Text("a topic"), Text("a message, by its name in `messages`")
_peers = Listing(_peer, MOST_PEERS)
_topics = Listing(_topic, MOST_TOPICS)
_ids = Listing(_message, MOST_IDS)
_prune = Table({"backoff": Whole(0, 1 << 53, "seconds"), "peers": _peers})
RPC = Shared(
    "rpc",
    Table(
        {
            "subscribe": _topics,
            "unsubscribe": _topics,
            "messages": _ids,
            "ihave": Named(_ids, MOST_TOPICS),
            "iwant": _ids,
            "graft": _topics,
            "prune": Named(_prune, MOST_TOPICS),
            "idontwant": _ids,
        },
    ),
)
_some = Table(
    {"count": Whole(1, MOST_PEERS), "among": _peers, "rpc": RPC},
    ("count", "among", "rpc"),
    "so many of these peers are sent this, whichever they are",
)
_chosen = Table(
    {"size": Whole(0, MOST_PEERS), "of": _peers, "with": _peers},
    ("size", "of", "with"),
    "so many peers, all of them among `of`, and all of `with`",
)
_by_topic = Named(_peers, MOST_TOPICS)
_chosen_by_topic = Named(_chosen, MOST_TOPICS)
EXPECTED = Shared(
    "expected",
    Table(
        {
            "rpcs": Named(RPC, MOST_PEERS, "all that leaves in this step, by peer"),
            "some": Listing(_some, 100, "what leaves beside that, to peers that are drawn"),
            "delivers": _ids,
            "validates": _ids,
            "dials": _peers,
            "mesh": _by_topic,
            "mesh_some": _chosen_by_topic,
            "fanout": _by_topic,
            "fanout_some": _chosen_by_topic,
            "backoffs": Named(Named(Whole(0, 2 * LATEST_US), MOST_PEERS), MOST_TOPICS, "when they end"),
            "scores": Named(Number(-LARGEST, LARGEST), MOST_PEERS),
        },
        (),
        "what the step changes; what is not here does not change, and nothing else happens",
    ),
)
_DIFFERS = Shared(
    "expected_differs",
    Table(dict.fromkeys(KNOWN, EXPECTED), (), "by implementation: what is expected of it in place of `expect`"),
)
_STEP = {
    "at": Whole(0, LATEST_US, "microseconds; never before the step before"),
    "expect": EXPECTED,
    "differs": _DIFFERS,
}
_CONNECT = {"peer": _peer, "protocol": Word(PROTOCOLS)}
_CONNECT_MORE = {"outbound": Truth("the router dialled"), "address": Address("an IP address")}


def _step(**more: Shape) -> Table:
    return Table({**_STEP, **more}, ("at", *more))


EVENTS = Cases(
    "event",
    {
        "connect": Table({**_STEP, **_CONNECT, **_CONNECT_MORE}, ("at", *_CONNECT)),
        "disconnect": _step(peer=_peer),
        "join": _step(topic=_topic),
        "leave": _step(topic=_topic),
        "publish": _step(message=_message),
        "rpc": _step(peer=_peer, rpc=RPC),
        "verdict": _step(message=_message, verdict=Word(tuple(verdict.value for verdict in Verdict))),
        "heartbeat": _step(),
        "application_score": _step(peer=_peer, score=Number(-MAX_COUNT, MAX_COUNT)),
        "direct": _step(peer=_peer, direct=Truth()),
    },
)
_MESSAGE = Table(
    {
        "topic": _topic,
        "size": Whole(0, LARGEST_MESSAGE, "bytes of data"),
        "from": Text(f"the author: a peer, or {NODE!r} for the router's own"),
    },
    ("topic", "size"),
)
VECTOR = {
    "parameters": PARAMETERS,
    "messages": Named(_MESSAGE, MOST_MESSAGES),
    "steps": Listing(EVENTS, MOST_STEPS, least=1),
}
