"""Random calls of a scorer with all choices of parameters, also about unknown peers.

Bounds hold. The order of calls about different peers does not matter, and reading scores does not change them.

Rules: SCORE-11, COUNTER-1, COUNTER-2.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scoring import sizes

from hearsay.core.language.actions import Reason
from hearsay.core.scores.declarations import InvalidCopies, Ipv6Counting, MeshTimes, QuantumRounding, RetainedScores
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicScoreParameters
from hearsay.core.scores.scorer import Scorer

PEERS = st.sampled_from("ABCDE")
TOPICS = st.sampled_from(["blocks", "news", "unscored"])
MESSAGES = st.integers(0, 8)
SCORED = ("blocks", "news")
TOPIC_PARAMETERS = TopicScoreParameters(
    topic_weight=0.5,
    time_in_mesh_weight=1,
    time_in_mesh_quantum_ms=1_000,
    time_in_mesh_cap=4,
    first_deliveries_weight=1,
    first_deliveries_decay=0.7,
    first_deliveries_cap=3,
    mesh_deliveries_weight=-1,
    mesh_deliveries_decay=0.7,
    mesh_deliveries_cap=3,
    mesh_deliveries_threshold=2,
    mesh_deliveries_window_ms=1,
    mesh_deliveries_activation_ms=1_000,
    mesh_failure_weight=-1,
    mesh_failure_decay=0.7,
    invalid_messages_weight=-1,
    invalid_messages_decay=0.7,
)
ADDRESSES = st.lists(st.sampled_from(["1.2.3.4", "1.2.3.5", "2001:db8::1", "2001:db8::2", "::1"]), max_size=3)
DIFFERENCES = st.fixed_dictionaries(
    {
        "time_in_mesh_quanta": st.sampled_from(QuantumRounding),
        "mesh_times": st.sampled_from(MeshTimes),
        "deficit_after_prune": st.booleans(),
        "second_prune_counts": st.booleans(),
        "invalid_copies": st.sampled_from(InvalidCopies),
        "retained_scores": st.sampled_from(RetainedScores),
        "decay_while_away": st.booleans(),
        "ipv6_addresses": st.sampled_from(Ipv6Counting),
    }
)


def scorer(differences) -> Scorer:
    parameters = PeerScoreParameters(
        application_weight=1,
        shared_address_weight=-1,
        shared_address_threshold=1,
        misbehaviour_weight=-1,
        misbehaviour_threshold=1,
        misbehaviour_decay=0.7,
        slow_peer_weight=-1,
        slow_peer_decay=0.7,
        decay_interval_ms=1_000,
        decay_to_zero=0.01,
        retain_ms=3_000,
        delivery_ttl_ms=2_000,
        max_deliveries=4,
        max_senders_per_delivery=2,
        max_retained_peers=2,
        max_addresses_per_peer=2,
        **differences,
    )
    return Scorer(parameters, dict.fromkeys(SCORED, TOPIC_PARAMETERS.numbers()))


class ScorerMachine(RuleBasedStateMachine):
    """Two scorers with the same calls. Calls about a single peer reach the second one later, in reverse order of
    peers, and its scores are read only at the end.
    """

    @initialize(differences=DIFFERENCES)
    def start(self, differences):
        self.now = 0
        self.first, self.second = scorer(differences), scorer(differences)
        self.waiting: list[tuple[str, Callable[[Scorer], None]]] = []
        for peer in "ABC":
            self.call_both(lambda each, peer=peer: each.connect(peer, ["1.2.3.4"]))

    def call_for_one_peer(self, peer: str, call: Callable[[Scorer], None]) -> None:
        call(self.first)
        self.waiting.append((peer, call))

    def call_both(self, call: Callable[[Scorer], None]) -> None:
        self.call_waiting()
        for each in (self.first, self.second):
            call(each)

    def call_waiting(self) -> None:
        for _, call in sorted(self.waiting, key=lambda item: item[0], reverse=True):
            call(self.second)
        self.waiting.clear()

    @rule(peer=PEERS, addresses=ADDRESSES)
    def connect(self, peer, addresses):
        self.call_both(lambda each: each.connect(peer, addresses))

    @rule(peer=PEERS)
    def disconnect(self, peer):
        now = self.now
        self.call_both(lambda each: each.disconnect(peer, now))

    @rule(peer=PEERS, topic=TOPICS)
    def graft(self, peer, topic):
        now = self.now
        self.call_for_one_peer(peer, lambda each: each.graft(peer, topic, now))

    @rule(peer=PEERS, topic=TOPICS)
    def prune(self, peer, topic):
        now = self.now
        self.call_for_one_peer(peer, lambda each: each.prune(peer, topic, now))

    @rule(peer=PEERS, count=st.integers(0, 4))
    def penalise(self, peer, count):
        self.call_for_one_peer(peer, lambda each: each.penalise(peer, count))

    @rule(peer=PEERS, count=st.integers(0, 4))
    def penalise_slow(self, peer, count):
        self.call_for_one_peer(peer, lambda each: each.penalise_slow(peer, count / 2))

    @rule(peer=PEERS, score=st.integers(-3, 3))
    def set_application_score(self, peer, score):
        self.call_for_one_peer(peer, lambda each: each.set_application_score(peer, score))

    @rule(peer=PEERS, addresses=ADDRESSES)
    def move(self, peer, addresses):
        self.call_for_one_peer(peer, lambda each: each.set_addresses(peer, addresses))

    @rule(topic=TOPICS, message=MESSAGES)
    def validate(self, topic, message):
        now = self.now
        self.call_both(lambda each: each.validate(topic, message, now))

    @rule(peer=PEERS, topic=TOPICS, message=MESSAGES)
    def deliver(self, peer, topic, message):
        now = self.now
        self.call_both(lambda each: each.deliver(peer, topic, message, now))

    @rule(peer=PEERS, topic=TOPICS, message=MESSAGES)
    def duplicate(self, peer, topic, message):
        now = self.now
        self.call_both(lambda each: each.duplicate(peer, topic, message, now))

    @rule(peer=PEERS, topic=TOPICS, message=MESSAGES, reason=st.sampled_from(Reason))
    def reject(self, peer, topic, message, reason):
        now = self.now
        self.call_both(lambda each: each.reject(peer, topic, message, reason, now))

    @rule(span=st.sampled_from([500, 1_000_000, 2_000_000]))
    def refresh(self, span):
        self.now += span
        now = self.now
        self.call_both(lambda each: each.refresh(now))

    @rule()
    def decay_everything(self):
        """When no peer is in a mesh, 60 refreshes leave only addresses and application scores."""
        now = self.now = self.now + 4_000_000
        for peer in "ABCDE":
            for topic in SCORED:
                self.call_both(lambda each, peer=peer, topic=topic: each.graft(peer, topic, now))
                self.call_both(lambda each, peer=peer, topic=topic: each.prune(peer, topic, now))
        for _ in range(60):
            self.call_both(lambda each: each.refresh(now))
        for peer in "ABCDE":
            parts = self.first.parts(peer, now)
            if parts is not None:
                assert parts.score == parts.peer.application + parts.peer.shared_addresses
        assert sizes(self.first)["retained peers"] == 0

    @invariant()
    def parts_have_their_signs_and_bounds(self):
        for peer in "ABCDE":
            parts = self.first.parts(peer, self.now)
            if parts is None:
                assert self.first.score(peer, self.now) == 0
                continue
            assert parts.score == self.first.score(peer, self.now)
            assert max(parts.peer.shared_addresses, parts.peer.misbehaviour, parts.peer.slow_peer) <= 0
            for _, (in_mesh, first, deficit, failures, invalid) in parts.topics:
                assert 0 <= in_mesh <= 4
                assert 0 <= first <= 3
                assert -4 <= deficit <= 0
                assert max(failures, invalid) <= 0

    @invariant()
    def sizes_are_bounded(self):
        sizes(self.first)

    def teardown(self):
        self.call_waiting()
        for peer in "ABCDE":
            assert self.first.parts(peer, self.now) == self.second.parts(peer, self.now)
            assert self.first.score(peer, self.now) == self.second.score(peer, self.now)
        assert sizes(self.first) == sizes(self.second)


TestScorer = ScorerMachine.TestCase
TestScorer.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
