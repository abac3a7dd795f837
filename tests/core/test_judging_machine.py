"""Random events for routers with scores and a hostile peer: invariants that hold for all scores."""

from __future__ import annotations

from itertools import groupby

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from test_router_machines import MALLORY, PEERS, TOPICS, Network, ids, peer_lists, topics

from hearsay.core.language.actions import PeerPruned, Send
from hearsay.core.language.events import DirectPeerChosen, PeerConnected, PeerRated, RpcReceived
from hearsay.core.language.rpc import Control, Graft, IDontWant, PeerInfo, Prune, Rpc
from hearsay.core.mesh.parameters import (
    DirectGraft,
    GraftChoice,
    Median,
    OutboundRepair,
    OutboundWhenFull,
)
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness
from hearsay.core.scores.declarations import InvalidCopies, MeshTimes, RetainedScores, TrackedPromises
from hearsay.core.scores.promises import MAX_PROMISES

GRAYLIST = -4
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.2", "d": "", MALLORY: "10.0.0.1"}
DECAYS = {"global_decay": 0.5, "source_decay": 0.5, "decay_to_zero": 0.01}
GATER = {"threshold": 0.1, **DECAYS, "duplicate_weight": 1, "ignore_weight": 1, "reject_weight": 16}
TOPIC_SCORE = {
    "topic": "any",
    "topic_weight": 1,
    "time_in_mesh_weight": 0.1,
    "time_in_mesh_quantum_ms": 1_000,
    "time_in_mesh_cap": 10,
    "first_deliveries_weight": 1,
    "first_deliveries_decay": 0.5,
    "first_deliveries_cap": 5,
    "mesh_deliveries_weight": -1,
    "mesh_deliveries_decay": 0.5,
    "mesh_deliveries_cap": 5,
    "mesh_deliveries_threshold": 1,
    "mesh_deliveries_window_ms": 10,
    "mesh_deliveries_activation_ms": 2_000,
    "invalid_messages_weight": -1,
    "invalid_messages_decay": 0.5,
}
PEER_SCORE = {
    "validation": "selective",
    "application_weight": 1,
    "shared_address_weight": -0.5,
    "shared_address_threshold": 1,
    "misbehaviour_weight": -0.5,
    "misbehaviour_decay": 0.5,
    "slow_peer_weight": -0.1,
    "slow_peer_decay": 0.5,
    "decay_interval_ms": 1_500,
    "decay_to_zero": 0.01,
    "retain_ms": 5_000,
    "max_deliveries": 5,
    "max_senders_per_delivery": 2,
    "max_retained_peers": 2,
    "thresholds": {"gossip": -2, "publish": -3, "graylist": GRAYLIST, "opportunistic_graft": 2},
    "topics": [TOPIC_SCORE],
}
BOOLEAN_PARAMETERS = ("degree_out", "flood_publish", "graft_on_subscribe", "skip_senders", "accept_exchange")

controls = st.builds(
    Control,
    graft=st.lists(st.builds(Graft, topics), max_size=3).map(tuple),
    prune=st.lists(
        st.builds(
            Prune,
            topics,
            st.none() | st.integers(0, 3) | st.just(2**64 - 1),
            peer_lists.map(lambda peers: tuple(map(PeerInfo, peers))),
        ),
        max_size=3,
    ).map(tuple),
    idontwant=st.lists(st.builds(IDontWant, st.lists(ids, max_size=4).map(tuple)), max_size=2).map(tuple),
)


