"""Differences of libp2p-gossipsub (Rust), each with the few steps that show it and the results of the last step.

`python interop/differential/rust_faults.py` plays them on both sides and prints what each does.
"""

from __future__ import annotations

from typing import Any

from fault import HEARTBEAT, SECOND, Fault, Step, connect, publish, rate, rpc, show
from run_rust import COMPARISON

PARAMETERS = {
    "D": 3, "Dlo": 1, "Dhi": 20, "Dscore": 1, "Dout": 0, "Dlazy": 6, "GossipFactor": 0.25,
    "HeartbeatInitialDelay": SECOND // 2, "HeartbeatInterval": SECOND, "HistoryLength": 5, "HistoryGossip": 3,
    "GossipRetransmission": 3, "MaxIHaveLength": 5_000, "MaxIHaveMessages": 10, "IWantFollowupTime": 3 * SECOND,
    "FanoutTTL": 60 * SECOND, "PruneBackoff": 60 * SECOND, "UnsubscribeBackoff": 10 * SECOND,
    "GraftFloodThreshold": SECOND, "PrunePeers": 0, "OpportunisticGraftTicks": 60, "FloodPublish": False,
    "IDontWantMessageThreshold": 100, "IDontWantMessageTTL": 4, "MaxIDontWantLength": 10_000,
    "MaxIDontWantMessages": 1_000_000, "Validate": False,
}  # fmt: skip
SCORE: dict[str, Any] = {
    "TopicScoreCap": 0, "AppSpecificWeight": 1, "IPColocationFactorWeight": -5, "IPColocationFactorThreshold": 1,
    "BehaviourPenaltyWeight": -10, "BehaviourPenaltyThreshold": 0, "BehaviourPenaltyDecay": 0.9,
    "DecayInterval": SECOND, "DecayToZero": 0.01, "RetainScore": 60 * SECOND, "SeenMsgTTL": 120 * SECOND,
    "Thresholds": {"GossipThreshold": -10, "PublishThreshold": -20, "GraylistThreshold": -40,
                   "AcceptPXThreshold": 0, "OpportunisticGraftThreshold": 0},
    "Topics": {},
}  # fmt: skip
MESSAGES = {
    "m1": {"topic": "news", "size": 200},
    "m2": {"topic": "news", "size": 200},
    "m3": {"topic": "news", "size": 200},
    "of-a": {"topic": "news", "size": 200, "from": "A"},
    "own": {"topic": "news", "size": 200, "from": "self"},
    "own2": {"topic": "news", "size": 200, "from": "self"},
}
JOIN: Step = {"event": "join", "topic": "news"}


def _connect(*peers: str, version: str = "1.2", address: str = "") -> list[Step]:
    steps = connect(*peers, version=version)
    return [{**step, "address": address or f"10.0.0.{ord(step['peer'])}"} for step in steps]


def _subscribers(*peers: str, version: str = "1.2") -> list[Step]:
    return [*_connect(*peers, version=version), *(rpc(peer, subscribe=["news"]) for peer in peers)]


def _members(*peers: str, version: str = "1.2") -> list[Step]:
    return [JOIN, *_subscribers(*peers, version=version), *(rpc(peer, graft=["news"]) for peer in peers)]


def _verdict(name: str) -> Step:
    return {"event": "verdict", "message": name, "verdict": "accept"}


