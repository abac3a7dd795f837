"""Vectors of the mesh: GRAFT, PRUNE, backoff, peer exchange, direct peers (v1.0, v1.1)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.router_script import APPLICATION_SCORE, MISBEHAVIOUR, SECOND, TOPIC, RouterScript

from hearsay.core.language.rpc import FLOODSUB, MESHSUB

ONE = {"D": 1, "Dlo": 1, "Dhi": 1, "Dscore": 0, "Dout": 0, "Dlazy": 0}
THREE = {"D": 3, "Dlo": 2, "Dhi": 4, "Dscore": 0, "Dout": 0, "Dlazy": 0}
BACKOFF = "v1.1, Prune Backoff and Peer Exchange"


def scripts() -> Iterator[RouterScript]:
    yield joining()
    yield leaving()
    yield too_few()
    yield too_many()
    yield exactly_high()
    yield unknown_topic()
    yield prune_of_a_stranger()
    yield full_mesh()
    yield full_mesh_and_dialled()
    yield negative_scores()
    yield best_stay()
    yield dialled_stay()
    yield dialled_are_grafted()
    yield opportunistic()
    yield median_of_four()
    yield backoff_after_prune()
    yield backoff_of_others()
    yield backoff_without_time()
    yield backoff_and_reconnecting()
    yield graft_in_backoff()
    yield graft_flood()
    yield older_peers()
    yield peer_exchange()
    yield accept_exchange()
    yield direct_peers()


def joining() -> RouterScript:
    script = RouterScript("join", "v1.0, Topic membership", "JOIN grafts up to D peers at once.", **THREE)
    script.connect("ABC")
    script.connect("F", FLOODSUB)
    script.join()
    return script


def leaving() -> RouterScript:
    script = RouterScript(
        "leave", BACKOFF, "LEAVE prunes all members; until the end of UnsubscribeBackoff neither side may graft.",
        UnsubscribeBackoff=10 * SECOND, **THREE,
    )  # fmt: skip
    script.connect("AB")
    script.join()
    script.add_step("leave", topic=TOPIC)
    script.at = 9 * SECOND
    script.join()
    script.graft("A")
    return script


def too_few() -> RouterScript:
    script = RouterScript(
        "too-few", "v1.0, Mesh maintenance", "A mesh below Dlo grows to D; a mesh of Dlo stays.", **THREE
    )
    script.join()
    script.connect("ABCDE")
    script.graft("AB")
    script.heartbeat()
    script.add_step("disconnect", peer="A")
    script.heartbeat()
    return script


def too_many() -> RouterScript:
    script = RouterScript("too-many", "v1.0, Mesh maintenance", "Above Dhi a mesh is cut to D.",
                          **{**THREE, "Dhi": 3, "Dout": 0, "D": 3})  # fmt: skip
    script.join()
    script.connect("ABC")
    script.connect("DE", outbound=True)
    script.graft("ABCDE")
    script.heartbeat()
    return script


def exactly_high() -> RouterScript:
    script = RouterScript("exactly-high", "v1.0, Mesh maintenance", "A mesh of Dhi stays; go cuts it to D.", **THREE)
    script.join()
    script.connect("ABCD")
    script.graft("ABCD")
    script.heartbeat()
    return script


def unknown_topic() -> RouterScript:
    script = RouterScript("unknown-topic", BACKOFF, "A GRAFT for a topic that is not joined gets no answer.", **THREE)
    script.connect("A", topic="other")
    script.graft("A", topic="other")
    return script


def prune_of_a_stranger() -> RouterScript:
    script = RouterScript(
        "prune-of-a-stranger", BACKOFF, "A PRUNE by a peer outside the mesh also starts a backoff.", **THREE
    )
    script.join()
    script.connect("A")
    script.rpc("A", prune={TOPIC: {"backoff": 30}})
    script.heartbeat(2)
    return script


def full_mesh() -> RouterScript:
    script = RouterScript("full-mesh", BACKOFF, "A mesh with Dhi members refuses further peers.", **THREE)
    script.join()
    script.connect("ABCDE")
    script.graft("ABCDEA")
    return script


def full_mesh_and_dialled() -> RouterScript:
    script = RouterScript(
        "full-mesh-and-dialled",
        "v1.1, Outbound Mesh Quotas",
        "A full mesh accepts peers that the router dialled.",
        **THREE,
    )
    script.join()
    script.connect("ABCD")
    script.connect("E", outbound=True)
    script.graft("ABCDE")
    return script


def negative_scores() -> RouterScript:
    script = RouterScript(
        "negative-scores",
        "v1.1, Score thresholds",
        "A peer with a score below 0 is pruned, its GRAFT is refused, and it gets no GRAFT.",
        **THREE,
        Score=APPLICATION_SCORE,
    )
    script.join()
    script.connect("ABC")
    script.graft("A")
    script.rate(A=-0.5, B=-0.5)
    script.heartbeat()
    script.graft("B")
    script.rate(B=0)
    script.at = 90 * SECOND
    script.heartbeat()
    return script


def best_stay() -> RouterScript:
    script = RouterScript(
        "best-stay", "v1.1, Overlay Maintenance", "When a mesh is cut, the Dscore best peers stay.",
        **{**THREE, "D": 2, "Dhi": 2, "Dscore": 2}, Score=APPLICATION_SCORE,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.connect("CD", outbound=True)
    script.graft("ABCD")
    script.rate(A=3, D=2, B=1)
    script.heartbeat()
    return script


def dialled_stay() -> RouterScript:
    script = RouterScript(
        "dialled-stay", "v1.1, Outbound Mesh Quotas", "When a mesh is cut, Dout dialled peers stay.",
        **{**THREE, "D": 4, "Dlo": 3, "Dhi": 4, "Dscore": 3, "Dout": 2}, Score=APPLICATION_SCORE,
    )  # fmt: skip
    script.join()
    script.connect("ABCD")
    script.graft("ABCD")
    script.connect("EF", outbound=True)
    script.graft("EF")
    script.rate(A=9, B=8, C=7, D=6, E=5, F=4)
    script.heartbeat()
    return script


def dialled_are_grafted() -> RouterScript:
    script = RouterScript(
        "dialled-are-grafted", "v1.1, Outbound Mesh Quotas",
        "A mesh of Dlo with fewer than Dout dialled peers grafts such peers.",
        **{**THREE, "D": 4, "Dlo": 2, "Dout": 1},
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.connect("CD", outbound=True)
    script.heartbeat()
    return script


def opportunistic() -> RouterScript:
    score = {**APPLICATION_SCORE, "Thresholds": {**APPLICATION_SCORE["Thresholds"], "OpportunisticGraftThreshold": 5}}
    script = RouterScript(
        "opportunistic-grafting", "v1.1, Opportunistic Grafting",
        "When the median of a mesh is below the threshold, peers above the median are grafted: here D, and not E.",
        **THREE, OpportunisticGraftTicks=2, OpportunisticGraftPeers=2, Score=score,
    )  # fmt: skip
    script.join()
    script.connect("ABCDE")
    script.rate(A=0, B=2, C=4, D=3, E=2)
    script.graft("ABC")
    script.heartbeat(2)
    script.rate(B=6)
    script.heartbeat(2)
    return script


def median_of_four() -> RouterScript:
    score = {**APPLICATION_SCORE, "Thresholds": {**APPLICATION_SCORE["Thresholds"], "OpportunisticGraftThreshold": 5}}
    script = RouterScript(
        "median-of-four", "v1.1, Opportunistic Grafting", "Of four scores the third is the median.",
        **{**THREE, "Dhi": 9}, OpportunisticGraftTicks=1, OpportunisticGraftPeers=2, Score=score,
    )  # fmt: skip
    script.join()
    script.connect("ABCDE")
    script.rate(A=0, B=2, C=6, D=8, E=9)
    script.graft("ABCD")
    script.heartbeat()
    script.rate(C=4.5)
    script.heartbeat()
    return script


def backoff_after_prune() -> RouterScript:
    script = RouterScript(
        "backoff", BACKOFF, "A PRUNE that refuses a GRAFT names the backoff; until its end neither side may graft.",
        **ONE, PruneBackoff=20 * SECOND,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.add_step("disconnect", peer="A")
    script.heartbeat(2)
    script.at = 20 * SECOND
    script.graft("B")
    script.rpc("B", unsubscribe=[TOPIC])
    script.rpc("B", subscribe=[TOPIC])
    script.at = 90 * SECOND
    script.heartbeat()
    return script


def backoff_of_others() -> RouterScript:
    script = RouterScript(
        "backoff-of-others", BACKOFF, "A PRUNE names its backoff; a later PRUNE cannot shorten it.", **ONE
    )
    script.connect("A")
    script.join()
    script.rpc("A", prune={TOPIC: {"backoff": 100}})
    script.at = SECOND
    script.rpc("A", prune={TOPIC: {"backoff": 5}})
    script.at = 99 * SECOND
    script.heartbeat()
    script.at = 150 * SECOND
    script.heartbeat()
    return script


def backoff_without_time() -> RouterScript:
    script = RouterScript(
        "backoff-without-time", BACKOFF,
        "A PRUNE without a backoff, or with 0, starts the router's own PruneBackoff.",
        **THREE, PruneBackoff=30 * SECOND,
    )  # fmt: skip
    script.connect("AB")
    script.join()
    script.rpc("A", prune={TOPIC: {}})
    script.rpc("B", prune={TOPIC: {"backoff": 0}})
    return script


def backoff_and_reconnecting() -> RouterScript:
    script = RouterScript("backoff-and-reconnecting", BACKOFF, "A backoff continues after a new connection.", **ONE)
    script.connect("A")
    script.join()
    script.rpc("A", prune={TOPIC: {"backoff": 60}})
    script.add_step("disconnect", peer="A")
    script.at = SECOND
    script.connect("A")
    script.heartbeat()
    script.graft("A")
    return script


def graft_in_backoff() -> RouterScript:
    script = RouterScript(
        "graft-in-backoff", BACKOFF, "A GRAFT in backoff is refused, restarts the backoff, and is misbehaviour.",
        **THREE, Score=MISBEHAVIOUR,
    )  # fmt: skip
    script.connect("A")
    script.join()
    script.rpc("A", prune={TOPIC: {"backoff": 60}})
    script.at = 30 * SECOND
    script.graft("A")
    script.at = 60 * SECOND
    script.graft("A")
    return script


def graft_flood() -> RouterScript:
    script = RouterScript(
        "graft-flood", BACKOFF, "A GRAFT less than GraftFloodThreshold after the PRUNE is misbehaviour twice.",
        **THREE, GraftFloodThreshold=10 * SECOND, Score=MISBEHAVIOUR,
    )  # fmt: skip
    script.connect("AB")
    script.join()
    for peer in "AB":
        script.rpc(peer, prune={TOPIC: {"backoff": 60}})
    script.at = 10 * SECOND - 1
    script.graft("A")
    script.at = 10 * SECOND
    script.graft("B")
    return script


def older_peers() -> RouterScript:
    script = RouterScript(
        "older-peers",
        "v1.1, Protocol extensions",
        "A PRUNE to a peer of 1.0 has no backoff and names no peers.",
        **ONE,
        PrunePeers=4,
    )
    script.join()
    script.connect("AC")
    script.connect("B", MESHSUB)
    script.graft("ABC")
    return script


def peer_exchange() -> RouterScript:
    script = RouterScript(
        "peer-exchange", BACKOFF,
        "A peer with a score below 0 is not named in a PRUNE, and a PRUNE to it names no peers.",
        **ONE, PrunePeers=4, Score=APPLICATION_SCORE,
    )  # fmt: skip
    script.join()
    script.connect("ABCD")
    script.rate(D=-1)
    script.graft("ABD")
    return script


def accept_exchange() -> RouterScript:
    score = {**APPLICATION_SCORE, "Thresholds": {**APPLICATION_SCORE["Thresholds"], "AcceptPXThreshold": 5}}
    script = RouterScript(
        "accept-exchange", BACKOFF, "Peers that a PRUNE names are dialled if its sender reaches AcceptPXThreshold.",
        **ONE, PrunePeers=4, Score=score,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.rate(A=5, B=4.9)
    for peer in "AB":
        script.rpc(peer, prune={TOPIC: {"backoff": 60, "peers": ["B", "X", "Y", "self"]}})
    return script


def direct_peers() -> RouterScript:
    script = RouterScript(
        "direct-peers", "v1.1, Explicit Peering Agreements",
        "Direct peers get every message, are in no mesh, and are dialled if they are not connected.",
        **THREE, DirectConnectTicks=1,
    )  # fmt: skip
    for peer in "DX":
        script.add_step("direct", peer=peer, direct=True)
    script.connect("ABD")
    script.join()
    script.graft("D")
    script.publish("m1")
    script.heartbeat(3)
    script.receive("D", "m2")
    return script
