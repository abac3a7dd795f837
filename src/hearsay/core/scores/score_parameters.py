"""Parameters of scores: those of the peer, those of a topic, the thresholds, and all of them as a score set.

A scenario file has them in the tables `[router.score]`, `[[router.score.topics]]` and `[router.score.thresholds]`. A
score set is one object, which is read from these tables. Rules (go, or the implementations that a rule names):

* PARAMETERS-5: A quantum and a decay of invalid messages must be given. Without a quantum, time in the mesh could not
  be counted; without the decay, the next refresh would forget an invalid message.
* PARAMETERS-6: Mesh deliveries are expected after a second at the earliest, and need a cap, a threshold and a decay.
  A cap below the threshold is refused (nim, jvm): no peer could ever reach the threshold.
* PARAMETERS-7: A penalty on shared addresses needs a threshold of at least 1, because each peer is itself one of the
  peers at its address.
* PARAMETERS-8: There is at most one refresh per second, and `decay_to_zero` lies between 0 and 1.
* PARAMETERS-9: graylist <= publish <= gossip <= 0, so that a lower score never allows more. `accept_exchange` and
  `opportunistic_graft` are 0 or above.
* SET-1: A table with parameters of topics has a name, the role of these topics. A role matches a topic in three ways.
  First, the role is the whole name of the topic. Second, it is a part of the topic's name between slashes, as
  `beacon_block` in `/eth2/6a95a1a9/beacon_block/ssz_snappy`. Third, the topic's name, or such a part of it, is the
  role with a number after `-` or `_`, as `beacon_attestation_17` for `beacon_attestation`. If several tables match a
  topic, a match in an earlier way wins; among matches in the same way, the earliest table wins. The table `any` is
  for all topics that no other table matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_network
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.scores.declarations import (
    MIN_INTERVAL_MS,
    Group,
    GroupedParameters,
    InvalidCopies,
    Ipv6Counting,
    MeshTimes,
    QuantumRounding,
    RetainedScores,
    Validation,
    amount,
    fraction,
    group,
    penalty,
    with_decays,
)
from hearsay.core.shell.parameters import ParameterError, Parameters, Violation, choice, integer, milliseconds, texts

P = TypeVar("P", bound=Parameters)
ANY_TOPIC = "any"
"""The role of topics that no other table matches."""
_NUMBERED = re.compile(r"(.+)[-_][0-9]+")


class TopicNumbers(NamedTuple):
    """The parameters of a topic in the form for computations: floats, and times in microseconds."""

    weight: float = 0.0
    time_in_mesh_weight: float = 0.0
    quantum: Micros = 0
    time_in_mesh_cap: float = 0.0
    first_weight: float = 0.0
    first_decay: float = 0.0
    first_cap: float = 0.0
    mesh_weight: float = 0.0
    mesh_decay: float = 0.0
    mesh_cap: float = 0.0
    mesh_threshold: float = 0.0
    window: Micros = 0
    activation: Micros = 0
    failure_weight: float = 0.0
    failure_decay: float = 0.0
    invalid_weight: float = 0.0
    invalid_decay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerScoreParameters(GroupedParameters):
    """Parameters of the score that belong to the peer, not to a topic: weights, decays, limits, and differences
    between implementations. A weight of 0 turns a part off."""

    owner: ClassVar[str] = "the score"
    groups: ClassVar[tuple[Group, ...]] = (
        group("shared_address_weight", shared_address_threshold=1),
        group("misbehaviour_weight", "misbehaviour_threshold", misbehaviour_decay=0),
        group("slow_peer_weight", "slow_peer_threshold", slow_peer_decay=0),
        group(always={"decay_interval_ms": MIN_INTERVAL_MS, "decay_to_zero": 0}),
    )

    topic_cap: float = amount()
    """Cap of the sum of all topics; 0 is none."""
    application_weight: float = amount()
    """P5: weight of the application's score."""
    shared_address_weight: float = penalty()
    """P6: weight of the square of the number of peers beyond the threshold."""
    shared_address_threshold: int = integer(0, low=0)
    """P6: peers at an address without penalty."""
    shared_address_allowed: tuple[str, ...] = texts()
    """P6: networks whose addresses are not counted, as `10.0.0.0/8`."""
    ipv6_addresses: Ipv6Counting = choice(Ipv6Counting.WHOLE_AND_PREFIX)
    """P6: forms in which an IPv6 address is counted."""
    misbehaviour_weight: float = penalty()
    """P7: weight of the square of the misbehaviour beyond the threshold."""
    misbehaviour_threshold: float = amount()
    """P7: misbehaviour without a penalty."""
    misbehaviour_decay: float = fraction()
    """P7: factor of the count at a refresh."""
    slow_peer_weight: float = penalty()
    """Weight of each message beyond the threshold that could not be sent to a slow peer."""
    slow_peer_threshold: float = amount()
    """Number of messages that may remain unsent without a penalty."""
    slow_peer_decay: float = fraction()
    """Factor of the count of such messages at a refresh."""
    decay_interval_ms: int = milliseconds(0)
    """Time between two refreshes."""
    decay_to_zero: float = fraction()
    """Value below which a counter becomes 0."""
    retain_ms: int = milliseconds(0)
    """Time that the score of a disconnected peer is kept."""

    time_in_mesh_quanta: QuantumRounding = choice(QuantumRounding.WHOLE)
    """P1: whole quanta, or also fractions."""
    mesh_times: MeshTimes = choice(MeshTimes.LAST_REFRESH)
    """P1 and P3: end of the counted time in the mesh."""
    deficit_after_prune: bool = False
    """P3 still applies after a peer has left the mesh (go)."""
    second_prune_counts: bool = False
    """P3b grows again at a PRUNE of a former member (go)."""
    invalid_copies: InvalidCopies = choice(InvalidCopies.ALL)
    """P4: peers that are blamed for copies."""
    retained_scores: RetainedScores = choice(RetainedScores.NOT_POSITIVE)
    """Disconnected peers whose scores are kept."""
    decay_while_away: bool = False
    """Counters of disconnected peers decay (jvm)."""

    delivery_ttl_ms: int = milliseconds(120_000)
    """Time that the senders of a message are remembered."""
    max_deliveries: int = integer(100_000, low=1)
    """Limit on messages whose senders are remembered."""
    max_senders_per_delivery: int = integer(1_000, low=1)
    """Limit on remembered senders of a message."""
    max_retained_peers: int = integer(10_000, low=1)
    """Limit on disconnected peers whose scores are kept."""
    max_addresses_per_peer: int = integer(16, low=1)
    """Limit on the counted addresses of a peer."""

    def cross_rules(self) -> Iterator[Violation]:
        for text in self.shared_address_allowed:
            try:
                ip_network(text, strict=False)
            except ValueError:
                yield Violation("shared_address_allowed", text, "must be a network, such as 10.0.0.0/8")

    @property
    def decay_interval_us(self) -> Micros:
        return self.decay_interval_ms * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScoreParameters(GroupedParameters):
    """Weights, decays and caps of one topic. A weight of 0 turns a part off."""

    owner: ClassVar[str] = "a topic's score"
    groups: ClassVar[tuple[Group, ...]] = (
        group("time_in_mesh_weight", always={"time_in_mesh_quantum_ms": 0}, time_in_mesh_cap=0),
        group("first_deliveries_weight", first_deliveries_decay=0, first_deliveries_cap=0),
        group(
            "mesh_deliveries_weight",
            "mesh_deliveries_window_ms",
            mesh_deliveries_decay=0,
            mesh_deliveries_cap=0,
            mesh_deliveries_threshold=0,
            mesh_deliveries_activation_ms=MIN_INTERVAL_MS,
        ),
        group("mesh_failure_weight", mesh_failure_decay=0),
        group("invalid_messages_weight", always={"invalid_messages_decay": 0}),
    )

    topic_weight: float = amount()
    """Weight of the topic in the score."""
    time_in_mesh_weight: float = amount()
    """P1: weight of each quantum in the mesh."""
    time_in_mesh_quantum_ms: int = milliseconds(0)
    """P1: unit of time in the mesh."""
    time_in_mesh_cap: float = amount()
    """P1: cap of the quanta."""
    first_deliveries_weight: float = amount()
    """P2: weight of each valid message that the peer was the first to send."""
    first_deliveries_decay: float = fraction()
    """P2: factor of the count at a refresh."""
    first_deliveries_cap: float = amount()
    """P2: cap of the count."""
    mesh_deliveries_weight: float = penalty()
    """P3: weight of the square of a member's missing deliveries."""
    mesh_deliveries_decay: float = fraction()
    """P3: factor of the count at a refresh."""
    mesh_deliveries_cap: float = amount()
    """P3: cap of the count."""
    mesh_deliveries_threshold: float = amount()
    """P3: number of expected deliveries."""
    mesh_deliveries_window_ms: int = milliseconds(0)
    """P3: time after the verdict in which a copy is a delivery."""
    mesh_deliveries_activation_ms: int = milliseconds(0)
    """P3: time in the mesh before deliveries are expected."""
    mesh_failure_weight: float = penalty()
    """P3b: weight of the sum of P3 at each departure from the mesh."""
    mesh_failure_decay: float = fraction()
    """P3b: factor of the count at a refresh."""
    invalid_messages_weight: float = penalty()
    """P4: weight of the square of the number of invalid messages."""
    invalid_messages_decay: float = fraction()
    """P4: factor of the count at a refresh."""
    gater_weight: float = amount(1.0)
    """Weight of a delivered message of the topic at the gater."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.mesh_deliveries_cap < self.mesh_deliveries_threshold:
            limit = f"must not be below mesh_deliveries_threshold ({self.mesh_deliveries_threshold})"
            yield Violation("mesh_deliveries_cap", self.mesh_deliveries_cap, limit)

    def numbers(self) -> TopicNumbers:
        """Return the parameters in the form for computations."""
        names = self.names()[1 : 1 + len(TopicNumbers._fields)]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        converted: list[Any] = [
            value * 1000 if name.endswith("_ms") else float(value) for name, value in given.items()
        ]
        return TopicNumbers(*converted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreThresholds(Parameters):
    """Scores at which the treatment of a peer changes (THRESHOLD-2 to THRESHOLD-6)."""

    owner: ClassVar[str] = "the thresholds"

    gossip: float = penalty()
    """Score below which a peer gets no IHAVE, and its IHAVE and IWANT are ignored."""
    publish: float = penalty()
    """Score below which a peer outside of the mesh gets none of the node's own messages."""
    graylist: float = penalty()
    """Score below which a peer's RPCs are ignored, except subscriptions."""
    accept_exchange: float = amount()
    """Lowest score of a PRUNE's sender with which the peers that the PRUNE names are dialled."""
    opportunistic_graft: float = amount()
    """Median score below which a mesh grafts peers with better scores."""

    def _rules_between(self, faulty: set[str]) -> Iterator[Violation]:
        for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
            value, limit = getattr(self, lower), getattr(self, upper)
            if faulty.isdisjoint((lower, upper)) and value > limit:
                yield Violation(lower, value, f"must not be above {upper} ({limit})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSet:
    """Parameters of the peer, thresholds, and parameters of topics by role (SET-1)."""

    peer: PeerScoreParameters = field(default_factory=lambda: PeerScoreParameters(validation=Validation.SELECTIVE))
    thresholds: ScoreThresholds = field(default_factory=ScoreThresholds)
    topics: Mapping[str, TopicScoreParameters] = field(default_factory=dict[str, TopicScoreParameters])

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Return the score set in the table `[router.score]`, which contains the tables `thresholds` and `topics`.

        Raises `ParameterError` with all mistakes.
        """
        own = {key: value for key, value in values.items() if key not in ("thresholds", "topics")}
        wrong: list[Violation] = []
        interval, zero = _interval_and_zero(own)
        peer = _read(PeerScoreParameters, own, "", interval, zero, wrong)
        thresholds = _read(ScoreThresholds, table_in(values, "thresholds", wrong), "thresholds.", 0, 0, wrong)
        topics: dict[str, TopicScoreParameters | None] = {}
        for place, name, table in topic_tables(values.get("topics", []), wrong):
            if name in topics:
                wrong.append(Violation(f"{place}.topic", name, "has a table already; give each topic one"))
            topics[name] = _read(TopicScoreParameters, table, f"{place}.", interval, zero, wrong)
        if peer is None or thresholds is None or wrong:
            raise ParameterError(tuple(wrong))
        found = {name: parameters for name, parameters in topics.items() if parameters is not None}
        return cls(peer=peer, thresholds=thresholds, topics=found)

    def to_mapping(self) -> dict[str, Any]:
        """Return tables that `from_mapping` reads, with all decays as numbers (PARAMETERS-4)."""
        topics = [{"topic": name, **parameters.to_mapping()} for name, parameters in self.topics.items()]
        return {**self.peer.to_mapping(), "thresholds": self.thresholds.to_mapping(), "topics": topics}

    def of_topic(self, topic: TopicId) -> TopicScoreParameters | None:
        """Return the parameters of a topic; None if no table matches the topic (SET-1)."""
        role = role_of(str(topic), self.topics)
        return None if role is None else self.topics[role]


def role_of(topic: str, roles: Mapping[str, object]) -> str | None:
    """Return the role of a topic (SET-1), one of `roles`; None if there is none."""
    parts = topic.split("/")
    numbered = [found[1] for part in (topic, *parts) if (found := _NUMBERED.fullmatch(part))]
    for names in ([topic], parts, numbered):
        for role in roles:
            if role in names and (role != ANY_TOPIC or names == [topic]):
                return role
    return ANY_TOPIC if ANY_TOPIC in roles else None


def _interval_and_zero(own: Mapping[str, object]) -> tuple[int, float]:
    """Return `decay_interval_ms` and `decay_to_zero`, each 0 if missing; 0 for both if one has the wrong type."""
    interval, zero = own.get("decay_interval_ms", 0), own.get("decay_to_zero", 0.0)
    zero = float(zero) if isinstance(zero, Decimal) else zero
    right = type(interval) is int and type(zero) in (int, float)
    return cast("tuple[int, float]", (interval, zero)) if right else (0, 0.0)


def table_in(values: Mapping[str, object], name: str, wrong: list[Violation]) -> Mapping[str, object]:
    """Return the table `name` of `values`, empty if missing. If the value is no table, return an empty table and add
    a violation to `wrong`."""
    found = values.get(name, {})
    if isinstance(found, Mapping):
        return cast("Mapping[str, object]", found)
    wrong.append(Violation(name, found, "must be a table"))
    return {}


def topic_tables(given: object, wrong: list[Violation]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yield, for each table of a topic, its place in the file, the name under its key `topic`, and its other keys.
    Add violations to `wrong`."""
    tables: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [given]
    for number, table in enumerate(tables):
        place = f"topics.{number}"
        if not isinstance(table, Mapping):
            wrong.append(Violation(place, table, "must be a table"))
            continue
        rest = dict(cast("Mapping[str, object]", table))
        name = rest.pop("topic", None)
        if isinstance(name, str) and name:
            yield place, name, rest
        else:
            wrong.append(Violation(f"{place}.topic", name, "must be the name of a topic"))


def _read(
    kind: type[P], values: Mapping[str, object], prefix: str, interval: int, zero: float, wrong: list[Violation]
) -> P | None:
    """Return the parameters in a table, and add violations to `wrong`. Return None if the parameters are invalid even
    without the decays that could not be converted.

    `prefix` precedes the names of fields in violations. `with_decays` needs `interval` and `zero` to convert decays.
    """
    resolved, violations = with_decays(values, kind.names(), interval, zero)
    wrong += [Violation(prefix + each.field, each.value, each.rule) for each in violations]
    reported = {violation.field for violation in violations}
    try:
        return kind.from_mapping(resolved)
    except ParameterError as error:
        others = [each for each in error.violations if f"{each.field}_ms" not in reported]
        wrong += [Violation(prefix + each.field, each.value, each.rule) for each in others]
        return None
