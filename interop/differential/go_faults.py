"""What go's router does otherwise, each in the few steps that show it, with what came of the last one.

`python interop/differential/go_faults.py` plays them on both sides and prints what each does.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from go_sequences import SECOND
from hearsay_side import play
from run_go import like_go, start_driver

Step = dict[str, Any]
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
BEAT: Step = {"event": "heartbeat"}


class Fault(NamedTuple):
    name: str
    steps: list[Step]
    expected: dict[str, Any]
    """What go does in the last step, by kind,"""
    ours: dict[str, Any]
    """and what Hearsay does."""
    parameters: dict[str, Any] = {}  # noqa: RUF012

    def sequence(self) -> dict[str, Any]:
        """With times: a heartbeat at each half second, other steps early in their second."""
        second, steps = 0, list[Step]()
        for number, step in enumerate(self.steps):
            at = second * SECOND + (SECOND // 2 if step is BEAT else 30_000 + 1_000 * number)
            steps.append({"at": at, **step})
            second += step is BEAT
        parameters = {**PARAMETERS, **self.parameters}
        return {"name": self.name, "parameters": parameters, "messages": MESSAGES, "steps": steps}


def _connect(*peers: str, version: str = "1.2") -> list[Step]:
    protocol = "/floodsub/1.0.0" if version == "floodsub" else f"/meshsub/{version}.0"
    return [{"event": "connect", "peer": peer, "protocol": protocol} for peer in peers]


def _join(*topics: str) -> list[Step]:
    return [{"event": "join", "topic": topic} for topic in topics]


def _rpc(peer: str, **rpc: Any) -> Step:
    return {"event": "rpc", "peer": peer, "rpc": rpc}


def _members(*peers: str) -> list[Step]:
    return [*_connect(*peers), *_join("news"), *(_rpc(peer, subscribe=["news"], graft=["news"]) for peer in peers)]


def _publish(name: str) -> Step:
    return {"event": "publish", "message": name}


def _rate(peer: str, score: float) -> Step:
    return {"event": "application_score", "peer": peer, "score": score}


DIRECT: Step = {"event": "direct", "peer": "A", "direct": True}
VERDICT: Step = {"event": "verdict", "message": "m1", "verdict": "accept"}

FAULTS = (
    Fault(
        "a peer that only floods is taken into the mesh",
        [*_connect("A", version="floodsub"), *_join("news"), _rpc("A", subscribe=["news"], graft=["news"])],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "who unsubscribes without PRUNE stays in the mesh",
        [*_members("A"), _rpc("A", unsubscribe=["news"])],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "a member that did not subscribe gets nothing while nobody has",
        [*_connect("A"), *_join("news"), _rpc("A", graft=["news"]), _publish("m2")],
        {"rpcs": {}}, {"rpcs": {"A": {"messages": ["m2"]}}},
    ),
    Fault(
        "who unsubscribes stays in the fan-out until the heartbeat",
        [*_connect("A"), _rpc("A", subscribe=["news"]), _publish("m2"), _rpc("A", unsubscribe=["news"])],
        {"fanout": {"news": ["A"]}}, {"fanout": {}},
    ),
    Fault(
        "a message that is accepted after LEAVE goes to a fan-out",
        [*_members("A"), *_connect("B"), _rpc("B", messages=["m1"]), {"event": "leave", "topic": "news"}, VERDICT],
        {"rpcs": {"A": {"messages": ["m1"]}}}, {"rpcs": {}}, {"Validate": True},
    ),
    Fault(
        "a publish that finds nobody leaves no fan-out for the heartbeat",
        [*_connect("A"), _publish("m2"), _rpc("A", subscribe=["news"]), BEAT],
        {"fanout": {}}, {"fanout": {"news": ["A"]}},
    ),
    Fault(
        "a message of a topic that is not joined keeps no promise",
        [*_connect("A"), *_join("news"), _rpc("A", ihave={"news": ["m3"]}), _rpc("A", messages=["m3"]), BEAT, BEAT],
        {"scores": {"A": -1}}, {"scores": {}}, {"Score": SCORE, "IWantFollowupTime": SECOND},
    ),
    Fault(
        "a late extensions control costs a peer of an older version, too",
        [*_connect("A"), _rpc("A", subscribe=["news"]), _rpc("A", extensions=[])],
        {"scores": {"A": -100}}, {"scores": {}}, {"Score": SCORE},
    ),
    Fault(
        "the first RPC of an older version stays the first for ever",
        [*_connect("A"), _rpc("A", subscribe=["news"]), {"event": "disconnect", "peer": "A"},
         *_connect("A", version="1.3"), _rpc("A", extensions=[])],
        {"scores": {"A": -100}}, {"scores": {}}, {"Score": SCORE},
    ),
    Fault(
        "an RPC of a graylisted peer is not its first",
        [*_connect("A", version="1.3"), _rate("A", -50), _rpc("A", subscribe=["news"]), _rate("A", 0),
         _rpc("A", extensions=[])],
        {"scores": {}}, {"scores": {"A": -100}}, {"Score": SCORE},
    ),
    Fault(
        "a member that becomes direct stays in the mesh",
        [*_members("A"), DIRECT],
        {"mesh": {"news": ["A"]}}, {"mesh": {}},
    ),
    Fault(
        "the gossip of a direct peer with a low score is not heard",
        [DIRECT, *_connect("A"), *_join("news"), _rate("A", -11), _rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}}, {"rpcs": {"A": {"iwant": ["m1"]}}}, {"Score": SCORE},
    ),
    Fault(
        "a direct peer gets what it does not want",
        [DIRECT, *_connect("A", "B"), *_join("news"), _rpc("A", subscribe=["news"], idontwant=["m1"]),
         _rpc("B", messages=["m1"])],
        {"rpcs": {"A": {"messages": ["m1"]}}}, {"rpcs": {}},
    ),
    Fault(
        "the PRUNE for the GRAFT of a direct peer begins no backoff",
        [DIRECT, *_connect("A"), *_join("news"), _rpc("A", subscribe=["news"], graft=["news"])],
        {"backoffs": {}}, {"backoffs": {"news": {"A": 60_033_000}}},
    ),
    Fault(
        "direct peers are dialled in the last of so many heartbeats",
        [DIRECT, BEAT],
        {"dials": []}, {"dials": ["A"]},
    ),
    Fault(
        "each RPC with control counts as one with IHAVE",
        [*_connect("A"), *_join("news"), *[_rpc("A", iwant=["m1"])] * 2, _rpc("A", ihave={"news": ["m1"]})],
        {"rpcs": {}}, {"rpcs": {"A": {"iwant": ["m1"]}}}, {"MaxIHaveMessages": 2},
    ),
    Fault(
        "a score that is retained for no time is so until the next decay",
        [*_members("A"), _rpc("A", prune={"news": {}}), _rpc("A", graft=["news"]),
         {"event": "disconnect", "peer": "A"}, *_connect("A")],
        {"scores": {"A": -1}}, {"scores": {}}, {"Score": {**SCORE, "RetainScore": 0}, "GraftFloodThreshold": 0},
    ),
    Fault(
        "one's own message that is flooded goes to members that do not want it",
        [*_members("A"), _rpc("A", idontwant=["m2"]), _publish("m2")],
        {"rpcs": {"A": {"messages": ["m2"]}}}, {"rpcs": {}}, {"FloodPublish": True},
    ),
    Fault(
        "one's own message that is flooded does not go to members below the publish threshold",
        [*_members("A"), _rate("A", -21), _publish("m2")],
        {"rpcs": {}}, {"rpcs": {"A": {"messages": ["m2"]}}}, {"FloodPublish": True, "Score": SCORE},
    ),
)  # fmt: skip


def main() -> None:
    with start_driver() as driver, like_go():
        for fault in FAULTS:
            given = fault.sequence()
            ours, theirs = play(given, "go")[-1], driver.play(given)["steps"][-1]
            print(f"{fault.name}\n  {json.dumps(given)}")
            print(f"  go: {json.dumps({kind: theirs[kind] for kind in fault.expected})}")
            print(f"  Hearsay: {json.dumps({kind: ours[kind] for kind in fault.ours})}")


if __name__ == "__main__":
    main()
