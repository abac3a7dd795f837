"""What libp2p-gossipsub (Rust) does otherwise, each in the few steps that show it, with what came of the last one.

`python interop/differential/rust_faults.py` plays them on both sides and prints what each does.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hearsay_side import play
from run_rust import like_rust, start_driver
from rust_sequences import SECOND

Step = dict[str, Any]
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
BEAT: Step = {"event": "heartbeat"}
JOIN: Step = {"event": "join", "topic": "news"}


class Fault(NamedTuple):
    name: str
    steps: list[Step]
    expected: dict[str, Any]
    """What the Rust side does in the last step, by kind,"""
    ours: dict[str, Any]
    """and what Hearsay does."""
    parameters: dict[str, Any] = {}  # noqa: RUF012

    def sequence(self) -> dict[str, Any]:
        """With times: a heartbeat at each half second, other steps early in their second."""
        second, steps = 0, list[Step]()
        for number, step in enumerate(self.steps):
            at = second * SECOND + (SECOND // 2 if step is BEAT else 1_000 * (number + 1))
            steps.append({"at": at, **step})
            second += step is BEAT
        parameters = {**PARAMETERS, **self.parameters}
        return {"name": self.name, "parameters": parameters, "messages": MESSAGES, "steps": steps}


def _connect(*peers: str, version: str = "1.2", address: str = "") -> list[Step]:
    protocol = "/floodsub/1.0.0" if version == "floodsub" else f"/meshsub/{version}.0"
    return [{"event": "connect", "peer": peer, "protocol": protocol, "address": address or f"10.0.0.{ord(peer)}"}
            for peer in peers]  # fmt: skip


def _rpc(peer: str, **rpc: Any) -> Step:
    return {"event": "rpc", "peer": peer, "rpc": rpc}


def _subscribers(*peers: str, version: str = "1.2") -> list[Step]:
    return [*_connect(*peers, version=version), *(_rpc(peer, subscribe=["news"]) for peer in peers)]


def _members(*peers: str, version: str = "1.2") -> list[Step]:
    return [JOIN, *_subscribers(*peers, version=version), *(_rpc(peer, graft=["news"]) for peer in peers)]


def _publish(name: str) -> Step:
    return {"event": "publish", "message": name}


def _verdict(name: str) -> Step:
    return {"event": "verdict", "message": name, "verdict": "accept"}


def _rate(peer: str, score: float) -> Step:
    return {"event": "application_score", "peer": peer, "score": score}


FAULTS = (
    Fault(
        "a publish forgets a fan-out with fewer than D peers",
        [*_subscribers("A", "B"), _publish("own"), _publish("own2")],
        {"fanout": {}, "rpcs": {"A": {"messages": ["own2"]}, "B": {"messages": ["own2"]}}},
        {"fanout": {"news": ["A", "B"]}, "rpcs": {"A": {"messages": ["own2"]}, "B": {"messages": ["own2"]}}},
    ),
    Fault(
        "a heartbeat grafts a peer that it has just pruned",
        [*_members("A", "B", "C"), _rate("A", 5), _rate("C", 4), BEAT],
        {"mesh": {"news": ["A", "B", "C"]}, "rpcs": {"C": {"graft": ["news"], "prune": {"news": {"backoff": 60}}}}},
        {"mesh": {"news": ["A", "B"]}, "rpcs": {"C": {"prune": {"news": {"backoff": 60}}}}},
        {"D": 2, "Dhi": 3, "OpportunisticGraftTicks": 1,
         "Score": {**SCORE, "Thresholds": {**SCORE["Thresholds"], "OpportunisticGraftThreshold": 3}}},
    ),
    Fault(
        "without scores a promise never ends",
        [JOIN, *_connect("A", "B"), _rpc("A", ihave={"news": ["m1"]}), *[BEAT] * 20,
         _rpc("B", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"B": {"iwant": ["m1"]}}},
    ),
    Fault(
        "a peer that only floods is taken into the mesh",
        [*_members("A", version="floodsub")],
        {"mesh": {"news": ["A"]}},
        {"mesh": {}},
    ),
    Fault(
        "and is heeded when it says what it does not want",
        [*_members("A"), *_subscribers("F", version="floodsub"), _rpc("F", idontwant=["m1"]),
         _rpc("A", messages=["m1"])],
        {"rpcs": {}},
        {"rpcs": {"F": {"messages": ["m1"]}}},
    ),
    Fault(
        "no backoff begins for a peer of 1.0",
        [*_members("A", version="1.0"), {"event": "leave", "topic": "news"}],
        {"backoffs": {}, "rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {}}}}},
        {"backoffs": {"news": {"A": 10_005_000}}, "rpcs": {"A": {"unsubscribe": ["news"], "prune": {"news": {}}}}},
    ),
    Fault(
        "a PRUNE that names a backoff of 0 begins none",
        [*_members("A"), _rpc("A", prune={"news": {"backoff": 0}})],
        {"backoffs": {}},
        {"backoffs": {"news": {"A": 60_005_000}}},
    ),
    Fault(
        "a second SUBSCRIBE is answered with GRAFT",
        [JOIN, *_subscribers("A", "B"), _rpc("A", prune={"news": {"backoff": 60}}), _rpc("B", subscribe=["news"])],
        {"mesh": {"news": ["B"]}},
        {"mesh": {}},
    ),
    Fault(
        "messages of topics that are not joined are kept, and answered",
        [*_connect("A", "B"), _rpc("A", messages=["m1"]), _rpc("B", iwant=["m1"])],
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "the gossip windows of a message begin when it comes, not with the verdict",
        [*_members("A"), *_subscribers("B"), _rpc("A", messages=["m1"]), BEAT, BEAT, BEAT, _verdict("m1"), BEAT],
        {"rpcs": {}},
        {"rpcs": {"B": {"ihave": {"news": ["m1"]}}}},
        {"Validate": True},
    ),
    Fault(
        "a verdict after the last window has no effect",
        [*_members("A", "B"), _rpc("A", messages=["m1"]), *[BEAT] * 5, _verdict("m1")],
        {"rpcs": {}},
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"Validate": True},
    ),
    Fault(
        "a message that nobody gets is not seen",
        [JOIN, *_connect("A"), _publish("own"), _rpc("A", ihave={"news": ["own"]})],
        {"rpcs": {"A": {"iwant": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "an IHAVE may name more ids than may be asked for",
        [JOIN, *_connect("A"), _rpc("A", messages=["m1"]), _rpc("A", ihave={"news": ["m1", "m2", "m3"]})],
        {"rpcs": {"A": {"iwant": ["m2", "m3"]}}},
        {"rpcs": {"A": {"iwant": ["m2"]}}},
        {"MaxIHaveLength": 2},
    ),
    Fault(
        "an IWANT for what the peer does not want counts as answered",
        [*_members("A"), *_connect("B"), _rpc("A", messages=["m1"]), _rpc("B", idontwant=["m1"]),
         _rpc("B", iwant=["m1"]), *[BEAT] * 4, _rpc("B", iwant=["m1"])],
        {"rpcs": {}},
        {"rpcs": {"B": {"messages": ["m1"]}}},
        {"GossipRetransmission": 1},
    ),
    Fault(
        "an id is forgotten only when another message comes",
        [*_members("A"), _rpc("A", messages=["m1"]), *[BEAT] * 62, _rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m1"]}}},
    ),
    Fault(
        "a message that the application looks at is shown again after a minute",
        [*_members("A"), _rpc("A", messages=["m1"]), *[BEAT] * 62, _rpc("A", messages=["m1"])],
        {"validates": ["m1"]},
        {"validates": []},
        {"Validate": True},
    ),
    Fault(
        "a message in the router's own name keeps no promise",
        [JOIN, *_connect("A"), _rpc("A", ihave={"news": ["own"]}), _rpc("A", messages=["own"]), *[BEAT] * 4],
        {"scores": {"A": -10.0}},
        {"scores": {"A": 0.0}},
        {"Score": SCORE},
    ),
    Fault(
        "and others are told that one has it",
        [*_members("A", "B"), _rpc("A", messages=["own"])],
        {"rpcs": {"B": {"idontwant": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "IDONTWANT does not go to the author of a message",
        [*_members("A", "B"), _rpc("B", messages=["of-a"])],
        {"rpcs": {}},
        {"rpcs": {"A": {"idontwant": ["of-a"]}}},
    ),
    Fault(
        "IDONTWANT goes to peers that were asked for the message",
        [JOIN, *_connect("A", "B"), _rpc("A", ihave={"news": ["m1"]}), _rpc("B", messages=["m1"])],
        {"rpcs": {"A": {"idontwant": ["m1"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "one's own message goes to those who do not want it",
        [*_members("A"), _rpc("A", idontwant=["own"]), _publish("own")],
        {"rpcs": {"A": {"messages": ["own"]}}},
        {"rpcs": {}},
    ),
    Fault(
        "one's own message goes past members with a score below the threshold",
        [*_members("A", "B"), _rate("A", -30), _publish("own")],
        {"rpcs": {"B": {"messages": ["own"]}}},
        {"rpcs": {"A": {"messages": ["own"]}, "B": {"messages": ["own"]}}},
        {"Score": SCORE},
    ),
    Fault(
        "a direct peer with a low score is not heard",
        [{"event": "direct", "peer": "A", "direct": True}, JOIN, *_connect("A"), _rate("A", -15),
         _rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m1"]}}},
        {"Score": SCORE},
    ),
    Fault(
        "the IHAVEs of a direct peer are counted",
        [{"event": "direct", "peer": "A", "direct": True}, JOIN, *_connect("A"), _rpc("A", ihave={"news": ["m1"]}),
         _rpc("A", ihave={"news": ["m2"]})],
        {"rpcs": {}},
        {"rpcs": {"A": {"iwant": ["m2"]}}},
        {"MaxIHaveMessages": 1},
    ),
    Fault(
        "a direct peer is dialled when it is chosen",
        [{"event": "direct", "peer": "A", "direct": True}],
        {"dials": ["A"]},
        {"dials": []},
    ),
    Fault(
        "a peer that has gone does not count at its address",
        [*_connect("A", "B", address="10.0.0.1"), {"event": "disconnect", "peer": "B"}],
        {"scores": {"A": 0.0}},
        {"scores": {"A": -5.0}},
        {"Score": SCORE},
    ),
    Fault(
        "scores that are not to be kept are kept until they decay",
        [*_members("A"), _rpc("A", prune={"news": {"backoff": 60}}), _rpc("A", graft=["news"]),
         {"event": "disconnect", "peer": "A"}, *_connect("A")],
        {"scores": {"A": -40.0}},
        {"scores": {"A": 0.0}},
        {"Score": {**SCORE, "RetainScore": 0}},
    ),
)  # fmt: skip


def main() -> None:
    with start_driver() as driver, like_rust():
        for fault in FAULTS:
            given = fault.sequence()
            theirs, ours = driver.play(given)["steps"][-1], play(given, "rust")[-1]
            print(fault.name)
            print("  Hearsay:", json.dumps({kind: ours[kind] for kind in fault.ours}))
            print("  Rust:   ", json.dumps({kind: theirs[kind] for kind in fault.expected}))


if __name__ == "__main__":
    main()
