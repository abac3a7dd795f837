"""The gater: the expectations of go's test (peer_gater_test.go), the chance of a peer, and bounds.

go also tests streams that end in one direction only. Here a peer is connected or not.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from scoring import SECOND

from hearsay.core.language.actions import Reason
from hearsay.core.registry import ROUTERS
from hearsay.core.rules.gater import is_let_in
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.core.scores.gater import Gater, GaterParameters

GO = GaterParameters.from_mapping(ROUTERS["gossipsub"].presets["filecoin"]["gater"])
"""go's defaults, with which Filecoin runs."""

CHANCE = Randomness(1)
ADDRESS = "1.2.3.4"
PARAMETERS = replace(GO, threshold=0.1, global_decay=0.9, source_decay=0.999)


def let_in(gater: Gater, peer: str = "A", now: int = 0, draws: int = 1000) -> int:
    """Return how many of a number of draws let the peer in."""
    return sum(gater.lets_in(peer, now, lambda n=n: CHANCE.draw(Purpose.REJECT, n)) for n in range(draws))


def active_gater(bad: int = 100) -> Gater:
    """Return the gater of a node that has throttled messages. A sent `bad` ignored and `bad` invalid messages."""
    gater = Gater(PARAMETERS)
    gater.connect("A", ADDRESS)
    gater.validate()
    for reason in (Reason.QUEUE_FULL, Reason.THROTTLED):
        gater.reject("A", reason, 0)
    for reason in (Reason.IGNORED, Reason.REJECTED):
        for _ in range(bad):
            gater.reject("A", reason, 0)
    return gater


def test_the_gater_becomes_active_recovers_and_forgets():
    """Rules: GATER-1, GATER-2, GATER-3."""
    gater = Gater(PARAMETERS)
    gater.connect("A", ADDRESS)
    assert let_in(gater) == 1000
    gater.validate()
    assert let_in(gater) == 1000
    for reason in (Reason.QUEUE_FULL, Reason.THROTTLED):
        gater.reject("A", reason, 0)
        assert let_in(gater) == 1000
    for _ in range(100):
        gater.reject("A", Reason.IGNORED, 0)
        gater.reject("A", Reason.REJECTED, 0)
    assert let_in(gater) < 1000
    for _ in range(100):
        gater.deliver("A", "topic")
    assert let_in(gater) >= 1
    for _ in range(100):
        gater.refresh(0)
    assert let_in(gater) == 1000
    gater.disconnect("A", 0)
    gater.refresh(0)
    assert (ADDRESS, None) in gater._sources
    gater.refresh(6 * 3600 * SECOND + 1)
    assert (ADDRESS, None) not in gater._sources


def test_all_messages_are_let_in_after_a_quiet_time():
    """Rules: GATER-1."""
    gater = active_gater()
    assert let_in(gater, now=60 * SECOND) < 10
    assert let_in(gater, now=60 * SECOND + 1) == 1000


def test_all_messages_are_let_in_below_the_threshold():
    """2 throttled of 21 messages are below a tenth, 2 of 20 are not. Rules: GATER-1."""
    gater = active_gater()
    for _ in range(19):
        gater.validate()
    assert let_in(gater) < 10
    gater.validate()
    assert let_in(gater) == 1000


def test_peers_of_an_address_share_its_chance():
    """Rules: GATER-3."""
    gater = active_gater()
    gater.connect("B", ADDRESS)
    gater.connect("C", "1.2.3.5")
    gater.connect("D")
    gater.connect("E")
    gater.reject("D", Reason.REJECTED, 0)
    assert let_in(gater, "B") < 10
    assert [let_in(gater, "C"), let_in(gater, "E"), let_in(gater, "stranger")] == [1000, 1000, 1000]
    assert let_in(gater, "D") < 1000


def test_an_address_is_remembered_while_its_peers_are_away():
    """Rules: GATER-3."""
    gater = active_gater()
    gater.disconnect("A", 0)
    gater.disconnect("A", 0)
    gater.connect("A", ADDRESS)
    assert let_in(gater) < 10


def test_weights_of_topics_and_of_duplicates():
    """(1 + 10) / (1 + 10 + 100 / 8), out of 1000. Rules: GATER-2."""
    gater = Gater(PARAMETERS)
    gater.weigh("blocks", 10)
    gater.connect("A", ADDRESS)
    gater.reject("A", Reason.QUEUE_FULL, 0)
    gater.deliver("A", "blocks")
    gater.deliver(None, "blocks")
    for _ in range(100):
        gater.duplicate("A")
    assert 420 < let_in(gater) < 510


def test_reasons_without_blame_do_not_count():
    """Rules: GATER-2."""
    gater = active_gater(bad=0)
    for reason in (Reason.NOT_SUBSCRIBED, Reason.OVER_LIMIT, Reason.LOST):
        gater.reject("A", reason, 0)
    assert let_in(gater) == 1000


def test_the_chance_of_a_peer_without_deliveries():
    """1 in 1701. Rules: GATER-2, GATER-4."""
    limit = 2**53 // 1701
    found = [is_let_in(share << 11, 0.0, 1700.0) for share in (0, limit, limit + 1, 2**53 - 1)]
    assert found == [True, True, False, False]


@given(
    draw=st.integers(0, 2**64 - 1),
    delivered=st.integers(0, 10**6).map(float),
    bad=st.integers(0, 10**6).map(lambda count: count / 8),
)
def test_a_draw_is_compared_as_an_exact_fraction(draw, delivered, bad):
    """Within one rounding of the exact comparison. Rules: GATER-4."""
    exact = (draw >> 11) * (1 + delivered + bad) - (1 + delivered) * 2**53
    if abs(exact) > 2**53:
        assert is_let_in(draw, delivered, delivered + bad) == (exact < 0)


def test_addresses_without_peers_are_bounded():
    """Rules: GATER-3."""
    gater = Gater(replace(PARAMETERS, max_retained_addresses=3))
    for number in range(10):
        gater.connect(f"peer-{number}", f"1.2.3.{number}")
    for number in range(10):
        gater.disconnect(f"peer-{number}", 0)
    assert list(gater._sources) == [(f"1.2.3.{number}", None) for number in (7, 8, 9)]
