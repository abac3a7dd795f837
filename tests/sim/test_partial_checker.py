"""The checker of partial messages reports each broken rule, and nothing for a router that keeps the rules."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hearsay.core.language.actions import Action
from hearsay.core.language.events import (
    Event,
    Join,
    PartialsChosen,
    PartsFor,
    PeerConnected,
    Publish,
    PublishPartial,
    RpcReceived,
    TimerFired,
)
from hearsay.core.language.rpc import (
    MESHSUB_13,
    Control,
    Features,
    Graft,
    Message,
    Partial,
    PartialUse,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.features import FeatureBook
from hearsay.core.mesh.partials import Groups, Partials
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.partial_rules import ACCEPTED
from hearsay.core.rules.randomness import Randomness
from hearsay.sim.checks.partial_checker import PartialChecker

TOPIC = "t"
CAN = Features(partial_messages=True)


class SameParts:
    """An application that sends the same parts and metadata to every peer."""

    def parts_for(self, topic, group, peer):
        return PartsFor(b"parts", b"metadata")


class Watched:
    """A router in a topic with peers of all kinds, and the problems that the checker reports."""

    def __init__(self, use: PartialUse = PartialUse.REQUESTS, **parameters: str) -> None:
        kind = ROUTERS["gossipsub"]
        given = {
            **kind.presets["v1.1"],
            "partial_messages": True,
            "max_peer_groups": 2,
            "max_groups_per_peer": 1,
            "idontwant_threshold_bytes": 1,
            **parameters,
        }
        self._router = create(kind, "me", kind.parameters.from_mapping(given), Randomness(1))
        self._node = SimpleNamespace(id=0, router=self._router)
        self.problems: list[str] = []
        self._checker = PartialChecker(lambda now, node, problem: self.problems.append(problem))
        self._checker.node_started(self._node)
        self._now = 0
        self.feed(PartialsChosen(TOPIC, use, SameParts()))
        self.feed(Join(TOPIC))
        for peer, use, can in (
            ("requests", PartialUse.REQUESTS, CAN),
            ("supports", PartialUse.SUPPORTS, CAN),
            ("neither", PartialUse.NONE, CAN),
            ("cannot", PartialUse.REQUESTS, Features()),
        ):
            self.feed(PeerConnected(peer, MESHSUB_13))
            control = Control(graft=(Graft(TOPIC),), features=(can,))
            self.feed(RpcReceived(peer, Rpc((Subscription(TOPIC, True, use),), (), control)))
        self.feed(PeerConnected("nearby", MESHSUB_13))
        requests = Subscription(TOPIC, True, PartialUse.REQUESTS)
        self.feed(RpcReceived("nearby", Rpc((requests,), (), Control(features=(CAN,)))))

    def feed(self, event: Event) -> list[Action]:
        actions = self._router.handle(event, self._now)
        promise = self._router.strategy.promises().partial
        assert promise is not None
        self._checker.handled(self._node, promise, event, True, actions, self._now)
        return actions

    def feed_all(self) -> None:
        """Publish, receive messages and parts, and run a heartbeat."""
        self.feed(Publish(Message("m1", TOPIC, b"x", "me")))
        self.feed(RpcReceived("neither", Rpc(messages=(Message("m2", TOPIC, b"xyz", "author"),))))
        self.feed(PublishPartial(TOPIC, b"1"))
        for peer, group in (("requests", b"2"), ("requests", b"3"), ("supports", b"3"), ("nearby", b"4")):
            self.feed(RpcReceived(peer, Rpc(partial=Partial(TOPIC, group, None, b"x"))))
        self.feed(PublishPartial(TOPIC, b"3"))
        self._now = self._router.deadline()
        self.feed(TimerFired())


def test_no_problem_is_reported_for_a_router_that_keeps_the_rules():
    """Rules: PARTIAL-2, PARTIAL-3, PARTIAL-4, PARTIAL-6, PARTIAL-9."""
    watched = Watched()
    watched.feed_all()
    assert watched.problems == []


WRONG_PARTIAL = "a partial message, which the peer must not get,"


@pytest.mark.parametrize(
    ("senders", "problems"), [("by_all", []), ("by_requesters", [f"{WRONG_PARTIAL} to supports"])]
)
def test_a_parameter_allows_metadata_between_supporters(monkeypatch, senders, problems):
    """Rule: PARTIAL-2."""
    monkeypatch.setattr(Partials, "gets_partials", lambda self, peer, topic: self.use_of(peer, topic) != "none")
    watched = Watched(PartialUse.SUPPORTS, supporters_told=senders)
    watched.feed(PublishPartial(TOPIC, b"1"))
    assert watched.problems == problems


UNNEEDED = "IDONTWANT of m2, though the peer would send parts,"
FAULTS = [
    (Partials, "without", lambda self, peers, topic: peers, "message m1, in place of parts, to requests"),
    (Partials, "gossip", lambda self, topic, peers: list(peers), "IHAVE of 't', in place of parts, to nearby"),
    (Partials, "gets_parts", lambda self, peer, topic: True, "parts, which the peer does not request, to supports"),
    (Partials, "spares", lambda self, peer, topic: False, f"{UNNEEDED} to supports"),
    (Partials, "gets_partials", lambda self, peer, topic: True, f"{WRONG_PARTIAL} to neither"),
    (FeatureBook, "exchanges_parts", lambda self, peer: True, f"{WRONG_PARTIAL} to cannot"),
    (Groups, "refusal", lambda self, topic, peer: ACCEPTED, "peers have opened 3 groups in 't'"),
]


@pytest.mark.parametrize(("owner", "name", "fault", "problem"), FAULTS, ids=[name for _, name, _, _ in FAULTS])
def test_a_broken_rule_is_reported(monkeypatch, owner, name, fault, problem):
    monkeypatch.setattr(owner, name, fault)
    watched = Watched()
    watched.feed_all()
    assert problem in watched.problems


def test_a_peer_with_too_many_groups_is_reported(monkeypatch):
    """Rule: PARTIAL-9."""
    monkeypatch.setattr(Groups, "of_peer", lambda self, topic, name, peer: _open_group(self, topic, name, peer))
    watched = Watched()
    watched.feed_all()
    assert "requests has opened too many groups in 't'" in watched.problems


def _open_group(groups, topic, name, peer):
    """Return a new group of a peer, however many groups this peer has opened."""
    group = groups.publish(topic, name)
    group.is_own, group.opener = False, peer
    return group
