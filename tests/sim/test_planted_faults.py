"""The checker finds planted faults: each test plants one fault and names the problem to report."""

from __future__ import annotations

import re
from dataclasses import replace

from hearsay.core.language.actions import Action, Deliver, Send, Via
from hearsay.core.language.events import Verdict
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.graft_bounds import Backoffs
from hearsay.core.mesh.mesh import Mesh
from hearsay.core.mesh.mesh_requests import MeshRequests
from hearsay.core.mesh.meshsub import MeshUpkeep
from hearsay.core.mesh.message_memory import MessageCache
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.peers import PeerBook
from hearsay.core.shell.router import Router
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import InvariantViolation, Simulation


def problems(**keys: object) -> tuple[str, ...]:
    settings = {"network.nodes": 25, "workload.messages": 6, "linger_s": 8, **keys}
    scenario = load_scenario(None, "r1", [(key.replace("__", "."), str(value)) for key, value in settings.items()])
    try:
        return Simulation(scenario, check=True).run().problems
    except InvariantViolation as violation:  # the engine could not continue
        return tuple(str(violation).splitlines())


def assert_reported(expected: str, found: tuple[str, ...]) -> None:
    assert any(re.search(expected, problem) for problem in found), found


def test_a_sound_router_is_not_accused():
    assert problems() == ()


def test_delivers_twice(monkeypatch):
    sound = Router._accept

    def twice(self, message, sender):
        sound(self, message, sender)
        self.actions.append(Deliver(message, sender))

    monkeypatch.setattr(Router, "_accept", twice)
    assert_reported("delivered twice", problems())


def test_forwards_to_the_sender(monkeypatch):
    sound = Outbox.forward
    monkeypatch.setattr(
        Outbox, "forward", lambda self, peers, message, via, received_from: sound(self, peers, message, via, None)
    )
    assert_reported("sent back to", problems())


def test_forwards_to_the_author(monkeypatch):
    def to_all(self, peers, message, via, received_from):
        for peer in peers:
            if peer != received_from:
                self._parcel(peer).messages[message.id] = (message, via)

    monkeypatch.setattr(Outbox, "forward", to_all)
    assert_reported("sent to its author", problems(workload__publishers="subscribers"))


def test_sends_to_non_subscribers(monkeypatch):
    sound = Gossipsub.publish

    def to_everyone(self, message):
        self.shell.outbox.forward(sorted(self.shell.connected), message, Via.FLOOD, None)
        sound(self, message)

    monkeypatch.setattr(Gossipsub, "publish", to_everyone)
    assert_reported("non-subscriber", problems(topics__0__subscribers_share=0.5, workload__publishers="subscribers"))


def test_forwards_refused_messages(monkeypatch):
    sound = Router._validated
    monkeypatch.setattr(
        Router, "_validated", lambda self, message_id, verdict: sound(self, message_id, Verdict.ACCEPT)
    )
    found = problems(workload__publishers="any", validation__invalid="[{share = 0.5}]")
    assert_reported("delivered although the application refused it", found)
    assert_reported("sent to .* although the application refused it", found)


def test_forwards_unwanted_messages(monkeypatch):
    parameters = {"router__idontwant_threshold_bytes": 10, "validation__delay_ms": 200}
    assert problems(**parameters) == ()
    monkeypatch.setattr(Gossipsub, "peers_wanting", lambda self, peers, *rest: peers)
    assert_reported("which does not want it", problems(**parameters))


def test_ignores_prune(monkeypatch):
    monkeypatch.setattr(MeshRequests, "on_prune", lambda self, sender, prune: None)
    keys = {"router__degree": 2, "router__degree_low": 2, "router__degree_high": 2}
    assert_reported("not mutual", problems(**keys))


def test_prunes_without_a_message(monkeypatch):
    monkeypatch.setattr(Outbox, "prune", lambda self, peer, topic: None)
    keys = {"router__degree": 2, "router__degree_low": 2, "router__degree_high": 2}
    assert_reported("not mutual", problems(**keys))


def test_never_prunes(monkeypatch):
    monkeypatch.setattr(MeshUpkeep, "_prune_random", lambda *_: None)
    keys = {"router__degree": 3, "router__degree_low": 3, "router__degree_high": 3}
    assert_reported("after a heartbeat, above 3", problems(**keys))


