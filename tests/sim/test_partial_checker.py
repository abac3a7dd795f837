"""The checker of partial messages says nothing of a router that keeps the rules, and finds each way to break them."""

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


class Everything:
    def parts_for(self, topic, group, peer):
        return PartsFor(b"parts", b"metadata")


class Watched:
    """A router in a topic, between peers of all sorts, and what the checker says of it."""

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
        self.feed(PartialsChosen(TOPIC, use, Everything()))
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
        fourth = Subscription(TOPIC, True, PartialUse.REQUESTS)
        self.feed(RpcReceived("nearby", Rpc((fourth,), (), Control(features=(CAN,)))))

    def feed(self, event: Event) -> list[Action]:
        actions = self._router.handle(event, self._now)
        promise = self._router.strategy.promises().partial
        assert promise is not None
        self._checker.handled(self._node, promise, event, True, actions, self._now)
        return actions

    def life(self) -> None:
        """All that happens to it in these tests."""
        self.feed(Publish(Message("m1", TOPIC, b"x", "me")))
        self.feed(RpcReceived("neither", Rpc(messages=(Message("m2", TOPIC, b"xyz", "author"),))))
        self.feed(PublishPartial(TOPIC, b"1"))
        for peer, group in (("requests", b"2"), ("requests", b"3"), ("supports", b"3"), ("nearby", b"4")):
            self.feed(RpcReceived(peer, Rpc(partial=Partial(TOPIC, group, None, b"x"))))
        self.feed(PublishPartial(TOPIC, b"3"))
        self._now = self._router.deadline()
        self.feed(TimerFired())


def test_a_router_that_keeps_the_rules():
    """Rules: PARTIAL-2, PARTIAL-3, PARTIAL-4, PARTIAL-6, PARTIAL-9."""
    watched = Watched()
    watched.life()
    assert watched.problems == []


NOT_FOR_IT = "a partial message, which the peer must not get,"


@pytest.mark.parametrize(("to", "said"), [("by_all", []), ("by_requesters", [f"{NOT_FOR_IT} to supports"])])
def test_what_supporters_tell_each_other_is_a_parameter(monkeypatch, to, said):
    """Rule: PARTIAL-2."""
    monkeypatch.setattr(Partials, "gets_partials", lambda self, peer, topic: self.use_of(peer, topic) != "none")
    watched = Watched(PartialUse.SUPPORTS, supporters_told=to)
    watched.feed(PublishPartial(TOPIC, b"1"))
    assert watched.problems == said


UNNEEDED = "IDONTWANT of m2, though the peer would send parts,"
FAULTS = [
    (Partials, "without", lambda self, peers, topic: peers, "message m1, in place of parts, to requests"),
    (Partials, "gossip", lambda self, topic, peers: list(peers), "IHAVE of 't', in place of parts, to nearby"),
    (Partials, "gets_parts", lambda self, peer, topic: True, "parts, which the peer does not request, to supports"),
    (Partials, "spares", lambda self, peer, topic: False, f"{UNNEEDED} to supports"),
    (Partials, "gets_partials", lambda self, peer, topic: True, f"{NOT_FOR_IT} to neither"),
    (FeatureBook, "exchanges_parts", lambda self, peer: True, f"{NOT_FOR_IT} to cannot"),
    (Groups, "refusal", lambda self, topic, peer: ACCEPTED, "peers have opened 3 groups in 't'"),
]


@pytest.mark.parametrize(("where", "name", "fault", "said"), FAULTS, ids=[name for _, name, _, _ in FAULTS])
def test_a_router_that_breaks_one(monkeypatch, where, name, fault, said):
    monkeypatch.setattr(where, name, fault)
    watched = Watched()
    watched.life()
    assert said in watched.problems


def test_a_peer_that_opens_too_many(monkeypatch):
    """Rule: PARTIAL-9."""
    monkeypatch.setattr(Groups, "of_peer", lambda self, topic, name, peer: _opened(self, topic, name, peer))
    watched = Watched()
    watched.life()
    assert "requests has opened too many groups in 't'" in watched.problems


def _opened(groups, topic, name, peer):
    """A group that any peer may open."""
    group = groups.publish(topic, name)
    group.is_own, group.opener = False, peer
    return group
