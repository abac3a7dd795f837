"""The standing of peers: scores, promises of IWANT, direct peers and the gater (`PeerScoring`).

The class `Standing` connects a router with `core.scores`; the docstring of that package lists the calls. Without
parameters of 1.1 the standing is neutral: all scores are 0, the router handles all RPCs, and no promise is tracked. A
refresh is the regular decay of the counters of scores and gater. Rules:

* STANDING-1: The thresholds `gossip`, `publish` and `graylist` do not apply to direct peers: the router handles all
  RPCs of a direct peer and sends it every message. A direct peer is in no mesh and no fan-out, and gets no IHAVE
  (v1.1, "Explicit peering agreements").
* STANDING-2: A heartbeat reads each score once and uses this value, even after a PRUNE has changed the score (go).
  The gossip of the heartbeat uses the current scores (go, rust, js).
* STANDING-3: If a refresh and a heartbeat are due at the same time, the refresh comes first (rust).
* JUDGE-1: An RPC of a graylisted peer (a peer with a score below `graylist`) is ignored, except its subscriptions
  (go, rust; js also ignores these). Messages that the gater does not accept are ignored.
* JUDGE-2: IHAVE and IWANT of a peer with a score below `gossip` are ignored, and the peer gets no IHAVE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Control, IHave, IWant, Message, PartKind, Rpc
from hearsay.core.mesh.parameters import GossipsubParameters, UnwelcomeGraft
from hearsay.core.rules.message_rules import rpc_is_accepted
from hearsay.core.rules.randomness import Purpose, key_of
from hearsay.core.rules.score_parts import (
    exchange_is_accepted,
    gets_published,
    is_graylisted,
    may_be_in_mesh,
    may_gossip,
)
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import Gater
from hearsay.core.scores.promises import MAX_PROMISES, MAX_PROMISES_OF_PEER, IwantPromises, StrictIwantPromises
from hearsay.core.scores.score_parameters import ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.guarantees import AskingPromise, ScoreParts, StandingPromise
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.received_parts import drop_messages_and_control
from hearsay.core.shell.seen import NEVER
from hearsay.core.shell.strategy import Shell

MAX_REJECTED = 10_000
"""Maximum number of rejected messages whose digests are remembered. If a digest is forgotten, a later message with
the same id counts as a copy of the rejected message, even if its data differ."""
_NO_THRESHOLDS = ScoreThresholds()


class Standing:
    """The scores that a router gives its peers, and the decisions that depend on scores."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell) -> None:
        self._shell = shell
        self._parameters = parameters
        score, gater = parameters.score, parameters.gater
        self._scorer = None if score is None else Scorer(score.peer, {})
        self.keeps_scores = score is not None
        self.thresholds = _NO_THRESHOLDS if score is None else score.thresholds
        tracked = parameters.tracked_promises if parameters.uses_11 else TrackedPromises.NONE
        kind = StrictIwantPromises if parameters.asked_peer_must_send else IwantPromises
        self._promises = kind(tracked, parameters.iwant_followup_ms * 1000)
        self._gater = None if gater is None else Gater(gater)
        self._gater_us: Micros = NEVER if gater is None else gater.decay_interval_ms * 1000
        self._gater_due: Micros = shell.now + self._gater_us
        self._refresh_us: Micros = NEVER if score is None else score.peer.decay_interval_us or NEVER
        self._refresh_due: Micros = shell.now + self._refresh_us
        self._connected: set[PeerId] = set()
        self._rejected: dict[MessageId, bytes] = {}
        """By id, the digests of the data of rejected messages, the oldest first."""
        self._chosen: set[TopicId] = set()
        """Topics with score parameters that the application chose at run time (`TopicScored`)."""
        self._scores_read: dict[PeerId, float] | None = None
        """The scores that the present heartbeat has read; None outside of a heartbeat."""
        self._ihaves: dict[PeerId, int] = {}
        """By peer, the number of RPCs with IHAVE (with `ihave_parts_count`, of IHAVEs) that were handled since the
        last heartbeat. A disconnection does not reset the number."""
        self._iwants: dict[PeerId, int] = {}
        """By peer, the number of RPCs with IWANT that were handled since the last heartbeat. A disconnection does not
        reset the number."""
        self.direct: set[PeerId] = set()

    @property
    def _is_neutral(self) -> bool:
        """True if all peers are treated alike, because there are no scores and no direct peers."""
        return self._scorer is None and not self.direct

    def score(self, peer: PeerId) -> float:
        if self._scorer is None:
            return 0.0
        if self._scores_read is None:
            return self._scorer.score(peer, self._shell.now)
        score = self._scores_read.get(peer)
        if score is None:
            score = self._scores_read[peer] = self._scorer.score(peer, self._shell.now)
        return score

    def may_be_in_mesh(self, peer: PeerId) -> bool:
        return peer not in self.direct and may_be_in_mesh(self.score(peer))

    def is_welcome(self, peer: PeerId) -> bool:
        """Return whether a peer's score is not negative."""
        return may_be_in_mesh(self.score(peer))

    def may_gossip(self, peer: PeerId) -> bool:
        """Return whether a peer's score is not below the threshold `gossip`; read the current score even in a
        heartbeat."""
        score = 0.0 if self._scorer is None else self._scorer.score(peer, self._shell.now)
        return may_gossip(score, self.thresholds.gossip)

    def gets_published(self, peer: PeerId) -> bool:
        """Return whether a peer may get the router's own messages: it is direct, or its score is not below
        `publish`."""
        return peer in self.direct or gets_published(self.score(peer), self.thresholds.publish)

    def accepts_from(self, peer: PeerId) -> bool:
        return peer in self.direct or not is_graylisted(self.score(peer), self.thresholds.graylist)

    def trusts_exchange_of(self, peer: PeerId) -> bool:
        return exchange_is_accepted(self.score(peer), self.thresholds.accept_exchange)

    def may_get_gossip(self, peer: PeerId) -> bool:
        """Return whether a peer may get IHAVE; never a direct peer."""
        return peer not in self.direct and self.may_gossip(peer)

    def may_get_own_messages(self, peer: PeerId) -> bool:
        """Return whether a peer may get the router's own messages because of its score; never a direct peer, since it
        gets every message in another way."""
        return peer not in self.direct and self.gets_published(peer)

    def among(self, peers: Sequence[PeerId], fits: Callable[[PeerId], bool]) -> Sequence[PeerId]:
        """Return those of the peers that meet a condition, which is a method of this object such as `is_welcome`."""
        return peers if self._is_neutral else [peer for peer in peers if fits(peer)]

    def admit(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """Return an RPC without the parts that the router ignores (JUDGE-1); report these parts as dropped."""
        if not self.accepts_from(sender.id):
            drop_messages_and_control(self._shell, sender.id, rpc, Reason.GRAYLISTED)
            if self._parameters.graylisted_subscriptions:
                return Rpc(rpc.subscriptions)
            if rpc.subscriptions:
                self._shell.drop(sender.id, PartKind.SUBSCRIBE, len(rpc.subscriptions), Reason.GRAYLISTED)
            return Rpc()
        if rpc.messages and not self.lets_in(sender.id):
            self._shell.drop(sender.id, PartKind.PUBLISH, len(rpc.messages), Reason.GATED)
            rpc = replace(rpc, messages=())
        return rpc

    def lets_in(self, peer: PeerId) -> bool:
        """Return whether the gater accepts messages of a peer now; always for a direct peer. If not, drop the
        promises of the peer (PROMISE-4)."""
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
        """Return control without the IHAVE and IWANT that the router ignores (JUDGE-2, GOSSIP-14); report the ignored
        parts as dropped. A direct peer is exempt."""
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
        """Return whether the router handles these IHAVEs (GOSSIP-14), and count them. If not, report them as
        dropped."""
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
            self._connected.add(peer.id)
            self._scorer.connect(peer.id, (peer.address,) if peer.address else ())
        if self._gater is not None:
            self._gater.connect(peer.id, peer.address)

    def disconnect(self, peer: PeerId) -> None:
        if self._scorer is not None:
            self._connected.discard(peer)
            self._scorer.disconnect(peer, self._shell.now)
        if self._gater is not None:
            self._gater.disconnect(peer, self._shell.now)

    def join(self, topic: TopicId) -> None:
        """Score a topic that is joined now by its parameters in the score set, unless the application chose other
        parameters."""
        score = self._parameters.score
        parameters = None if score is None else score.of_topic(topic)
        if parameters is not None and topic not in self._chosen:
            self._score_topic(topic, parameters)

    def choose_topic_score(self, topic: TopicId, parameters: object) -> None:
        """Score a topic, joined or not, by parameters that the application chose. A later join does not change
        them."""
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
        """Note in a peer's score that the peer leaves the mesh or sends PRUNE. Do nothing for a peer that has
        disconnected: `disconnect` has noted that already."""
        if self._scorer is not None and peer in self._connected:
            self._scorer.prune(peer, topic, self._shell.now)

    def validate(self, peer: PeerId, message: Message) -> None:
        """Note a first copy that is going to be validated or accepted; `peer` sent it."""
        if self._scorer is not None:
            self._scorer.validate(message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.validate()
        self._promises.keep(message.id, peer)

    def deliver(self, peer: PeerId | None, message: Message) -> None:
        """Note an accepted message; `peer` sent the first copy, None for a message of the router itself."""
        if self._scorer is not None:
            self._scorer.deliver(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.deliver(peer, message.topic)
        self._promises.keep(message.id, peer)

    def duplicate(self, peer: PeerId, message: Message) -> None:
        """Note a later copy of a message. A copy of the router's own message is rejected.

        If ids do not depend on content, an author can publish two messages with the same id. While the first message
        is being validated, or after it was rejected, a peer that sends the second message gets neither blame nor
        credit in its score: the peer does not know the message that was validated here. After the first message was
        accepted, the second one counts as a copy of it.
        """
        if message.source == self._shell.node:
            self.reject(peer, message, Reason.SELF_ORIGIN)
            return
        if self._scorer is not None and not self._is_another(message):
            self._scorer.duplicate(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.duplicate(peer)
        self._promises.duplicate(message.id, peer)

    def _is_another(self, message: Message) -> bool:
        """Return whether another message with the same id, but other data, is being validated or was rejected."""
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
        """Count useful parts of a peer as a first delivery, and invalid parts as an invalid message (go)."""
        if self._scorer is not None:
            (self._scorer.credit if useful else self._scorer.blame)(peer, topic)

    def penalise_slow(self, peer: PeerId, count: int) -> None:
        """Count messages that could not be sent to a peer (rust, nim)."""
        if self._scorer is not None:
            self._scorer.penalise_slow(peer, float(count))

    def rate(self, peer: PeerId, rating: float) -> None:
        if self._scorer is not None:
            self._scorer.set_application_score(peer, rating)

    def ask(self, peer: PeerId, ids: list[MessageId]) -> None:
        """Track the promises of a peer that gets an IWANT with these ids, at least one."""
        shell = self._shell
        first = key_of(ids[0])
        self._promises.ask(
            peer,
            ids,
            shell.now,
            lambda: shell.randomness.draw(Purpose.PROMISED, shell.key, key_of(peer), first, shell.now),
        )

    @property
    def due(self) -> Micros:
        """The time of the next refresh, of scores or of the gater."""
        return min(self._refresh_due, self._gater_due)

    def refresh(self) -> None:
        """Decay the counters of scores and those of the gater, if their refresh is due. A late refresh replaces all
        missed ones."""
        now = self._shell.now
        if self._scorer is not None and now >= self._refresh_due:
            self._scorer.refresh(now)
            self._refresh_due += ((now - self._refresh_due) // self._refresh_us + 1) * self._refresh_us
        if self._gater is not None and now >= self._gater_due:
            self._gater.refresh(now)
            self._gater_due += ((now - self._gater_due) // self._gater_us + 1) * self._gater_us

    def begin_heartbeat(self) -> None:
        """Report and penalise broken promises, and reset the counts of IHAVE and IWANT. From now until
        `end_heartbeat`, each score is read only once (STANDING-2)."""
        for peer, broken in self._promises.take_broken(self._shell.now):
            self._shell.drop(peer, PartKind.IHAVE, broken, Reason.GIVEN_UP)
            self.penalise(peer, float(broken))
        self._scores_read = {}
        self._ihaves.clear()
        self._iwants.clear()

    def end_heartbeat(self) -> None:
        self._scores_read = None

    def promise(self) -> StandingPromise:
        parameters = self._parameters
        return StandingPromise(
            gossip=self.thresholds.gossip,
            publish=self.thresholds.publish,
            graylist=self.thresholds.graylist,
            accept_graft=self.thresholds.publish if parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN else 0.0,
            names_peers_to_all=parameters.exchange_always,
            degree_low=parameters.degree_low,
            degree_out=parameters.degree_out,
            direct=self.direct,
            asking=AskingPromise(
                waited_for=self._promises.ends,
                answer_us=parameters.iwant_followup_ms * 1000,
                one_wait_per_iwant=parameters.tracked_promises is TrackedPromises.ONE,
                only_asked_peer_ends_wait=parameters.asked_peer_must_send,
                max_waits=MAX_PROMISES,
                max_waits_for_peer=MAX_PROMISES_OF_PEER,
            ),
        )

    def scores(self) -> Iterator[tuple[PeerId, ScoreParts]]:
        if self._scorer is not None:
            for peer in sorted(self._connected):
                parts = self._scorer.parts(peer, self._shell.now)
                if parts is not None:
                    yield peer, parts
