"""The standing of peers: scores, promises, direct peers and the gater (`PeerScoring`).

It connects a router and `core.scores`, whose `__init__` lists the calls. Without parameters of 1.1 the standing is
neutral: all scores are 0, all peers are admitted, and no promise is tracked. Rules:

* STANDING-1: Scores do not concern direct peers: a direct peer is always admitted, gets every message, and is in no
  mesh and no fan-out (v1.1, "Explicit peering agreements").
* STANDING-2: A heartbeat reads each score once and uses this value, even after a PRUNE has changed the score (go).
  Its gossip uses the current scores (go, rust, js).
* STANDING-3: A refresh that is due together with a heartbeat comes first (rust).
* JUDGE-1: An RPC of a graylisted peer is ignored, except its subscriptions (go, rust; js ignores these, too).
  Messages that the gater does not admit are ignored.
* JUDGE-2: IHAVE and IWANT of a peer below the gossip threshold are ignored, and it gets no IHAVE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Control, IHave, IWant, Message, PartKind, Rpc
from hearsay.core.language.state import ScoreParts
from hearsay.core.mesh.parameters import GossipsubParameters, UnwelcomeGraft
from hearsay.core.rules.message_rules import rpc_is_accepted
from hearsay.core.rules.score_parts import exchange_is_accepted, gets_published, may_be_in_mesh, may_gossip
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import Gater
from hearsay.core.scores.promises import PromiseParameters, Promises
from hearsay.core.scores.score_parameters import ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.control import drop_messages_and_control
from hearsay.core.shell.guarantees import AskingPromise, StandingPromise
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.randomness import Purpose, key_of
from hearsay.core.shell.strategy import Shell

MAX_REJECTED = 10_000
"""Maximum number of rejected messages whose digests are remembered. Without a digest, copies count as identical."""
_NOTHING = Rpc()
_NO_THRESHOLDS = ScoreThresholds()
_UNFOLLOWED = PromiseParameters(tracked_promises=TrackedPromises.NONE)
_NO_PROMISES = Promises(_UNFOLLOWED)
"""Shared by all neutral standings; it stays empty."""


class Standing:
    """The scores that a router gives its peers, and the decisions that depend on scores."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell) -> None:
        self._shell = shell
        self._parameters = parameters
        score, gater = parameters.score, parameters.gater
        self._scorer = None if score is None else Scorer(score.peer, {})
        self.keeps_scores = score is not None
        self.thresholds = _NO_THRESHOLDS if score is None else score.thresholds
        self._promises = _NO_PROMISES
        self._followed = _UNFOLLOWED
        if parameters.uses_11:
            self._followed = PromiseParameters(
                tracked_promises=parameters.tracked_promises,
                iwant_followup_ms=parameters.iwant_followup_ms,
                asked_peer_must_send=parameters.asked_peer_must_send,
            )
            self._promises = Promises(self._followed)
        self._gater = None if gater is None else Gater(gater)
        self._gater_us: Micros = 0 if gater is None else gater.decay_interval_ms * 1000
        self._gater_due: Micros = shell.now + self._gater_us
        self._refresh_us: Micros = 0 if score is None else score.peer.decay_interval_us
        self._refresh_due: Micros = shell.now + self._refresh_us
        self._present: set[PeerId] = set()
        self._rejected: dict[MessageId, bytes] = {}
        """Digests of rejected messages, the oldest first."""
        self._chosen: set[TopicId] = set()
        """Topics whose parameters the application chose at run time."""
        self._kept: dict[PeerId, float] | None = None
        """The scores that the running heartbeat has read; None outside of a heartbeat."""
        self._ihaves: dict[PeerId, int] = {}
        """Number of handled RPCs with IHAVE since the last heartbeat, by peer; kept when the peer disconnects."""
        self._iwants: dict[PeerId, int] = {}
        """Number of handled RPCs with IWANT since the last heartbeat, by peer; kept when the peer disconnects."""
        self.direct: set[PeerId] = set()

    def score(self, peer: PeerId) -> float:
        if self._scorer is None:
            return 0.0
        if self._kept is None:
            return self._scorer.score(peer, self._shell.now)
        score = self._kept.get(peer)
        if score is None:
            score = self._kept[peer] = self._scorer.score(peer, self._shell.now)
        return score

    def may_be_in_mesh(self, peer: PeerId) -> bool:
        return peer not in self.direct and may_be_in_mesh(self.score(peer))

    def is_welcome(self, peer: PeerId) -> bool:
        """Return whether a peer's score is not negative."""
        return may_be_in_mesh(self.score(peer))

    def may_gossip(self, peer: PeerId) -> bool:
        score = 0.0 if self._scorer is None else self._scorer.score(peer, self._shell.now)
        return may_gossip(score, self.thresholds.gossip)

    def gets_published(self, peer: PeerId) -> bool:
        return peer in self.direct or gets_published(self.score(peer), self.thresholds.publish)

    def is_graylisted(self, peer: PeerId) -> bool:
        if self._scorer is None or peer in self.direct:
            return False
        return self._scorer.is_graylisted(peer, self.thresholds.graylist, self._shell.now)

    def accepts_from(self, peer: PeerId) -> bool:
        return not self.is_graylisted(peer)

    def trusts_exchange_of(self, peer: PeerId) -> bool:
        return exchange_is_accepted(self.score(peer), self.thresholds.accept_exchange)

    def for_mesh(self, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Return the peers that may be in a mesh."""
        if self._scorer is None and not self.direct:
            return peers
        return [peer for peer in peers if self.may_be_in_mesh(peer)]

    def welcome(self, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Return the peers whose score is not negative."""
        return peers if self._scorer is None else [peer for peer in peers if self.is_welcome(peer)]

    def for_gossip(self, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Return the peers that may get IHAVE."""
        if self._scorer is None and not self.direct:
            return peers
        return [peer for peer in peers if peer not in self.direct and self.may_gossip(peer)]

    def for_flooding(self, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Return the peers that only flood and may get messages (JUDGE-4)."""
        return peers if self._scorer is None else [peer for peer in peers if self.gets_published(peer)]

    def for_own_messages(self, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Return the peers that may get the router's own messages, without direct peers, which always get them."""
        if self._scorer is None and not self.direct:
            return peers
        return [peer for peer in peers if peer not in self.direct and self.gets_published(peer)]

    def admit(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """Return the part of an RPC that is handled (JUDGE-1)."""
        if self.is_graylisted(sender.id):
            drop_messages_and_control(self._shell, sender.id, rpc, Reason.GRAYLISTED)
            if not rpc.subscriptions:
                return _NOTHING
            if self._parameters.graylisted_subscriptions:
                return Rpc(rpc.subscriptions)
            self._shell.drop(sender.id, PartKind.SUBSCRIBE, len(rpc.subscriptions), Reason.GRAYLISTED)
            return _NOTHING
        if rpc.messages and not self.lets_in(sender.id):
            self._shell.drop(sender.id, PartKind.PUBLISH, len(rpc.messages), Reason.GATED)
            rpc = replace(rpc, messages=())
        return rpc

    def lets_in(self, peer: PeerId) -> bool:
        """Return whether the gater admits the peer's messages; if not, void the peer's promises (PROMISE-4)."""
        if self._gater is None or peer in self.direct:
            return True
        shell = self._shell
        let_in = self._gater.lets_in(
            peer, shell.now, lambda: shell.randomness.draw(Purpose.GATED, shell.key, key_of(peer), shell.now)
        )
        if not let_in:
            self._promises.void(peer)
        return let_in

    def admit_gossip(self, sender: ConnectedPeer, control: Control) -> Control:
        """Return the control without the IHAVE and IWANT that are not handled (JUDGE-2, GOSSIP-14)."""
        peer = sender.id
        if peer in self.direct:
            return control
        if not self.may_gossip(peer):
            for kind, parts in ((PartKind.IHAVE, control.ihave), (PartKind.IWANT, control.iwant)):
                if parts:
                    self._shell.drop(peer, kind, sum(len(part.ids) for part in parts), Reason.LOW_SCORE)
            return replace(control, ihave=(), iwant=())
        parameters = self._parameters
        if not parameters.ihave_parts_count and not self.admits_ihave(peer, control.ihave):
            control = replace(control, ihave=())
        if not self._admits(peer, PartKind.IWANT, control.iwant, self._iwants, parameters.max_iwant_messages):
            control = replace(control, iwant=())
        return control

    def admits_ihave(self, peer: PeerId, parts: Sequence[IHave]) -> bool:
        """Return whether these IHAVEs are handled. If not, report them as dropped."""
        return self._admits(peer, PartKind.IHAVE, parts, self._ihaves, self._parameters.max_ihave_messages)

    def _admits(
        self, peer: PeerId, kind: PartKind, parts: Sequence[IHave | IWant], counts: dict[PeerId, int], limit: int
    ) -> bool:
        if not parts:
            return True
        before = counts.get(peer, 0)
        if rpc_is_accepted(before, limit):
            counts[peer] = before + 1
            return True
        self._shell.drop(peer, kind, sum(len(part.ids) for part in parts), Reason.OVER_LIMIT)
        return False

    def connect(self, peer: ConnectedPeer) -> None:
        if self._scorer is not None:
            self._present.add(peer.id)
            self._scorer.connect(peer.id, (peer.address,) if peer.address else ())
        if self._gater is not None:
            self._gater.connect(peer.id, peer.address)

    def disconnect(self, peer: PeerId) -> None:
        if self._scorer is not None:
            self._present.discard(peer)
            self._scorer.disconnect(peer, self._shell.now)
        if self._gater is not None:
            self._gater.disconnect(peer, self._shell.now)

    def join(self, topic: TopicId) -> None:
        """Score a joined topic by its parameters, unless the application has chosen others."""
        score = self._parameters.score
        parameters = None if score is None else score.of_topic(topic)
        if parameters is not None and topic not in self._chosen:
            self._score_topic(topic, parameters)

    def choose_topic_score(self, topic: TopicId, parameters: object) -> None:
        """Score a topic, joined or not, by parameters of the application. A later join does not change them."""
        assert isinstance(parameters, TopicScoreParameters)
        self._chosen.add(topic)
        self._score_topic(topic, parameters)

    def _score_topic(self, topic: TopicId, parameters: TopicScoreParameters) -> None:
        if self._scorer is not None:
            self._scorer.set_topic_parameters(topic, parameters.numbers())
            if self._gater is not None:
                self._gater.weigh(topic, float(parameters.gater_weight))

    def graft(self, peer: PeerId, topic: TopicId) -> None:
        if self._scorer is not None:
            self._scorer.graft(peer, topic, self._shell.now)

    def prune(self, peer: PeerId, topic: TopicId) -> None:
        """Count that a peer leaves the mesh or sends PRUNE. For a disconnected peer, `disconnect` has counted it."""
        if self._scorer is not None and peer in self._present:
            self._scorer.prune(peer, topic, self._shell.now)

    def validate(self, peer: PeerId, message: Message) -> None:
        """Count a first copy whose validation begins."""
        if self._scorer is not None:
            self._scorer.validate(message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.validate()
        self._promises.keep(message.id, peer)

    def deliver(self, peer: PeerId | None, message: Message) -> None:
        """Count an accepted message; `peer` is None for the router's own."""
        if self._scorer is not None:
            self._scorer.deliver(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.deliver(peer, message.topic)
        self._promises.keep(message.id, peer)

    def duplicate(self, peer: PeerId, message: Message) -> None:
        """Count a further copy of a message; a message of the router's own that returns is rejected.

        If ids do not depend on content, an author can write two messages with the same id. A peer that sends the
        second gets neither blame nor credit: it could not know the message that was validated here.
        """
        if message.source == self._shell.node:
            self.reject(peer, message, Reason.SELF_ORIGIN)
            return
        if self._scorer is not None and not self._is_another(message):
            self._scorer.duplicate(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.duplicate(peer)
        if self._followed.asked_peer_must_send:
            self._promises.keep(message.id, peer)

    def _is_another(self, message: Message) -> bool:
        pending = self._shell.pending.get(message.id)
        if pending is not None:
            return pending[0].data != message.data
        rejected = self._rejected.get(message.id)
        return rejected is not None and rejected != sha256(message.data).digest()

    def reject(self, peer: PeerId, message: Message, reason: Reason) -> None:
        if self._scorer is not None:
            if reason is Reason.REJECTED:
                self._rejected[message.id] = sha256(message.data).digest()
                if len(self._rejected) > MAX_REJECTED:
                    del self._rejected[next(iter(self._rejected))]
            self._scorer.reject(peer, message.topic, message.id, int(reason), self._shell.now)
        if self._gater is not None:
            self._gater.reject(peer, int(reason), self._shell.now)
        self._promises.reject(message.id, int(reason), peer)

    def penalise(self, peer: PeerId, count: float = 1.0) -> None:
        if self._scorer is not None:
            self._scorer.penalise(peer, count)

    def feedback(self, peer: PeerId, topic: TopicId, useful: bool) -> None:
        """Count parts that a peer sent as a first delivery or as an invalid message (go)."""
        if self._scorer is not None:
            (self._scorer.credit if useful else self._scorer.blame)(peer, topic)

    def penalise_slow(self, peer: PeerId, count: int) -> None:
        """Count messages that were not sent to a peer (rust, nim)."""
        if self._scorer is not None:
            self._scorer.penalise_slow(peer, float(count))

    def rate(self, peer: PeerId, rating: float) -> None:
        if self._scorer is not None:
            self._scorer.set_application_score(peer, rating)

    def ask(self, peer: PeerId, ids: list[MessageId]) -> None:
        """Track the promises of an IWANT that is sent."""
        shell = self._shell
        first = key_of(ids[0])
        self._promises.ask(
            peer,
            ids,
            shell.now,
            lambda: shell.randomness.draw(Purpose.PROMISED, shell.key, key_of(peer), first, shell.now),
        )

    @property
    def due(self) -> Micros | None:
        """Time of the next decay."""
        ends = [
            end for end, every in ((self._refresh_due, self._refresh_us), (self._gater_due, self._gater_us)) if every
        ]
        return min(ends, default=None)

    def refresh(self) -> None:
        """Decay the counters of scores and gater if a refresh is due. After a late call, missed ones are skipped."""
        now = self._shell.now
        if self._scorer is not None and now >= self._refresh_due:
            self._scorer.refresh(now)
            self._refresh_due += -(-(now + 1 - self._refresh_due) // self._refresh_us) * self._refresh_us
        if self._gater is not None and now >= self._gater_due:
            self._gater.refresh(now)
            self._gater_due += -(-(now + 1 - self._gater_due) // self._gater_us) * self._gater_us

    def begin_heartbeat(self) -> None:
        """Report and count broken promises. Until `end_heartbeat`, each score is read only once."""
        for peer, broken in self._promises.take_broken(self._shell.now):
            self._shell.drop(peer, PartKind.IHAVE, broken, Reason.GIVEN_UP)
            self.penalise(peer, float(broken))
        self._kept = {}
        self._ihaves.clear()
        self._iwants.clear()

    def end_heartbeat(self) -> None:
        self._kept = None

    def promise(self) -> StandingPromise:
        parameters, followed = self._parameters, self._followed
        return StandingPromise(
            gossip=self.thresholds.gossip,
            publish=self.thresholds.publish,
            graylist=self.thresholds.graylist,
            enters=self.thresholds.publish if parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN else 0.0,
            names_to_all=parameters.exchange_always,
            degree_low=parameters.degree_low,
            degree_out=parameters.degree_out,
            direct=self.direct,
            asking=AskingPromise(
                waited_for=self._promises.ends,
                answer_us=followed.iwant_followup_ms * 1000,
                one_of_each=followed.tracked_promises is TrackedPromises.ONE,
                of_the_asked=followed.asked_peer_must_send,
                most=followed.max_promises,
                most_of_one=followed.max_promises_per_peer,
            ),
        )

    def scores(self) -> Iterator[tuple[PeerId, ScoreParts]]:
        if self._scorer is not None:
            for peer in sorted(self._present):
                parts = self._scorer.parts(peer, self._shell.now)
                if parts is not None:
                    yield peer, parts

    def sizes(self) -> Iterable[tuple[str, int, int]]:
        """Yield the name, size and limit of each collection that peers can make grow."""
        yield from self._promises.sizes()
        if self._scorer is not None:
            yield from self._scorer.sizes()
        if self._gater is not None:
            yield from self._gater.sizes()
