"""Promises of IWANT: the expectations of go's tests (gossip_tracer_test.go), tracked ids, and bounds."""

from __future__ import annotations

import pytest
from scoring import MS, SECOND

from hearsay.core.language.actions import Reason
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.promises import IwantPromises

CHANCE = Randomness(1)
IDS = [f"message-{number}" for number in range(100)]


def promises(tracked: TrackedPromises = TrackedPromises.ONE, followup_us: int = 3 * SECOND) -> IwantPromises:
    return IwantPromises(tracked, followup_us)


def ask(made: IwantPromises, peer: str, ids: list[str], now: int = 0) -> None:
    made.ask(peer, ids, now, lambda: CHANCE.draw(Purpose.GOSSIP_IDS, ord(peer), now))


def test_broken_promises():
    """The promises of one of three peers are dropped. Rules: PROMISE-1, PROMISE-3, PROMISE-4."""
    made = promises(followup_us=100 * MS)
    for peer in "ABC":
        ask(made, peer, IDS)
    made.void("B")
    assert made.take_broken(100 * MS) == ()
    assert made.take_broken(100 * MS + 1) == (("A", 1), ("C", 1))
    assert len(made.ends) == 0
    assert made.take_broken(SECOND) == ()


def test_kept_promises():
    """Rules: PROMISE-2."""
    made = promises(followup_us=100 * MS)
    for peer in "AB":
        ask(made, peer, IDS)
    for message in IDS:
        made.keep(message)
    assert len(made.ends) == 0
    assert made.take_broken(SECOND) == ()


@pytest.mark.parametrize(("reason", "broken"), [(Reason.BAD_SIGNATURE, 1), (Reason.REJECTED, 0), (Reason.IGNORED, 0)])
def test_a_message_that_is_not_used_keeps_promises_unless_its_signature_is_bad(reason, broken):
    """Rules: PROMISE-2."""
    made = promises()
    ask(made, "A", ["one"])
    made.reject("one", reason)
    assert len(made.take_broken(4 * SECOND)) == broken


@pytest.mark.parametrize(
    ("tracked", "count"), [(TrackedPromises.ONE, 1), (TrackedPromises.ALL, 100), (TrackedPromises.NONE, 0)]
)
def test_which_ids_are_promises(tracked, count):
    """Rules: PROMISE-1."""
    made = promises(tracked)
    ask(made, "A", IDS)
    ask(made, "B", [])
    assert len(made.ends) == count
    assert len({message for _, message in made.ends}) == count
    assert made.take_broken(4 * SECOND) == ((("A", count),) if count else ())


def test_the_tracked_id_is_drawn():
    """Rules: PROMISE-1."""
    chosen = set()
    for number in range(200):
        made = promises()
        made.ask("A", IDS, 0, lambda number=number: CHANCE.draw(Purpose.GOSSIP_IDS, number))
        chosen |= {message for _, message in made.ends}
    assert len(chosen) > 70


def test_asking_again_gives_no_more_time():
    """Rules: PROMISE-3."""
    made = promises()
    ask(made, "A", ["one"])
    ask(made, "A", ["one"], 2 * SECOND)
    assert made.take_broken(3 * SECOND + 1) == (("A", 1),)


def test_tracked_promises_are_bounded(monkeypatch):
    """Rules: PROMISE-5."""
    monkeypatch.setattr("hearsay.core.scores.promises.MAX_PROMISES_OF_PEER", 5)
    monkeypatch.setattr("hearsay.core.scores.promises.MAX_PROMISES", 12)
    made = promises(TrackedPromises.ALL)
    for peer in "ABC":
        ask(made, peer, IDS)
    assert len(made.ends) == 12
    assert made.take_broken(4 * SECOND) == (("A", 5), ("B", 5), ("C", 2))
    ask(made, "C", IDS, 5 * SECOND)
    assert len(made.ends) == 5
