"""Demerits fade, an address answers only for its own peers, and honest peers are never banned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hearsay.node.conduct import Conduct, ConductLimits, Demerits, EarlyGrafts, Offence

LIMITS = ConductLimits()
OFFENCES = st.sampled_from(Offence)
PEERS = [bytes([0, 1, number]) for number in range(40)]


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


class TimedConduct:
    """A `Conduct` with a clock of the test, and the peers and addresses that it has banned, in order."""

    def __init__(self, **limits):
        self.clock = Clock()
        self.news = []
        self.conduct = Conduct(self.clock, self.news.append, ConductLimits(**limits))

    @property
    def out(self):
        return [news.peer or news.address for news in self.news]


def faded(events, now_s, half_life_s):
    return sum(worth * 0.5 ** ((now_s - at_s) / half_life_s) for at_s, worth in events)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=30))
def test_demerits_are_the_sum_of_what_is_left_of_each(steps):
    demerits = Demerits(1e9, 600, 60, 10)
    now_s, events = 0.0, []
    for wait_s, worth in steps:
        now_s += wait_s
        demerits.add("it", worth, "something", 1, now_s)
        events.append((now_s, worth))
    assert abs(demerits.current("it", now_s + 30) - faded(events, now_s + 30, 60)) < 1e-6


@given(OFFENCES, st.floats(0, 600), st.integers(1, 300))
def test_who_offends_rarely_is_never_slowed_however_long(offence, more_s, times):
    """Once in a half-life at most, whatever the offence."""
    timed = TimedConduct()
    for _ in range(times):
        timed.conduct.note(PEERS[0], "192.0.2.1", offence)
        assert not timed.conduct.slowed(PEERS[0], "192.0.2.1")
        timed.clock.now_s += LIMITS.half_life_s + more_s
    assert timed.out == []


@given(OFFENCES, st.floats(0.001, 1.0))
def test_who_offends_again_and_again_is_slowed_and_then_put_out(offence, every_s):
    timed = TimedConduct()
    slowed = 0
    for _ in range(500):
        timed.conduct.note(PEERS[0], "192.0.2.1", offence)
        if timed.out:
            break
        slowed += timed.conduct.slowed(PEERS[0], "192.0.2.1")
        timed.clock.now_s += every_s
    assert timed.out == [PEERS[0]]
    assert slowed > 0


@given(OFFENCES, st.floats(0, 599))
def test_who_was_put_out_stays_out_for_ten_minutes_and_then_starts_again(offence, waited_s):
    timed = TimedConduct()
    timed.conduct.note(PEERS[0], "192.0.2.1", offence, 100)
    put_out = timed.clock.now_s
    timed.clock.now_s += waited_s
    assert timed.conduct.ban_of(PEERS[0], "192.0.2.9").for_s > 0, "whatever address it comes from"
    timed.conduct.note(PEERS[0], "192.0.2.1", offence, 100)
    assert len(timed.news) == 1, "what is still on its way is not held against it"
    timed.clock.now_s = put_out + 600.1
    assert timed.conduct.ban_of(PEERS[0], "192.0.2.1") is None
    timed.conduct.note(PEERS[0], "192.0.2.1", Offence.OVER_LIMIT)
    assert not timed.conduct.slowed(PEERS[0], "192.0.2.1")


def test_one_peer_does_not_put_out_its_address_however_much_it_does_at_once():
    timed = TimedConduct()
    timed.conduct.note(PEERS[0], "192.0.2.1", Offence.FORGED, 1_000_000)
    assert timed.out == [PEERS[0]]
    assert timed.conduct.ban_of(PEERS[1], "192.0.2.1") is None
    assert not timed.conduct.slowed(PEERS[1], "192.0.2.1")


def test_an_address_whose_peers_are_put_out_one_after_the_other_is_kept_out():
    timed = TimedConduct()
    for peer in PEERS[:8]:
        timed.conduct.note(peer, "192.0.2.1", Offence.FORGED, 100)
    assert timed.out == [*PEERS[:8], "192.0.2.1"]
    assert timed.conduct.ban_of(None, "192.0.2.1").peer is None
    assert timed.conduct.ban_of(PEERS[20], "192.0.2.1") is not None, "any peer of this address"


def test_an_address_of_many_offenders_is_slowed():
    timed = TimedConduct()
    for peer in PEERS[:7]:
        assert not timed.conduct.slowed(PEERS[20], "192.0.2.1")
        timed.conduct.note(peer, "192.0.2.1", Offence.FORGED, 6)
    assert timed.conduct.slowed(PEERS[20], "192.0.2.1")
    assert not timed.conduct.slowed(PEERS[20], "192.0.2.2")
    assert timed.out == []


@given(st.lists(st.tuples(st.sampled_from(PEERS[:20]), OFFENCES, st.integers(1, 100)), max_size=80))
def test_what_happens_at_an_address_does_not_touch_another(done):
    timed = TimedConduct()
    for peer, offence, count in done:
        timed.conduct.note(peer, "192.0.2.1", offence, count)
        for other in PEERS[20:]:
            assert timed.conduct.ban_of(other, "192.0.2.2") is None
            assert not timed.conduct.slowed(other, "192.0.2.2")
    assert timed.conduct.ban_of(None, "192.0.2.2") is None


@given(st.lists(st.tuples(st.sampled_from(PEERS), OFFENCES), max_size=200))
def test_an_address_that_is_not_known_answers_for_no_peer(done):
    timed = TimedConduct()
    for peer, offence in done:
        timed.conduct.note(peer, "", offence, 100)
    assert timed.conduct.ban_of(None, "") is None
    assert "" not in timed.out


def test_the_news_says_who_for_how_long_and_why():
    timed = TimedConduct()
    timed.conduct.note(PEERS[0], "192.0.2.1", Offence.OVER_LIMIT)
    timed.conduct.note(PEERS[0], "192.0.2.1", Offence.FORGED, 12)
    (news,) = timed.news
    assert str(news).endswith(" is banned for 10 min: 12 forged messages, 1 RPC over a limit")
    timed.clock.now_s += 550
    assert timed.conduct.ban_of(PEERS[0], "").how_long == "50 s"


class BoundedAccounts(RuleBasedStateMachine):
    """At most eight names are remembered, and banned ones before others."""

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.demerits = Demerits(100.0, 50.0, 10.0, 8)
        self.out = {}

    @rule(name=st.integers(0, 60), worth=st.floats(0.1, 60))
    def offend(self, name, worth):
        if self.demerits.add(name, worth, "something", 1, self.now_s):
            self.out[name] = self.now_s + 50.0

    @rule(wait_s=st.floats(0, 20))
    def wait(self, wait_s):
        self.now_s += wait_s

    @invariant()
    def at_most_eight_names_are_remembered(self):
        assert len(self.demerits) <= 8

    @invariant()
    def banned_names_are_remembered_before_others(self):
        out = [name for name, until_s in self.out.items() if until_s > self.now_s]
        if len(out) <= 6:
            assert all(self.demerits.ban_left_s(name, self.now_s) > 0 for name in out)


TestBoundedAccounts = BoundedAccounts.TestCase


def test_a_graft_that_crossed_a_prune_is_forgiven_and_one_that_comes_again_and_again_is_not():
    clock = Clock()
    early = EarlyGrafts(clock, 10.0)
    for wait_s, forgiven in ((0, True), (9, True), (1, False), (60, False)):
        clock.now_s += wait_s
        assert early.forgives(PEERS[0], "news") == forgiven
        assert early.forgives(PEERS[0], f"another topic {wait_s}")
    early.grafted(PEERS[0], "news")
    assert early.forgives(PEERS[0], "news"), "after the end of a backoff there may be another"


def test_a_peer_that_was_started_again_cannot_know_of_backoffs():
    clock = Clock()
    early = EarlyGrafts(clock, 10.0)
    early.forgives(PEERS[0], "news")
    clock.now_s += 60
    early.forget(PEERS[0])
    assert early.forgives(PEERS[0], "news")


def test_early_grafts_of_a_peer_are_bounded():
    early = EarlyGrafts(Clock(), 10.0)
    for number in range(5000):
        early.forgives(PEERS[0], f"topic {number}")
    assert len(early._first_s[PEERS[0]]) == 1024
