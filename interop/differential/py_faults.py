"""Differences of py-libp2p's router, each with the few steps that show it and the results of the last step.

`python interop/differential/py_faults.py` plays them on both sides and prints what each does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from fault import HEARTBEAT, SECOND, Fault, Step, connect, join, publish, rpc, show
from run_py import COMPARISON

PARAMETERS = {
    "D": 2, "Dlo": 1, "Dhi": 20, "Dscore": 0, "Dout": 0, "Dlazy": 6, "GossipFactor": 0.25,
    "HeartbeatInitialDelay": SECOND // 2, "HeartbeatInterval": SECOND, "HistoryLength": 5, "HistoryGossip": 3,
    "GossipRetransmission": 1_000_000, "MaxIHaveLength": 5_000, "MaxIHaveMessages": 0, "FanoutTTL": 60_900_000,
    "PruneBackoff": 60 * SECOND, "UnsubscribeBackoff": 10 * SECOND, "GraftFloodThreshold": 0, "PrunePeers": 0,
    "OpportunisticGraftTicks": 0, "FloodPublish": False, "IDontWantMessageThreshold": 1, "IDontWantMessageTTL": 1,
    "MaxIDontWantLength": 1_000, "MaxIDontWantMessages": 1_000, "Validate": False,
}  # fmt: skip
MESSAGES = {
    "m1": {"topic": "news", "size": 10},
    "m2": {"topic": "news", "size": 10, "from": "self"},
    "abcd": {"topic": "news", "size": 10},
}


_connect = partial(connect, version="1.1")


def _members(*peers: str, version: str = "1.1", topics: Iterable[str] = ("news",)) -> list[Step]:
    """Return steps after which these peers are in the meshes of these topics."""
    joined = [*_connect(*peers, version=version), *join(*topics)]
    joined += [rpc(peer, subscribe=[*topics]) for peer in peers]
    return [*joined, *(rpc(peer, graft=[*topics]) for peer in peers)]


FAULTS = (
    Fault(
        "a heartbeat grafts two more peers, which are no better than the members",
        [*_members("A"), *_connect("B", "C"), rpc("B", subscribe=["news"]), rpc("C", subscribe=["news"]), HEARTBEAT],
        {"mesh": {"news": ["A", "B", "C"]}},
        {"mesh": {"news": ["A"]}},
        {"OpportunisticGraftTicks": 1},
    ),
    Fault(
        "the PRUNE of a heartbeat has no backoff, and none begins",
        [*_members("A", "B", "C"), HEARTBEAT],
        {"rpcs": {"C": {"prune": {"news": {}}}}, "backoffs": {}},
        {"rpcs": {"C": {"prune": {"news": {"backoff": 60}}}}, "backoffs": {"news": {"C": 60_500_000}}},
        {"Dhi": 2},
    ),
    Fault(
        "a peer that unsubscribes stays in the mesh",
        [*_members("A"), rpc("A", unsubscribe=["news"])],
        {"mesh": {"news": ["A"]}},
        {"mesh": {}},
    ),
    Fault(
        "GRAFTs of a heartbeat are also sent to the peers that it grafts later",
        [
            *_connect("A", "B"), rpc("A", subscribe=["news"]), rpc("B", subscribe=["sport"]),
            *join("news", "sport"), rpc("A", prune={"news": {"backoff": 1}}),
            rpc("B", prune={"sport": {"backoff": 1}}), HEARTBEAT, HEARTBEAT,
        ],
        {"rpcs": {"A": {"graft": ["news"]}, "B": {"graft": ["news", "sport"]}}},
        {"rpcs": {"A": {"graft": ["news"]}, "B": {"graft": ["sport"]}}},
    ),
    Fault(
        "a peer in backoff gets no IHAVE",
        [*_members("A", "B"), rpc("A", prune={"news": {"backoff": 60}}), publish("m2"), HEARTBEAT],
        {"rpcs": {}},
        {"rpcs": {"A": {"ihave": {"news": ["m2"]}}}},
    ),
    Fault(
        "a peer that subscribes gets recent messages",
        [*_members("A"), publish("m2"), HEARTBEAT, *_connect("B"), rpc("B", subscribe=["news"])],
        {"rpcs": {"B": {"messages": ["m2"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "IDONTWANT is also sent to the sender of the message",
        [*_members("A", version="1.2"), rpc("A", messages=["m1"])],
        {"rpcs": {"A": {"idontwant": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "IDONTWANT is not sent before the validation",
        [*_members("A"), *_connect("B", version="1.2"), rpc("B", subscribe=["news"]), rpc("B", graft=["news"]),
         rpc("A", messages=["m1"])],
        {"rpcs": {}},
        {"rpcs": {"B": {"idontwant": ["m1"]}}},
        {"Validate": True},
    ),
    Fault(
        "IWANT is answered with a message for which the peer sent IDONTWANT",
        [*_members("A"), *_connect("B", version="1.2"), rpc("A", messages=["m1"]), rpc("B", idontwant=["m1"]),
         rpc("B", iwant=["m1"])],
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "a copy of a message that waits for its verdict is validated, too",
        [*_members("A", "B"), rpc("A", messages=["m1"]), rpc("B", messages=["m1"])],
        {"validates": ["m1"]},
        {"validates": []},
        {"Validate": True},
    ),
    Fault(
        "a message of which a copy came before the verdict is delivered twice",
        [*_members("A", "B"), rpc("A", messages=["m1"]), rpc("B", messages=["m1"]),
         {"event": "verdict", "message": "m1", "verdict": "accept"}],
        {"delivers": ["m1", "m1"]},
        {"delivers": ["m1"]},
        {"Validate": True},
    ),
    Fault(
        "IWANT requests a message that was rejected",
        [*_members("A"), rpc("A", messages=["m1"]), {"event": "verdict", "message": "m1", "verdict": "reject"},
         rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {"A": {"iwant": ["m1"]}}},
        {"rpcs": {}},
        {"Validate": True},
    ),
    Fault(
        "a message that a peer sends with the router as author counts as seen",
        [*_members("A"), rpc("A", messages=["m2"]), rpc("A", ihave={"news": ["m2"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m2"]}}},
    ),
    Fault(
        "IWANT requests a message of a topic that is not joined",
        [*_connect("A"), rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {"A": {"iwant": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "the PRUNE for a GRAFT of a topic that is not joined has a backoff",
        [*_connect("A"), rpc("A", subscribe=["news"]), rpc("A", graft=["news"])],
        {"rpcs": {"A": {"prune": {"news": {"backoff": 60}}}}},
        {"rpcs": {"A": {"prune": {"news": {}}}}},
    ),
    Fault(
        "an id of hexadecimal digits is decoded",
        [*_members("A"), rpc("A", ihave={"news": ["abcd"]})],
        {"rpcs": {"A": {"iwant": ["0xabcd"]}}},
        {"rpcs": {"A": {"iwant": ["abcd"]}}},
    ),
    Fault(
        "for ten seconds after its PRUNE a peer's GRAFT is refused, even if the backoff is over",
        [*_members("A"), rpc("A", prune={"news": {"backoff": 1}}), HEARTBEAT, HEARTBEAT, rpc("A", graft=["news"])],
        {"mesh": {"news": []}, "rpcs": {"A": {"prune": {"news": {"backoff": 60}}}}},
        {"mesh": {"news": ["A"]}, "rpcs": {}},
        {"GraftFloodThreshold": 10 * SECOND, "Dlo": 0},
    ),
    Fault(
        "a PRUNE to a peer with protocol 1.0 has a backoff",
        [*_members("A", version="1.0"), {"event": "leave", "topic": "news"}],
        {"rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {"backoff": 10}}}}},
        {"rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {}}}}},
    ),
    Fault(
        "the GRAFT of a floodsub peer is accepted",
        [*_members("A", version="floodsub")],
        {"mesh": {"news": ["A"]}},
        {"mesh": {}},
    ),
    Fault(
        "a member that did not subscribe gets no messages if the topic has no subscribers",
        [*_connect("A"), *join("news"), rpc("A", graft=["news"]), publish("m2")],
        {"rpcs": {}},
        {"rpcs": {"A": {"messages": ["m2"]}}},
    ),
    Fault(
        "a publication without recipients makes no fan-out",
        [*_connect("A"), publish("m2"), rpc("A", subscribe=["news"]), HEARTBEAT],
        {"fanout": {}},
        {"fanout": {"news": ["A"]}},
    ),
    Fault(
        "IWANT requests a message that comes in the same RPC as its IHAVE",
        [*_members("A"), rpc("A", messages=["m1"], ihave={"news": ["m1"]})],
        {"rpcs": {"A": {"iwant": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "with peer exchange, a GRAFT for a topic without subscribers raises",
        [*_connect("A"), rpc("A", graft=["news"])],
        {},
        {"rpcs": {"A": {"prune": {"news": {}}}}},
        {"PrunePeers": 16},
        "KeyError('news')",
    ),
)  # fmt: skip


def to_sequence(fault: Fault) -> dict[str, Any]:
    return fault.sequence(PARAMETERS, MESSAGES)


if __name__ == "__main__":
    show(COMPARISON, FAULTS, to_sequence)
