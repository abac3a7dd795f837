"""Vectors of scores of peers that disconnect and reconnect, and of peers that share addresses."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.score_edges import STICKY, connected_script
from vector_scripts.score_script import MS, SECOND, ScoreScript

KEPT = {"RetainScore": SECOND, "BehaviourPenaltyWeight": -1, "BehaviourPenaltyDecay": 0.5, "AppSpecificWeight": 1}
PLACED = {"IPColocationFactorWeight": -1, "IPColocationFactorThreshold": 1}


def scripts() -> Iterator[ScoreScript]:
    yield good_scores_are_not_kept()
    yield gone_from_the_mesh()
    yield end_of_retention()
    yield no_decay_while_away()
    yield gone_from_an_address()
    yield moved()
    yield loopback()
    yield ipv6()


def good_scores_are_not_kept() -> ScoreScript:
    own = {"FirstMessageDeliveriesWeight": 5, "FirstMessageDeliveriesCap": 9}
    script = connected_script(
        "good-scores-are-not-kept",
        "Two peers misbehave and disconnect; the record of the one with a score above 0 is removed.",
        "AB",
        "Score Retention",
        own,
        **KEPT,
    )
    script.deliver_first("A", 1)
    for peer in "AB":
        script.add_step("behaviour_penalty", peer=peer, count=2)
    for peer in "AB":
        script.add_step("disconnect", peer=peer)
    script.connect(*"AB")
    script.add_step("disconnect", peer="A")
    return script


def gone_from_the_mesh() -> ScoreScript:
    script = connected_script(
        "gone-from-the-mesh",
        "A peer that disconnects with a score of 0 or less leaves the mesh as by PRUNE and loses first deliveries.",
        "A",
        "Score Retention",
        {**STICKY, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 9},
        **KEPT,
    )
    script.graft("A")
    script.deliver_first("A", 1)
    script.at = MS
    script.refresh()
    for _ in range(2):
        script.add_step("disconnect", peer="A")
    script.connect("A")
    script.at = 2 * MS
    script.refresh()
    return script


def end_of_retention() -> ScoreScript:
    script = connected_script(
        "end-of-retention", "Scores are kept for RetainScore, including its end.", "AB", "Score Retention", **KEPT
    )
    for peer in "AB":
        script.add_step("behaviour_penalty", peer=peer, count=1)
        script.add_step("disconnect", peer=peer)
    script.at = SECOND
    script.refresh()
    script.connect("B")
    script.at = SECOND + 1
    script.refresh()
    script.connect("A")
    return script


def no_decay_while_away() -> ScoreScript:
    script = connected_script(
        "no-decay-while-away", "Scores of peers that have gone do not decay.", "A", "Score Retention", **KEPT
    )
    script.add_step("behaviour_penalty", peer="A", count=4)
    script.add_step("disconnect", peer="A")
    script.at = MS
    script.refresh(2)
    script.connect("A")
    script.refresh()
    return script


def address_script(name: str, description: str, peers: str, **own: int) -> ScoreScript:
    return ScoreScript(name, description, peers, specification="v1.1, P₆", **PLACED, **own)


def gone_from_an_address() -> ScoreScript:
    script = address_script(
        "gone-from-an-address",
        "A peer that has gone counts at its address for RetainScore.",
        "ABC",
        RetainScore=SECOND,
    )
    script.connect(*"ABC", addresses=["1.2.3.4"])
    script.add_step("disconnect", peer="C")
    script.at = SECOND + 1
    script.refresh()
    return script


def moved() -> ScoreScript:
    script = address_script("moved", "A change of addresses changes the scores of all peers that share them.", "ABC")
    script.connect(*"ABC", addresses=["1.2.3.4"])
    script.add_step("addresses", peer="B", addresses=["1.2.3.5"])
    script.add_step("addresses", peer="C", addresses=["1.2.3.4", "1.2.3.5"])
    script.add_step("addresses", peer="C", addresses=[])
    return script


def loopback() -> ScoreScript:
    script = address_script("loopback", "Loopback addresses do not count.", "AB")
    script.connect(*"AB", addresses=["127.0.0.1", "::1"])
    return script


def ipv6() -> ScoreScript:
    script = address_script("ipv6", "An IPv6 address counts as itself and as its /64.", "ABCD")
    places = {"A": "2001:db8::1", "B": "2001:db8::1", "C": "2001:db8::2", "D": "2001:db8:0:1::1"}
    for peer, address in places.items():
        script.connect(peer, addresses=[address])
    return script
