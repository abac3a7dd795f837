"""Differences of go's router, each with the few steps that show it and the results of the last step.

`python interop/differential/go_faults.py` plays them on both sides and prints what each does.
"""

from __future__ import annotations

from typing import Any

from fault import HEARTBEAT, SECOND, Fault, Step, connect, join, publish, rate, rpc, show
from run_go import COMPARISON

PARAMETERS = {
    "D": 2, "Dlo": 2, "Dhi": 3, "Dscore": 1, "Dout": 0, "Dlazy": 6, "HeartbeatInitialDelay": SECOND // 2,
    "HeartbeatInterval": SECOND, "HistoryLength": 5, "HistoryGossip": 3, "PruneBackoff": 60 * SECOND,
    "UnsubscribeBackoff": 10 * SECOND, "PrunePeers": 16, "DirectConnectTicks": 300, "FloodPublish": False,
    "MaxIHaveMessages": 10, "MaxIHaveLength": 5000, "Validate": False,
}  # fmt: skip
SCORE = {
    "AppSpecificWeight": 1, "BehaviourPenaltyWeight": -1, "BehaviourPenaltyDecay": 0.9,
    "DecayInterval": SECOND, "DecayToZero": 0.01, "RetainScore": 60 * SECOND, "IPColocationFactorWeight": 0,
    "Thresholds": {"GossipThreshold": -10, "PublishThreshold": -20, "GraylistThreshold": -40},
    "Topics": {},
}  # fmt: skip
MESSAGES = {
    "m1": {"topic": "news", "size": 10},
    "m2": {"topic": "news", "size": 10, "from": "self"},
    "m3": {"topic": "sport", "size": 10},
}


def _members(*peers: str) -> list[Step]:
    return [*connect(*peers), *join("news"), *(rpc(peer, subscribe=["news"], graft=["news"]) for peer in peers)]


DIRECT: Step = {"event": "direct", "peer": "A", "direct": True}
VERDICT: Step = {"event": "verdict", "message": "m1", "verdict": "accept"}

FAULTS = (
    Fault(
        "the GRAFT of a floodsub peer is accepted",
        [*connect("A", version="floodsub"), *join("news"), rpc("A", subscribe=["news"], graft=["news"])],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "a peer that unsubscribes without PRUNE stays in the mesh",
        [*_members("A"), rpc("A", unsubscribe=["news"])],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "a member that did not subscribe gets no messages if the topic has no subscribers",
        [*connect("A"), *join("news"), rpc("A", graft=["news"]), publish("m2")],
        {"rpcs": {}}, {"rpcs": {"A": {"messages": ["m2"]}}},
    ),
    Fault(
        "a peer that unsubscribes stays in the fan-out until the heartbeat",
        [*connect("A"), rpc("A", subscribe=["news"]), publish("m2"), rpc("A", unsubscribe=["news"])],
        {"fanout": {"news": ["A"]}}, {"fanout": {}},
    ),
    Fault(
        "a message that is accepted after LEAVE goes to a fan-out",
        [*_members("A"), *connect("B"), rpc("B", messages=["m1"]), {"event": "leave", "topic": "news"}, VERDICT],
        {"rpcs": {"A": {"messages": ["m1"]}}}, {"rpcs": {}}, {"Validate": True},
    ),
    Fault(
        "a publication without recipients makes no fan-out",
        [*connect("A"), publish("m2"), rpc("A", subscribe=["news"]), HEARTBEAT],
        {"fanout": {}}, {"fanout": {"news": ["A"]}},
    ),
    Fault(
        "a message of a topic that is not joined fulfils no promise",
        [*connect("A"), *join("news"), rpc("A", ihave={"news": ["m3"]}), rpc("A", messages=["m3"]),
         *[HEARTBEAT] * 2],
        {"scores": {"A": -1}}, {"scores": {}}, {"Score": SCORE, "IWantFollowupTime": SECOND},
    ),
    Fault(
        "a late extensions control lowers the score of a peer with an older version",
        [*connect("A"), rpc("A", subscribe=["news"]), rpc("A", extensions=[])],
        {"scores": {"A": -100}}, {"scores": {}}, {"Score": SCORE},
    ),
    Fault(
        "after a connection with an older version, a peer's first RPC does not count as the first",
        [*connect("A"), rpc("A", subscribe=["news"]), {"event": "disconnect", "peer": "A"},
         *connect("A", version="1.3"), rpc("A", extensions=[])],
        {"scores": {"A": -100}}, {"scores": {}}, {"Score": SCORE},
    ),
    Fault(
        "an RPC of a graylisted peer does not count as its first",
        [*connect("A", version="1.3"), rate("A", -50), rpc("A", subscribe=["news"]), rate("A", 0),
         rpc("A", extensions=[])],
        {"scores": {}}, {"scores": {"A": -100}}, {"Score": SCORE},
    ),
    Fault(
        "a member that becomes a direct peer stays in the mesh",
        [*_members("A"), DIRECT],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "the gossip of a direct peer with a low score is ignored",
        [DIRECT, *connect("A"), *join("news"), rate("A", -11), rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}}, {"rpcs": {"A": {"iwant": ["m1"]}}}, {"Score": SCORE},
    ),
    Fault(
        "a direct peer gets a message for which it sent IDONTWANT",
        [DIRECT, *connect("A", "B"), *join("news"), rpc("A", subscribe=["news"], idontwant=["m1"]),
         rpc("B", messages=["m1"])],
        {"rpcs": {"A": {"messages": ["m1"]}}}, {"rpcs": {}},
    ),
    Fault(
        "the PRUNE for the GRAFT of a direct peer begins no backoff",
        [DIRECT, *connect("A"), *join("news"), rpc("A", subscribe=["news"], graft=["news"])],
        {"backoffs": {}}, {"backoffs": {"news": {"A": 60_033_000}}},
    ),
    Fault(
        "direct peers are dialled in the last heartbeat of an interval",
        [DIRECT, HEARTBEAT],
        {"dials": []}, {"dials": ["A"]},
    ),
    Fault(
        "each RPC with a control part counts as an IHAVE",
        [*connect("A"), *join("news"), *[rpc("A", iwant=["m1"])] * 2, rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}}, {"rpcs": {"A": {"iwant": ["m1"]}}}, {"MaxIHaveMessages": 2},
    ),
    Fault(
        "a score with a retention of 0 seconds is kept until the next decay",
        [*_members("A"), rpc("A", prune={"news": {}}), rpc("A", graft=["news"]),
         {"event": "disconnect", "peer": "A"}, *connect("A")],
        {"scores": {"A": -1}}, {"scores": {}}, {"Score": {**SCORE, "RetainScore": 0}, "GraftFloodThreshold": 0},
    ),
    Fault(
        "a flooded own message is sent to members that sent IDONTWANT for it",
        [*_members("A"), rpc("A", idontwant=["m2"]), publish("m2")],
        {"rpcs": {"A": {"messages": ["m2"]}}}, {"rpcs": {}}, {"FloodPublish": True},
    ),
    Fault(
        "a flooded own message is not sent to members below the publish threshold",
        [*_members("A"), rate("A", -21), publish("m2")],
        {"rpcs": {}}, {"rpcs": {"A": {"messages": ["m2"]}}}, {"FloodPublish": True, "Score": SCORE},
    ),
)  # fmt: skip


def to_sequence(fault: Fault) -> dict[str, Any]:
    return fault.sequence(PARAMETERS, MESSAGES, first=30_000)


if __name__ == "__main__":
    show(COMPARISON, FAULTS, to_sequence)
