"""How peers stand with a router: their scores, their promises, whether they are direct, and who is let in.

The seam between routers and `core.scores`, whose `__init__` says when what is called. Without a score all scores are
0, without a gater all are let in. Rules of its own:

* STANDING-1: Who is direct is no matter of scores: a direct peer is always let in, gets every message, and is in no
  mesh and no fan-out (v1.1, "Explicit peering agreements"; *reference only:* `direct_connect_ticks`).
* STANDING-2: A heartbeat asks for each score once and keeps to it, whatever it does to the peer (go; *reference
  only:* `score`). Its gossip goes by scores as they are then (go, rust, js).
* STANDING-3: A refresh that is due with a heartbeat comes before it (rust; *reference only:* `score`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Message, PartKind
from hearsay.core.language.state import ScoreParts
from hearsay.core.mesh.parameters import JudgingParameters, UnwelcomeGraft
from hearsay.core.rules.scores.parts import (
    exchange_is_accepted,
    gets_published,
    may_be_in_mesh,
    may_gossip,
)
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import Gater
from hearsay.core.scores.promises import PromiseParameters, Promises
from hearsay.core.scores.score_parameters import ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.guarantees import AskingPromise, StandingPromise
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.randomness import Purpose, key_of
from hearsay.core.shell.strategy import Shell

MAX_REJECTED = 10_000
"""Messages whose digests are remembered; a copy of an older one counts as the same."""


class Standing:
    __slots__ = (
        "_chosen",
        "_followed",
        "_gater",
        "_gater_due",
        "_gater_us",
        "_kept",
        "_present",
        "_promises",
        "_refresh_due",
        "_refresh_us",
        "_rejected",
        "_score_set",
        "_scorer",
        "_shell",
        "_thresholds",
        "direct",
    )

    def __init__(self, parameters: JudgingParameters, shell: Shell) -> None:
        self._shell = shell
        self._score_set = parameters.score
        self._scorer = None if parameters.score is None else Scorer(parameters.score.peer, {})
        self._thresholds = _thresholds(parameters.score)
        self._followed = PromiseParameters(
            tracked_promises=parameters.tracked_promises,
            iwant_followup_ms=parameters.iwant_followup_ms,
            asked_peer_must_send=parameters.asked_peer_must_send,
        )
        self._promises = Promises(self._followed)
        self._gater = None if parameters.gater is None else Gater(parameters.gater)
        self._gater_us: Micros = 0 if parameters.gater is None else parameters.gater.decay_interval_ms * 1000
        self._gater_due: Micros = shell.now + self._gater_us
        self._refresh_us: Micros = 0 if parameters.score is None else parameters.score.peer.decay_interval_us
        self._refresh_due: Micros = shell.now + self._refresh_us
        self._present: set[PeerId] = set()
        self._rejected: dict[MessageId, bytes] = {}
        """Digests of rejected messages, the oldest first."""
        self._chosen: set[TopicId] = set()
        """Topics whose parameters the application chose at run time."""
        self._kept: dict[PeerId, float] | None = None
        """Scores of this heartbeat, while it runs."""
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
        return may_be_in_mesh(self.score(peer))

    def may_gossip(self, peer: PeerId) -> bool:
        score = 0.0 if self._scorer is None else self._scorer.score(peer, self._shell.now)
        return may_gossip(score, self._thresholds.gossip)

    def gets_published(self, peer: PeerId) -> bool:
        return peer in self.direct or gets_published(self.score(peer), self._thresholds.publish)

    def is_graylisted(self, peer: PeerId) -> bool:
        if self._scorer is None or peer in self.direct:
            return False
        return self._scorer.is_graylisted(peer, self._thresholds.graylist, self._shell.now)

    def is_believed(self, peer: PeerId) -> bool:
        """Whether those whom it names are dialled."""
        return exchange_is_accepted(self.score(peer), self._thresholds.accept_exchange)

    @property
    def opportunistic_graft(self) -> float:
        return self._thresholds.opportunistic_graft

    def lets_in(self, peer: PeerId) -> bool:
        """Whether the peer's messages are looked at; who is kept out cannot keep promises."""
        if self._gater is None or peer in self.direct:
            return True
        shell = self._shell
        let_in = self._gater.lets_in(
            peer, shell.now, lambda: shell.randomness.draw(Purpose.GATED, shell.key, key_of(peer), shell.now)
        )
        if not let_in:
            self._promises.void(peer)
        return let_in

    def connect(self, peer: ConnectedPeer) -> None:
        self._present.add(peer.id)
        if self._scorer is not None:
            self._scorer.connect(peer.id, (peer.address,) if peer.address else ())
        if self._gater is not None:
            self._gater.connect(peer.id, peer.address)

    def disconnect(self, peer: PeerId) -> None:
        self._present.discard(peer)
        if self._scorer is not None:
            self._scorer.disconnect(peer, self._shell.now)
        if self._gater is not None:
            self._gater.disconnect(peer, self._shell.now)

    def join(self, topic: TopicId) -> None:
        """Topics are scored from when they are joined."""
        parameters = None if self._score_set is None else self._score_set.of_topic(topic)
        if parameters is not None and topic not in self._chosen:
            self._score_topic(topic, parameters)

    def choose_topic_score(self, topic: TopicId, parameters: TopicScoreParameters) -> None:
        """The application chooses how a topic is scored, joined or not; a later join keeps this."""
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
        """The peer leaves the mesh or says PRUNE; one that has gone was judged when it went."""
        if self._scorer is not None and peer in self._present:
            self._scorer.prune(peer, topic, self._shell.now)

    def validate(self, peer: PeerId, message: Message) -> None:
        """A first copy is looked at."""
        if self._scorer is not None:
            self._scorer.validate(message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.validate()
        self._promises.keep(message.id, peer)

    def deliver(self, peer: PeerId | None, message: Message) -> None:
        if self._scorer is not None:
            self._scorer.deliver(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.deliver(peer, message.topic)
        self._promises.keep(message.id, peer)

    def duplicate(self, peer: PeerId, message: Message, first: Message | None) -> None:
        """A copy came; `first` is the one that the application looks at, if it does.

        Where ids do not depend on content, an author can write two messages with one id. A peer that brings the other
        one gets neither blame nor credit: it could not know the one that was judged here.
        """
        if self._scorer is not None and not self._is_another(message, first):
            self._scorer.duplicate(peer, message.topic, message.id, self._shell.now)
        if self._gater is not None:
            self._gater.duplicate(peer)
        if self._followed.asked_peer_must_send:
            self._promises.keep(message.id, peer)

    def _is_another(self, message: Message, first: Message | None) -> bool:
        if first is not None:
            return first.data != message.data
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
        """What the application says of parts that a peer sent: a first delivery, or an invalid message (go)."""
        if self._scorer is None:
            return
        if useful:
            self._scorer.credit(peer, topic)
        else:
            self._scorer.blame(peer, topic)

    def penalise_slow(self, peer: PeerId, count: int) -> None:
        """So many messages did not leave for the peer (rust, nim)."""
        if self._scorer is not None:
            self._scorer.penalise_slow(peer, float(count))

    def rate(self, peer: PeerId, rating: float) -> None:
        if self._scorer is not None:
            self._scorer.set_application_score(peer, rating)

    def ask(self, peer: PeerId, ids: list[MessageId]) -> None:
        """An IWANT leaves."""
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
        """When something decays next."""
        ends = [
            end for end, every in ((self._refresh_due, self._refresh_us), (self._gater_due, self._gater_us)) if every
        ]
        return min(ends, default=None)

    def refresh(self) -> None:
        """Let decay what is due; late calls skip times rather than make up for them."""
        now = self._shell.now
        if self._scorer is not None and now >= self._refresh_due:
            self._scorer.refresh(now)
            self._refresh_due += -(-(now + 1 - self._refresh_due) // self._refresh_us) * self._refresh_us
        if self._gater is not None and now >= self._gater_due:
            self._gater.refresh(now)
            self._gater_due += -(-(now + 1 - self._gater_due) // self._gater_us) * self._gater_us

    def begin_heartbeat(self) -> None:
        """Broken promises are told and count; from now on scores stay as they are."""
        for peer, broken in self._promises.take_broken(self._shell.now):
            self._shell.drop(peer, PartKind.IHAVE, broken, Reason.GIVEN_UP)
            self.penalise(peer, float(broken))
        self._kept = {}

    def end_heartbeat(self) -> None:
        self._kept = None

    def promise(self, parameters: JudgingParameters) -> StandingPromise:
        return StandingPromise(
            gossip=self._thresholds.gossip,
            publish=self._thresholds.publish,
            graylist=self._thresholds.graylist,
            enters=self._thresholds.publish if parameters.unwelcome_graft is UnwelcomeGraft.TAKEN_IN else 0.0,
            names_to_all=parameters.exchange_always,
            degree_low=parameters.degree_low,
            degree_out=parameters.degree_out,
            direct=self.direct,
            asking=AskingPromise(
                waited_for=self._promises.ends,
                answer_us=self._followed.iwant_followup_ms * 1000,
                one_of_each=self._followed.tracked_promises is TrackedPromises.ONE,
                of_the_asked=self._followed.asked_peer_must_send,
                most=self._followed.max_promises,
                most_of_one=self._followed.max_promises_per_peer,
            ),
        )

    def parts(self) -> Iterator[tuple[PeerId, ScoreParts]]:
        if self._scorer is not None:
            for peer in sorted(self._present):
                parts = self._scorer.parts(peer, self._shell.now)
                if parts is not None:
                    yield peer, parts

    def sizes(self) -> Iterable[tuple[str, int, int]]:
        """What peers can make grow: its name, how much there is, how much there may be."""
        yield from self._promises.sizes()
        if self._scorer is not None:
            yield from self._scorer.sizes()
        if self._gater is not None:
            yield from self._gater.sizes()


def _thresholds(score: ScoreSet | None) -> ScoreThresholds:
    return ScoreThresholds() if score is None else score.thresholds
