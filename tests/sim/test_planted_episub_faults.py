"""The checker finds planted faults of episub: each test plants one fault and names the problem to report."""

from __future__ import annotations

import re

import pytest

from hearsay.core.episub.caches import MissingList, PayloadCache
from hearsay.core.episub.membership import ManagedOverlay
from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.tree import Tree
from hearsay.core.episub.upkeep import PassiveProbes
from hearsay.core.episub.views import SequenceNumbers as Sequence
from hearsay.core.episub.views import Views
from hearsay.sim.checks import checker
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import InvariantViolation, Simulation


def problems(**keys: object) -> tuple[str, ...]:
    settings = {
        "network.nodes": 30,
        "workload.messages": 6,
        "workload.publishers": "subscribers",
        "workload.publisher_count": 1,
        "warmup_s": 15,
        "linger_s": 6,
        **{key.replace("__", "."): value for key, value in keys.items()},
    }
    overrides = [(key, str(value)) for key, value in settings.items()]
    try:
        return Simulation(load_scenario(None, "r1", overrides, router="episub"), check=True).run().problems
    except InvariantViolation as violation:
        return tuple(str(violation).splitlines())


FIXED = {"router__overlay": "connections", "network__degree": 3, "warmup_s": 2}


def assert_reported(expected: str, found: tuple[str, ...]) -> None:
    assert any(re.search(expected, problem) for problem in found), found


def test_a_sound_router_is_not_accused():
    assert problems() == ()
    assert problems(**FIXED) == ()


def test_accepts_a_neighbour_without_an_answer(monkeypatch):
    sound = Neighbours.accept

    def silent(self, peer, random):
        if peer in self._views.active or not self._make_room():
            return sound(self, peer, random)
        self._add(peer, random)
        return True

    monkeypatch.setattr(Neighbours, "accept", silent)
    assert_reported("is not mutual", problems(workload__messages=0, linger_s=10))


def test_evicts_neighbours_without_a_message(monkeypatch):
    monkeypatch.setattr(Neighbours, "evict", lambda self, peer: self.drop(peer, remember=True))
    assert_reported("is not mutual", problems(router__preset="gocast", workload__messages=0, linger_s=10))


def test_keeps_any_number_of_passive_entries(monkeypatch):
    def endless(self, peer, handed_out=None):
        if peer != self._shell.node and peer not in self.active:
            self.passive[peer] = None

    monkeypatch.setattr(Views, "add_passive", endless)
    assert_reported("passive list .* above 5", problems(router__passive_size=5))


def test_keeps_a_neighbour_on_the_passive_list(monkeypatch):
    sound = Views.add_active

    def keeping_it_passive(self, peer, random):
        sound(self, peer, random)
        self.passive[peer] = None

    monkeypatch.setattr(Views, "add_active", keeping_it_passive)
    assert_reported("share a peer", problems())


def test_puts_itself_on_the_passive_list(monkeypatch):
    sound = Views.add_passive

    def adding_itself(self, peer, handed_out=None):
        sound(self, peer, handed_out)
        self.passive[self._shell.node] = None

    monkeypatch.setattr(Views, "add_passive", adding_itself)
    assert_reported("holds the node itself", problems())


def test_puts_itself_on_the_active_list(monkeypatch):
    sound = Views.add_active

    def adding_itself(self, peer, random):
        sound(self, peer, random)
        self.active[self._shell.node] = self.active[peer]

    monkeypatch.setattr(Views, "add_active", adding_itself)
    assert_reported("holds the node itself", problems(workload__messages=0))


def test_keeps_disconnected_neighbours(monkeypatch):
    monkeypatch.setattr(Neighbours, "lost", lambda self, peer: False)
    crash = {"faults__crash__0__at_s": 16, "faults__crash__0__share": 0.3}
    assert_reported("a peer that is not connected", problems(**crash))


def test_accepts_any_number_of_neighbours(monkeypatch):
    monkeypatch.setattr(Neighbours, "_make_room", lambda self: True)
    monkeypatch.setattr(Neighbours, "_decide", lambda self, sender, part: self._grant(sender, part.random))
    keys = {"router__active_limit": 3, "router__random_links": 2, "router__near_links": 1}
    assert_reported("active list .* above 3", problems(**keys))


def test_never_prunes_the_tree(monkeypatch):
    monkeypatch.setattr(Tree, "duplicate", lambda self, sender: None)
    assert_reported("are no tree", problems(**FIXED))


def test_prunes_links_of_the_tree(monkeypatch):
    sound = Tree.duplicate

    def eager_to_prune(self, sender):
        for peer in self.eager.ordered[1:]:
            sound(self, peer)
        sound(self, sender)

    monkeypatch.setattr(Tree, "duplicate", eager_to_prune)
    monkeypatch.setattr(checker, "MAX_REPORTED", 10_000)  # so that the many missing messages do not hide this problem
    monkeypatch.setattr(MissingList, "touch", lambda self, attempts, judged, seen: ({}, {}))
    assert_reported(r"are no tree: \d+ edges, ([2-9]|\d\d) parts", problems(**FIXED))


def test_ignores_a_prune(monkeypatch):
    monkeypatch.setattr(Tree, "on_prune", lambda self, sender: None)
    assert_reported("are no tree", problems(**FIXED))


