"""Random calls of promises, compared with a list of the open ones, and of the gater, whose bounds hold.

Rules: PROMISE-1, PROMISE-2, PROMISE-3, PROMISE-4, PROMISE-5, GATER-3.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hearsay.core.language.actions import Reason
from hearsay.core.registry import ROUTERS
from hearsay.core.rules.randomness import below
from hearsay.core.scores import promises
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import Gater, GaterParameters
from hearsay.core.scores.promises import IwantPromises

GO = GaterParameters.from_mapping(ROUTERS["gossipsub"].presets["filecoin"]["gater"])
"""go's defaults, with which Filecoin runs."""

PEERS = st.sampled_from("ABC")
MESSAGES = st.integers(0, 6)
DRAWS = st.integers(0, 2**64 - 1)
FOLLOWUP = 3_000_000


class PromiseMachine(RuleBasedStateMachine):
    @initialize(tracked=st.sampled_from(TrackedPromises), peer_limit=st.integers(1, 4), total_limit=st.integers(1, 8))
    def start(self, tracked, peer_limit, total_limit):
        self.now = 0
        self.tracked, self.peer_limit, self.total_limit = tracked, peer_limit, total_limit
        self.made = IwantPromises(tracked, FOLLOWUP)
        self.limits = patch.multiple(promises, MAX_PROMISES_OF_PEER=peer_limit, MAX_PROMISES=total_limit)
        self.limits.start()
        self.open: list[tuple[str, int, int]] = []
        """Peer, message and end of each open promise."""

    def teardown(self):
        self.limits.stop()

    @rule(peer=PEERS, ids=st.lists(MESSAGES, max_size=4, unique=True), draw=DRAWS)
    def ask(self, peer, ids, draw):
        self.made.ask(peer, ids, self.now, lambda: draw)
        if self.tracked is TrackedPromises.ONE:
            ids = [ids[below(draw, len(ids))]] if ids else []
        for message in ids if self.tracked is not TrackedPromises.NONE else ():
            of_peer = [each for each in self.open if each[0] == peer]
            known = any(each[1] == message for each in of_peer)
            if not known and len(of_peer) < self.peer_limit and len(self.open) < self.total_limit:
                self.open.append((peer, message, self.now + FOLLOWUP))

    @rule(message=MESSAGES)
    def receive(self, message):
        self.made.keep(message)
        self.open = [each for each in self.open if each[1] != message]

    @rule(message=MESSAGES, reason=st.sampled_from([Reason.REJECTED, Reason.BAD_SIGNATURE]))
    def reject(self, message, reason):
        self.made.reject(message, reason)
        if reason is Reason.REJECTED:
            self.open = [each for each in self.open if each[1] != message]

    @rule(peer=PEERS)
    def void(self, peer):
        self.made.void(peer)
        self.open = [each for each in self.open if each[0] != peer]

    @rule(span=st.sampled_from([0, 1, 1_000_000, FOLLOWUP]))
    def beat(self, span):
        self.now += span
        broken = Counter(peer for peer, _, end in self.open if end < self.now)
        assert self.made.take_broken(self.now) == tuple(sorted(broken.items()))
        self.open = [each for each in self.open if each[2] >= self.now]

    @invariant()
    def open_promises_are_equal(self):
        assert len(self.made.ends) == len(self.open)
        assert {message for _, message in self.made.ends} == {message for _, message, _ in self.open}


class GaterMachine(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.now = 0
        self.made = Gater(replace(GO, retain_ms=2_000, max_retained_addresses=1))
        self.connected: dict[str, str] = {}

    @rule(peer=PEERS, address=st.sampled_from(["1.2.3.4", "1.2.3.5", ""]))
    def connect(self, peer, address):
        self.made.connect(peer, address)
        self.connected.setdefault(peer, address)

    @rule(peer=PEERS)
    def disconnect(self, peer):
        self.made.disconnect(peer, self.now)
        self.connected.pop(peer, None)

    @rule(peer=PEERS, reason=st.sampled_from(Reason))
    def reject(self, peer, reason):
        self.made.reject(peer, reason, self.now)

    @rule(peer=PEERS)
    def deliver(self, peer):
        self.made.validate()
        self.made.deliver(peer, "topic")
        self.made.duplicate(peer)

    @rule(span=st.sampled_from([0, 1_000_000, 3_000_000]))
    def refresh(self, span):
        self.now += span
        self.made.refresh(self.now)

    @invariant()
    def some_draw_lets_each_peer_in(self):
        assert all(self.made.lets_in(peer, self.now, lambda: 0) for peer in "ABC")

    @invariant()
    def addresses_of_connected_peers_are_known_and_others_are_bounded(self):
        connected_addresses = {address for address in self.connected.values() if address}
        assert {(address, None) for address in connected_addresses} <= self.made._sources.keys()
        assert sum(bool(address) for address, _ in self.made._sources) <= len(connected_addresses) + 1
        assert len(self.made._away) <= 1


TestPromises = PromiseMachine.TestCase
TestPromises.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestGater = GaterMachine.TestCase
TestGater.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