class ScoringNetwork(Network):
    """Routers with scores. P3b is off: it lowers scores during a heartbeat, and the next heartbeat reads them."""

    kind = "gossipsub"

    @initialize(
        low=st.integers(0, 2),
        extra=st.integers(0, 2),
        more=st.integers(0, 2),
        coalesce=st.booleans(),
        validate=st.booleans(),
        gated=st.booleans(),
        switches=st.fixed_dictionaries({name: st.booleans() for name in BOOLEAN_PARAMETERS}),
        choices=st.fixed_dictionaries(
            {
                "outbound_when_full": st.sampled_from(OutboundWhenFull),
                "outbound_repair": st.sampled_from(OutboundRepair),
                "median": st.sampled_from(Median),
                "graft_choice": st.sampled_from(GraftChoice),
                "direct_graft": st.sampled_from(DirectGraft),
                "tracked_promises": st.sampled_from(TrackedPromises),
                "prune_backoff_ms": st.sampled_from([0, 3_000]),
                "backoff_slack_heartbeats": st.integers(0, 2),
                "full_mesh": st.sampled_from(["accept", "refuse"]),
            }
        ),
        score_choices=st.fixed_dictionaries(
            {
                "mesh_times": st.sampled_from(MeshTimes),
                "invalid_copies": st.sampled_from(InvalidCopies),
                "retained_scores": st.sampled_from(RetainedScores),
                "deficit_after_prune": st.booleans(),
            }
        ),
    )
    def start(self, low, extra, more, coalesce, validate, gated, switches, choices, score_choices):
        outbound = switches.pop("degree_out") and low > 1 and low + extra > 1
        self.extra_parameters = {
            **switches,
            **choices,
            "score": {**PEER_SCORE, **score_choices},
            "degree_out": int(outbound),
            "degree_score": min(low, 1),
            "opportunistic_graft_ticks": 2,
            "direct_connect_ticks": 2,
            "max_ihave_messages": 2,
            "gossip_factor": 0.25,
            "exchange_peers": 2,
            "iwant_followup_ms": 1_000,
            "idontwant_threshold_bytes": 1,
            "graft_flood_ms": 1_000,
            **({"gater": GATER} if gated else {}),
        }
        self.twins = {}
        """A second router for each name, with the same parameters and the same events."""
        self.ticks = dict.fromkeys(PEERS, 0)
        super().start(low, extra, more, coalesce, validate, 0, 0)
        kind = ROUTERS[self.kind]
        for name, router in self.routers.items():
            self.twins[name] = create(kind, name, router.parameters, Randomness(7))
        self.connect_all()

    def feed(self, name, event):
        router = self.routers[name]
        before = self.graylisted(name)
        self.last_actions = []
        super().feed(name, event)
        assert self.last_actions == self.twins[name].handle(event, self.now)
        for peer in before & self.graylisted(name):
            self.require_neither_messages_nor_requests(router, peer)

    def graylisted(self, name):
        """Return the graylisted peers, except those that are in a mesh or fan-out until the next heartbeat."""
        router = self.routers[name]
        standing = router.strategy.standing
        found = {peer for peer in router.connected if peer not in standing.direct and standing.score(peer) < GRAYLIST}
        for peer in router.connected:
            assert standing.accepts_from(peer) is (peer not in found)
        return found - {peer for _, peer, _ in router.strategy.peerings()}

    def require_neither_messages_nor_requests(self, router, peer):
        for action in self.last_actions:
            if isinstance(action, Send) and action.peer == peer:
                assert action.rpc.messages == ()
                control = action.rpc.control or Control()
                assert (control.ihave, control.iwant, control.graft) == ((), (), ())

    def connection(self, name, peer, protocol):
        return PeerConnected(peer, protocol, (), ADDRESSES[peer], outbound=name < peer)

    @rule(name=st.sampled_from(PEERS), peer=st.sampled_from([*PEERS, MALLORY]), rating=st.integers(-6, 6))
    def rate(self, name, peer, rating):
        self.feed(name, PeerRated(peer, rating))

    @rule(name=st.sampled_from(PEERS), peer=st.sampled_from([*PEERS, MALLORY]), direct=st.booleans())
    def choose_direct(self, name, peer, direct):
        if name != peer:
            self.feed(name, DirectPeerChosen(peer, direct))

    @rule(name=st.sampled_from(PEERS), control=controls)
    def mallory_sends_control(self, name, control):
        if (min(name, MALLORY), max(name, MALLORY)) in self.links:
            self.feed(name, RpcReceived(MALLORY, Rpc(control=control)))

    def check_bounds(self, name):
        """Check the bounds of meshes if the last timer was a heartbeat."""
        router = self.routers[name]
        strategy = router.strategy
        if strategy.heartbeat.tick == self.ticks[name]:
            return
        self.ticks[name] = strategy.heartbeat.tick
        parameters = strategy.parameters
        for topic, mesh in strategy.mesh.topics.items():
            assert all(strategy.standing.score(peer) >= 0 for peer in mesh)
            assert len(mesh) <= parameters.degree_high + parameters.degree + parameters.opportunistic_graft_peers
            pruned = {
                action.peer
                for action in self.last_actions
                if isinstance(action, PeerPruned) and action.topic == topic
            }
            left_out = set(strategy.mesh.candidates(topic)) - pruned
            """Candidates, except those that this heartbeat pruned: it reads scores before it prunes (STANDING-2)."""
            assert len(mesh) >= parameters.degree_low or not left_out
            dialled = [peer for peer in mesh if router.connected[peer].outbound]
            if len(mesh) >= parameters.degree_low and len(dialled) < parameters.degree_out:
                assert not any(router.connected[peer].outbound for peer in left_out)

    @invariant()
    def direct_peers_are_in_no_mesh_and_what_is_kept_is_bounded(self):
        for router in getattr(self, "routers", {}).values():
            strategy = router.strategy
            assert not strategy.standing.direct & {peer for _, peer, _ in strategy.peerings()}
            scorer = strategy.standing._scorer
            if scorer is not None:
                assert len(scorer._deliveries) <= scorer._parameters.max_deliveries
                assert len(scorer._retained) <= scorer._parameters.max_retained_peers
            assert len(strategy.standing._promises.ends) <= MAX_PROMISES
            for topic in TOPICS:
                assert strategy.mesh_peers(topic) == [] or topic in router.joined


def test_random_events_keep_invariants_of_scores():
    run_state_machine_as_test(ScoringNetwork)


def test_pruned_member_is_candidate_at_the_next_heartbeat_only():
    """The PRUNE deletes the deficit, but the heartbeat uses the scores that it read before (STANDING-2)."""
    network = ScoringNetwork()
    choices = {"prune_backoff_ms": 0, "graft_choice": GraftChoice.RANDOM}
    scores = {"mesh_times": MeshTimes.NOW, "deficit_after_prune": False}
    network.start(2, 0, 0, False, False, False, {"degree_out": False, "graft_on_subscribe": True}, choices, scores)
    strategy = network.routers["a"].strategy
    members = []
    while strategy.heartbeat.tick < 4:
        network.beat("a")
        members.append(strategy.mesh.topics["news"].ordered)
    assert [mesh for mesh, _ in groupby(members)] == [(MALLORY,), ("d",), ("d", MALLORY)]