def test_never_requests_missing_messages(monkeypatch):
    monkeypatch.setattr(MissingList, "touch", lambda self, attempts, judged, seen: ({}, {}))
    monkeypatch.setattr(Tree, "_make_eager", Tree._make_lazy)
    assert_reported("is missing, though", problems(**FIXED))


def test_loses_cached_messages(monkeypatch):
    monkeypatch.setattr(PayloadCache, "get", lambda self, message_id, now: None)
    monkeypatch.setattr(Tree, "_make_eager", Tree._make_lazy)
    assert_reported("is missing, though", problems(**FIXED))


def test_counts_hops_wrongly(monkeypatch):
    sound = Tree._spread
    monkeypatch.setattr(Tree, "_spread", lambda self, message, hops, sender: sound(self, message, hops + 1, sender))
    assert_reported("sent with 2 hops, it came with 0", problems(**FIXED))


def test_forgets_a_link_of_the_tree(monkeypatch):
    sound = Tree._make_lazy

    def lost(self, peer):
        sound(self, peer)
        self.lazy.discard(peer)

    monkeypatch.setattr(Tree, "_make_lazy", lost)
    assert_reported("do not divide the active list", problems(**FIXED))


def test_keeps_any_number_of_announcements(monkeypatch):
    sound = Tree._spread

    def keeping_announced(self, message, hops, sender):
        waiting = dict(self.queue)
        sound(self, message, hops, sender)
        self.queue.update(waiting)

    monkeypatch.setattr(Tree, "_spread", keeping_announced)
    keys = {"workload__interval_s": 0.01, "router__max_ids_per_part": 2}
    assert_reported("announcements .* above 2", problems(**keys, **FIXED))


def test_keeps_any_number_of_missing_messages(monkeypatch):
    sound = MissingList.announce

    def boundless(self, message_id, peer, hops):
        self._limit = 1000
        sound(self, message_id, peer, hops)

    monkeypatch.setattr(MissingList, "announce", boundless)
    monkeypatch.setattr(Tree, "_make_eager", Tree._make_lazy)
    assert_reported(
        "missing messages .* above 2", problems(workload__interval_s=0.01, router__max_missing=2, **FIXED)
    )


def test_caches_any_number_of_messages(monkeypatch):
    sound = PayloadCache.put

    def boundless(self, message, hops, parent, now):
        self._limit = 1000
        sound(self, message, hops, parent, now)

    monkeypatch.setattr(PayloadCache, "put", boundless)
    assert_reported("kept messages .* above 2", problems(router__max_cached_messages=2, **FIXED))


def test_announces_messages_that_it_does_not_have(monkeypatch):
    sound = Tree.on_ihave

    def announcing_again(self, sender, part):
        sound(self, sender, part)
        for message_id, hops in zip(part.ids, part.hops, strict=True):
            self.queue.setdefault(message_id, hops)
        self._arm_flush()

    monkeypatch.setattr(Tree, "on_ihave", announcing_again)
    monkeypatch.setattr(Tree, "_make_eager", Tree._make_lazy)
    assert_reported("IHAVE of message .* never accepted", problems(**FIXED))


def test_remembers_peers_that_left(monkeypatch):
    monkeypatch.setattr(Tree, "neighbor_down", lambda self, peer, in_good_order: None)
    churn = {"faults__churn__away_share": 0.3, "faults__churn__mean_session_s": 4}
    assert_reported("left after its disconnect|do not divide the active list", problems(**churn))


def test_requests_messages_in_validation(monkeypatch):
    sound = MissingList.touch
    monkeypatch.setattr(MissingList, "touch", lambda self, attempts, judged, seen: sound(self, attempts, (), ()))
    assert_reported("GRAFT asks for message .*, which has arrived", problems(validation__delay_ms=1500))


def test_removes_peers_that_it_had_no_room_to_dial(monkeypatch):
    def round(self, count):
        for peer in sorted(self._views.passive)[:count]:
            if not self._connections.meet(peer, self._views.topic, lambda: None, lambda: None):
                self._views.remove_passive(peer)

    monkeypatch.setattr(PassiveProbes, "round", round)
    assert_reported("left the passive list untried", problems(router__max_dials=1))


LEAVING_TWICE = {
    f"timed__{number}__{key}": value
    for number, (at_s, action) in enumerate([(16, "leave"), (17, "join"), (20, "leave")])
    for key, value in {"at_s": at_s, "node": 3, "action": action}.items()
}
UNNOTICED_CRASH = {"faults__crash__0__at_s": 16, "faults__crash__0__share": 0.3, "faults__detection_s": 60}


def test_repeats_the_number_of_a_leave(monkeypatch):
    monkeypatch.setattr(Sequence, "next", lambda self, now: 1)
    assert_reported("LEAVE has number 1, an earlier one had 1", problems(**LEAVING_TWICE))


def test_keeps_a_silent_neighbour(monkeypatch):
    monkeypatch.setattr(ManagedOverlay, "silent", lambda self, peer: None)
    assert_reported("left a ping unanswered, and stays", problems(**UNNOTICED_CRASH))


@pytest.mark.thorough
def test_a_sound_router_is_not_accused_under_the_keys_of_these_tests():
    for keys in ({"validation__delay_ms": 1500}, {"router__max_dials": 1}, LEAVING_TWICE, UNNOTICED_CRASH):
        assert problems(**keys) == ()
