"""All parameters of scores as one object, which is read from tables and passed to a scorer.

* SET-1: The name of a table matches topics in three ways. It is the whole name of the topic. Or it is a part of the
  topic's name between slashes, as `beacon_block` in `/eth2/6a95a1a9/beacon_block/ssz_snappy`. Or the topic, or such a
  part, is this name with a number after `-` or `_`, as `beacon_attestation_17` for `beacon_attestation`. If several
  tables match, the earliest of these ways decides, then the order of the tables. The table `any` is for all other
  topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self, TypeVar, cast

from hearsay.core.language.identifiers import TopicId
from hearsay.core.scores.declarations import Validation, with_decays
from hearsay.core.scores.score_parameters import PeerScoreParameters, ScoreThresholds, TopicScoreParameters
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.parameters import ParameterError, Parameters, Violation

P = TypeVar("P", bound=Parameters)
ANY_TOPIC = "any"
"""The name of the table for all topics without a table of their own."""
_NUMBERED = re.compile(r"(.+)[-_][0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSet:
    """Parameters of the peer, thresholds, and parameters by the name of a topic's table (SET-1)."""

    peer: PeerScoreParameters = field(default_factory=lambda: PeerScoreParameters(validation=Validation.SELECTIVE))
    thresholds: ScoreThresholds = field(default_factory=ScoreThresholds)
    topics: Mapping[str, TopicScoreParameters] = field(default_factory=dict[str, TopicScoreParameters])

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Read `[router.score]` with its tables `thresholds` and `topics`. All mistakes are reported at once."""
        own = {key: value for key, value in values.items() if key not in ("thresholds", "topics")}
        wrong: list[Violation] = []
        interval, zero = _interval_and_zero(own)
        peer = _read(PeerScoreParameters, own, "", interval, zero, wrong)
        thresholds = _read(ScoreThresholds, _table(values, "thresholds", wrong), "thresholds.", 0, 0, wrong)
        topics: dict[str, TopicScoreParameters | None] = {}
        for place, name, table in _topics(values.get("topics", []), wrong):
            if name in topics:
                wrong.append(Violation(f"{place}.topic", name, "is there twice"))
            topics[name] = _read(TopicScoreParameters, table, f"{place}.", interval, zero, wrong)
        if peer is None or thresholds is None or wrong:
            raise ParameterError(tuple(wrong))
        found = {name: parameters for name, parameters in topics.items() if parameters is not None}
        return cls(peer=peer, thresholds=thresholds, topics=found)

    def to_mapping(self) -> dict[str, Any]:
        """Return the form that `from_mapping` reads, with every decay resolved."""
        topics = [{"topic": name, **parameters.to_mapping()} for name, parameters in self.topics.items()]
        return {**self.peer.to_mapping(), "thresholds": self.thresholds.to_mapping(), "topics": topics}

    def scorer(self, roles: Mapping[TopicId, str]) -> Scorer:
        """Return a scorer of the topics in `roles`, which has the name of each topic's table."""
        topics = {topic: self.topics[role].numbers() for topic, role in roles.items() if role in self.topics}
        return Scorer(self.peer, topics)

    def of_topic(self, topic: TopicId) -> TopicScoreParameters | None:
        """Return the parameters of a topic; None if it is not scored (SET-1)."""
        role = role_of(str(topic), self.topics)
        return None if role is None else self.topics[role]


def role_of(topic: str, roles: Mapping[str, object]) -> str | None:
    """Return the name of the table for a topic (SET-1); None if there is none."""
    parts = topic.split("/")
    rows = [found[1] for part in (topic, *parts) if (found := _NUMBERED.fullmatch(part))]
    for names in ([topic], parts, rows):
        for role in roles:
            if role in names and (role != ANY_TOPIC or names == [topic]):
                return role
    return ANY_TOPIC if ANY_TOPIC in roles else None


def _interval_and_zero(own: Mapping[str, object]) -> tuple[int, float]:
    """Return `decay_interval_ms` and `decay_to_zero`; 0 for both if one has the wrong type."""
    interval, zero = own.get("decay_interval_ms", 0), own.get("decay_to_zero", 0.0)
    zero = float(zero) if isinstance(zero, Decimal) else zero
    right = type(interval) is int and type(zero) in (int, float)
    return cast("tuple[int, float]", (interval, zero)) if right else (0, 0.0)


def _table(values: Mapping[str, object], name: str, wrong: list[Violation]) -> Mapping[str, object]:
    found = values.get(name, {})
    if isinstance(found, Mapping):
        return cast("Mapping[str, object]", found)
    wrong.append(Violation(name, found, "must be a table"))
    return {}


def _topics(given: object, wrong: list[Violation]) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yield the place, the name and the other keys of each topic's table."""
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
    kind: type[P], values: Mapping[str, object], place: str, interval: int, zero: float, wrong: list[Violation]
) -> P | None:
    """Return the parameters, or None after adding the violations, with their place, to `wrong`."""
    resolved, violations = with_decays(values, kind.names(), interval, zero)
    wrong += [Violation(place + each.field, each.value, each.rule) for each in violations]
    said = {violation.field for violation in violations}
    try:
        return kind.from_mapping(resolved)
    except ParameterError as error:
        others = [each for each in error.violations if f"{each.field}_ms" not in said]
        wrong += [Violation(place + each.field, each.value, each.rule) for each in others]
        return None