def test_never_grafts_enough(monkeypatch):
    sound = Mesh.graft_random
    monkeypatch.setattr(
        Mesh,
        "graft_random",
        lambda self, topic, own, total, *others: sound(self, topic, own - 3, total - 3, *others),
    )
    assert_reported("peers, below 4", problems())


def test_grafts_too_early(monkeypatch):
    monkeypatch.setattr(Backoffs, "forbids_graft", lambda *_: False)
    keys = {"router__degree": 2, "router__degree_low": 2, "router__degree_high": 2}
    assert_reported("before the backoff in 'topic' is over", problems(router__preset="v1.1", **keys))


def test_never_grafts_after_a_backoff(monkeypatch):
    """The checker allows a small mesh during backoffs, but not after them."""
    monkeypatch.setattr(Backoffs, "forbids_graft", lambda self, topic, peer, now: (topic, peer) in self._until)
    monkeypatch.setattr(Backoffs, "expire", lambda *_: None)
    keys = {f"timed__{n}__{key}": value for n, action in enumerate(("leave", "join")) for key, value in
            {"at_s": 6 + n, "node": 3, "action": action, "topic": "topic"}.items()}  # fmt: skip
    assert_reported(
        "node 3: mesh of 'topic' has 0", problems(router__preset="v1.1", linger_s=20, network__nodes=6, **keys)
    )


def test_gossips_about_old_messages(monkeypatch):
    sound = MessageCache.__init__
    monkeypatch.setattr(
        MessageCache,
        "__init__",
        lambda self, given: sound(self, replace(given, history_gossip=given.history_gossip + 1)),
    )
    assert_reported("IHAVE of message .* heartbeats old", problems())


def test_serves_beyond_the_history(monkeypatch):
    def keep(self):
        self._windows.shift(1 << 30)

    monkeypatch.setattr(MessageCache, "shift", keep)
    keys = {
        "router__history_length": 1,
        "router__history_gossip": 1,
        "router__degree": 0,
        "router__degree_low": 0,
        "router__degree_high": 0,
        "links__min_ms": 400,
        "links__max_ms": 900,
    }
    assert_reported("request answered with message .* heartbeats old", problems(**keys))


def test_remembers_peers_that_left(monkeypatch):
    def keep_in_the_views(self, peer):
        del self.connected[peer.id]

    monkeypatch.setattr(PeerBook, "remove", keep_in_the_views)
    churn = {"faults__churn__away_share": 0.3, "faults__churn__mean_session_s": 3}
    assert_reported("left after its disconnect", problems(**churn))


def test_keeps_a_mesh_link_to_a_disconnected_peer(monkeypatch):
    monkeypatch.setattr(Mesh, "remove_peer", lambda self, peer: None)
    churn = {"faults__crash__0__at_s": 7, "faults__crash__0__share": 0.3}
    assert_reported("left after its disconnect", problems(**churn))


def test_sends_two_rpcs_to_one_peer(monkeypatch):
    sound = Router.handle

    def doubled(self, event, now):
        actions = sound(self, event, now)
        return [copy for action in actions for copy in ([action] * (1 + isinstance(action, Send)))]

    monkeypatch.setattr(Router, "handle", doubled)
    assert_reported("more than one RPC to a peer", problems())


def test_sends_out_of_order(monkeypatch):
    sound = Router.handle

    def reversed_sends(self, event, now):
        actions = sound(self, event, now)
        sends: list[Action] = [action for action in actions if isinstance(action, Send)]
        return [action for action in actions if not isinstance(action, Send)] + sends[::-1]

    monkeypatch.setattr(Router, "handle", reversed_sends)
    assert_reported("not in ascending order", problems())


def test_delivers_before_the_verdict(monkeypatch):
    sound = Router._receive_new

    def eager(self, sender, message, accepted):
        known = message.id in self.pending
        sound(self, sender, message, accepted)
        if not known:
            self.actions.append(Deliver(message, sender))

    monkeypatch.setattr(Router, "_receive_new", eager)
    assert_reported("before the application accepted it", problems(validation__delay_ms=50))