FAULTS = (
    Fault(
        "a publication forgets a fan-out with fewer than D peers",
        [*_subscribers("A", "B"), publish("own"), publish("own2")],
        {"fanout": {}, "rpcs": {"A": {"messages": ["own2"]}, "B": {"messages": ["own2"]}}},
        {"fanout": {"news": ["A", "B"]}, "rpcs": {"A": {"messages": ["own2"]}, "B": {"messages": ["own2"]}}},
    ),
    Fault(
        "a heartbeat grafts a peer that it has just pruned",
        [*_members("A", "B", "C"), rate("A", 5), rate("C", 4), HEARTBEAT],
        {"mesh": {"news": ["A", "B", "C"]}, "rpcs": {"C": {"graft": ["news"], "prune": {"news": {"backoff": 60}}}}},
        {"mesh": {"news": ["A", "B"]}, "rpcs": {"C": {"prune": {"news": {"backoff": 60}}}}},
        {"D": 2, "Dhi": 3, "OpportunisticGraftTicks": 1,
         "Score": {**SCORE, "Thresholds": {**SCORE["Thresholds"], "OpportunisticGraftThreshold": 3}}},
    ),
    Fault(
        "without scores a promise never ends",
        [JOIN, *_connect("A", "B"), rpc("A", ihave={"news": ["m1"]}), *[HEARTBEAT] * 20,
         rpc("B", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"B": {"iwant": ["m1"]}}},
    ),
    Fault(
        "the GRAFT of a floodsub peer is accepted",
        [*_members("A", version="floodsub")],
        {"mesh": {"news": ["A"]}},
        {"mesh": {}},
    ),
    Fault(
        "the IDONTWANT of a floodsub peer has an effect",
        [*_members("A"), *_subscribers("F", version="floodsub"), rpc("F", idontwant=["m1"]),
         rpc("A", messages=["m1"])],
        {"rpcs": {}},
        {"rpcs": {"F": {"messages": ["m1"]}}},
    ),
    Fault(
        "no backoff begins for a pruned peer with protocol 1.0",
        [*_members("A", version="1.0"), {"event": "leave", "topic": "news"}],
        {"backoffs": {}, "rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {}}}}},
        {"backoffs": {"news": {"A": 10_005_000}}, "rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {}}}}},
    ),
    Fault(
        "a PRUNE with a backoff of 0 begins no backoff",
        [*_members("A"), rpc("A", prune={"news": {"backoff": 0}})],
        {"backoffs": {}},
        {"backoffs": {"news": {"A": 60_005_000}}},
    ),
    Fault(
        "a second SUBSCRIBE is answered with GRAFT",
        [JOIN, *_subscribers("A", "B"), rpc("A", prune={"news": {"backoff": 60}}), rpc("B", subscribe=["news"])],
        {"mesh": {"news": ["B"]}},
        {"mesh": {}},
    ),
    Fault(
        "a message of a topic that is not joined is cached, and sent in answer to IWANT",
        [*_connect("A", "B"), rpc("A", messages=["m1"]), rpc("B", iwant=["m1"])],
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "the gossip windows of a message begin at its arrival, not at the verdict",
        [*_members("A"), *_subscribers("B"), rpc("A", messages=["m1"]), *[HEARTBEAT] * 3, _verdict("m1"), HEARTBEAT],
        {"rpcs": {}},
        {"rpcs": {"B": {"ihave": {"news": ["m1"]}}}},
        {"Validate": True},
    ),
    Fault(
        "a verdict after the last window has no effect",
        [*_members("A", "B"), rpc("A", messages=["m1"]), *[HEARTBEAT] * 5, _verdict("m1")],
        {"rpcs": {}},
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"Validate": True},
    ),
    Fault(
        "a message without recipients is not seen",
        [JOIN, *_connect("A"), publish("own"), rpc("A", ihave={"news": ["own"]})],
        {"rpcs": {"A": {"iwant": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "an IHAVE may have more ids than may be requested",
        [JOIN, *_connect("A"), rpc("A", messages=["m1"]), rpc("A", ihave={"news": ["m1", "m2", "m3"]})],
        {"rpcs": {"A": {"iwant": ["m2", "m3"]}}},
        {"rpcs": {"A": {"iwant": ["m2"]}}},
        {"MaxIHaveLength": 2},
    ),
    Fault(
        "an IWANT for a message for which the peer sent IDONTWANT counts as answered",
        [*_members("A"), *_connect("B"), rpc("A", messages=["m1"]), rpc("B", idontwant=["m1"]),
         rpc("B", iwant=["m1"]), *[HEARTBEAT] * 4, rpc("B", iwant=["m1"])],
        {"rpcs": {}},
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"GossipRetransmission": 1},
    ),
    Fault(
        "an id is forgotten only when another message comes",
        [*_members("A"), rpc("A", messages=["m1"]), *[HEARTBEAT] * 62, rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m1"]}}},
    ),
    Fault(
        "a copy of a message that waits for its verdict is validated again after a minute",
        [*_members("A"), rpc("A", messages=["m1"]), *[HEARTBEAT] * 62, rpc("A", messages=["m1"])],
        {"validates": ["m1"]},
        {"validates": []},
        {"Validate": True},
    ),
    Fault(
        "a message with the router as author fulfils no promise",
        [JOIN, *_connect("A"), rpc("A", ihave={"news": ["own"]}), rpc("A", messages=["own"]), *[HEARTBEAT] * 4],
        {"scores": {"A": -10.0}},
        {"scores": {"A": 0.0}},
        {"Score": SCORE},
    ),
    Fault(
        "IDONTWANT is sent for a message with the router as author",
        [*_members("A", "B"), rpc("A", messages=["own"])],
        {"rpcs": {"B": {"idontwant": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "IDONTWANT is not sent to the author of a message",
        [*_members("A", "B"), rpc("B", messages=["of-a"])],
        {"rpcs": {}},
        {"rpcs": {"A": {"idontwant": ["of-a"]}}},
    ),
    Fault(
        "IDONTWANT is sent to a peer from which the message was requested",
        [JOIN, *_connect("A", "B"), rpc("A", ihave={"news": ["m1"]}), rpc("B", messages=["m1"])],
        {"rpcs": {"A": {"idontwant": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "an own message is sent to a peer that sent IDONTWANT for it",
        [*_members("A"), rpc("A", idontwant=["own"]), publish("own")],
        {"rpcs": {"A": {"messages": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "an own message is not sent to members with a score below the publish threshold",
        [*_members("A", "B"), rate("A", -30), publish("own")],
        {"rpcs": {"B": {"messages": ["own"]}}},
        {"rpcs": {"A": {"messages": ["own"]}, "B": {"messages": ["own"]}}},
        {"Score": SCORE},
    ),
    Fault(
        "the IHAVE of a direct peer with a low score is ignored",
        [{"event": "direct", "peer": "A", "direct": True}, JOIN, *_connect("A"), rate("A", -15),
         rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m1"]}}},
        {"Score": SCORE},
    ),
    Fault(
        "the limit of IHAVEs holds for direct peers",
        [{"event": "direct", "peer": "A", "direct": True}, JOIN, *_connect("A"), rpc("A", ihave={"news": ["m1"]}),
         rpc("A", ihave={"news": ["m2"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m2"]}}},
        {"MaxIHaveMessages": 1},
    ),
    Fault(
        "a peer is dialled when it becomes a direct peer",
        [{"event": "direct", "peer": "A", "direct": True}],
        {"dials": ["A"]},
        {"dials": []},
    ),
    Fault(
        "a disconnected peer does not count at its address",
        [*_connect("A", "B", address="10.0.0.1"), {"event": "disconnect", "peer": "B"}],
        {"scores": {"A": 0.0}},
        {"scores": {"A": -5.0}},
        {"Score": SCORE},
    ),
    Fault(
        "a score with a retention of 0 seconds is kept until the next decay",
        [*_members("A"), rpc("A", prune={"news": {"backoff": 60}}), rpc("A", graft=["news"]),
         {"event": "disconnect", "peer": "A"}, *_connect("A")],
        {"scores": {"A": -40.0}},
        {"scores": {"A": 0.0}},
        {"Score": {**SCORE, "RetainScore": 0}},
    ),
)  # fmt: skip


def to_sequence(fault: Fault) -> dict[str, Any]:
    return fault.sequence(PARAMETERS, MESSAGES)


if __name__ == "__main__":
    show(COMPARISON, FAULTS, to_sequence)
