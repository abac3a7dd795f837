"""Scores of peers that go and come back, and of peers that share addresses."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.score_edges import STICKY, script_of
from vector_scripts.score_script import MS, SECOND, ScoreScript

KEPT = {"RetainScore": SECOND, "BehaviourPenaltyWeight": -1, "BehaviourPenaltyDecay": 0.5, "AppSpecificWeight": 1}
PLACED = {"IPColocationFactorWeight": -1, "IPColocationFactorThreshold": 1}


def scripts() -> Iterator[ScoreScript]:
    yield good_scores_are_not_kept()
    yield who_is_kept()
    yield last_instant()
    yield no_decay_while_away()
    yield gone_from_an_address()
    yield moved()
    yield loopback()
    yield ipv6()


def good_scores_are_not_kept() -> ScoreScript:
    own = {"FirstMessageDeliveriesWeight": 5, "FirstMessageDeliveriesCap": 9}
    script = script_of(
        "good-scores-are-not-kept",
        "Both misbehaved; the one whose score is above 0 when it goes comes back as a stranger.",
        "AB",
        "Score Retention",
        own,
        **KEPT,
    )
    script.bring("A", 1)
    for peer in "AB":
        script.do("behaviour_penalty", peer=peer, count=2)
    for peer in "AB":
        script.do("disconnect", peer=peer)
    script.connect(*"AB")
    script.do("disconnect", peer="A")
    return script


def who_is_kept() -> ScoreScript:
    script = script_of(
        "gone-from-the-mesh",
        "Who goes with a score of 0 or less leaves the mesh as with a PRUNE, and its first deliveries are forgotten.",
        "A",
        "Score Retention",
        {**STICKY, "FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 9},
        **KEPT,
    )
    script.graft("A")
    script.bring("A", 1)
    script.at = MS
    script.refresh()
    for _ in range(2):
        script.do("disconnect", peer="A")
    script.connect("A")
    script.at = 2 * MS
    script.refresh()
    return script


def last_instant() -> ScoreScript:
    script = script_of(
        "end-of-retention", "Scores are kept up to the end of their time.", "AB", "Score Retention", **KEPT
    )
    for peer in "AB":
        script.do("behaviour_penalty", peer=peer, count=1)
        script.do("disconnect", peer=peer)
    script.at = SECOND
    script.refresh()
    script.connect("B")
    script.at = SECOND + 1
    script.refresh()
    script.connect("A")
    return script


def no_decay_while_away() -> ScoreScript:
    script = script_of(
        "no-decay-while-away", "Scores of peers that have gone do not decay.", "A", "Score Retention", **KEPT
    )
    script.do("behaviour_penalty", peer="A", count=4)
    script.do("disconnect", peer="A")
    script.at = MS
    script.refresh(2)
    script.connect("A")
    script.refresh()
    return script


def placed(name: str, description: str, peers: str, **own: int) -> ScoreScript:
    return ScoreScript(name, description, peers, specification="v1.1, P₆", **PLACED, **own)


def gone_from_an_address() -> ScoreScript:
    script = placed("gone-from-an-address", "Whose score is kept counts at its address.", "ABC", RetainScore=SECOND)
    script.connect(*"ABC", addresses=["1.2.3.4"])
    script.do("disconnect", peer="C")
    script.at = SECOND + 1
    script.refresh()
    return script


def moved() -> ScoreScript:
    script = placed("moved", "Peers move, and the others feel it.", "ABC")
    script.connect(*"ABC", addresses=["1.2.3.4"])
    script.do("addresses", peer="B", addresses=["1.2.3.5"])
    script.do("addresses", peer="C", addresses=["1.2.3.4", "1.2.3.5"])
    script.do("addresses", peer="C", addresses=[])
    return script


def loopback() -> ScoreScript:
    script = placed("loopback", "Peers of the same machine do not count.", "AB")
    script.connect(*"AB", addresses=["127.0.0.1", "::1"])
    return script


def ipv6() -> ScoreScript:
    script = placed("ipv6", "An IPv6 address counts as itself and as its /64.", "ABCD")
    places = {"A": "2001:db8::1", "B": "2001:db8::1", "C": "2001:db8::2", "D": "2001:db8:0:1::1"}
    for peer, address in places.items():
        script.connect(peer, addresses=[address])
    return script
