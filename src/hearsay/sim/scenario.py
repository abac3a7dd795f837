"""A scenario: everything that one simulation is about, as checked and frozen values.

Rules:

* Every section and key is optional; a bare scenario is simsub's network (100 nodes, 10 random dials each, 10–150 ms)
  with r1's gossipsub.
* A key declares its range beside its type; a section's `cross_rules` state what holds between keys. All that is
  wrong is reported at once, each with its key, its value and the rule.
* No floating point decides anything: a number of the file is kept as the decimal that was written, and the
  properties (`warmup_us`, `rate_millionths`, …) turn it once into integers. Engines read only those.
* With validation at work (`[validation]` not all zero) every router's parameters say `validate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hearsay.core.identifiers import Micros
from hearsay.core.parameters import MAX_TIME_MS, ParameterError, RouterParameters, Violation
from hearsay.core.registry import RouterKind, find_router

MILLION = 1_000_000
MAX_SEED = (1 << 63) - 1
MAX_NODES = 100_000_000
MAX_COMPLETE_NODES = 10_000
MAX_DEGREE = 10_000
MAX_TIME_S = 1_000_000_000
MAX_BYTES = 1 << 40
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


class ScenarioError(ValueError):
    """A scenario that cannot be run; `problems` has one line for each thing that is wrong."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


def scaled(number: Decimal, factor: int) -> int:
    """The integer nearest to number × factor (ties to even), exact for all that a scenario may say."""
    return int(_EXACT.to_integral_value(_EXACT.multiply(number, Decimal(factor))))


def unknown_key(key: str, known: Iterable[str]) -> str:
    """The rule that an unknown key breaks, with the nearest known one."""
    close = get_close_matches(key, list(known), n=1)
    return f"unknown key, did you mean {close[0]!r}?" if close else "unknown key"


def _broken(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def _violated(violations: tuple[Violation, ...]) -> PydanticCustomError:
    """One pydantic error that carries many violations, each with its field below the value checked."""
    return PydanticCustomError("violations", "broken rules", {"violations": violations})


def _integer(low: int, high: int) -> PlainValidator:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _broken("must be an integer")
        if not low <= value <= high:
            raise _broken(f"must be in {low}…{high}")
        return value

    return PlainValidator(check)


def _number(low: str, high: int) -> PlainValidator:
    least = Decimal(low)

    def check(value: object) -> Decimal:
        if isinstance(value, float):
            value = Decimal(repr(value))
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            raise _broken("must be a number")
        number = Decimal(value)
        if not number.is_finite():
            raise _broken("must be a finite number")
        if not least <= number <= high:
            raise _broken(f"must be in {low}…{high}")
        return number

    return PlainValidator(check)


def _share(highest: str = "1") -> PlainValidator:
    most = Decimal(highest)
    number = _number("0", 1)

    def check(value: object) -> Decimal:
        share = cast(Decimal, cast(Any, number.func)(value))
        if share > most:
            raise _broken(f"must be in 0…{highest}")
        return share

    return PlainValidator(check)


def _word(words: type[StrEnum]) -> PlainValidator:
    known = {str(word): word for word in words}

    def check(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            raise _broken(f"must be one of {', '.join(known)}")
        return known[value]

    return PlainValidator(check)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _broken("must be a string")
    if not value:
        raise _broken("must not be empty")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _broken("must be true or false")
    return value


def _link(value: object) -> tuple[int, int]:
    match value:
        case [int(a), int(b)] if not isinstance(a, bool) and not isinstance(b, bool):
            return a, b
        case _:
            raise _broken("must be a pair of node numbers")


class TopologyKind(StrEnum):
    """Who dials whom."""

    RANDOM = "random"
    RING_RANDOM = "ring_random"
    SCALE_FREE = "scale_free"
    COMPLETE = "complete"
    EDGE_LIST = "edge_list"


class LatencyKind(StrEnum):
    """How the latency of a pair of nodes is drawn."""

    UNIFORM = "uniform"
    CONSTANT = "constant"
    LOG_NORMAL = "log_normal"
    REGIONS = "regions"


class Arrivals(StrEnum):
    """When messages are published."""

    INTERVAL = "interval"
    POISSON = "poisson"


class Publishers(StrEnum):
    """Who publishes: the script node that knows all (simsub), or nodes of a class."""

    SCRIPT = "script"
    SUBSCRIBERS = "subscribers"
    NON_SUBSCRIBERS = "non_subscribers"
    ANY = "any"


class TopicChoice(StrEnum):
    """Which topic a message is of."""

    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class TimedKind(StrEnum):
    """What a node does at a given time."""

    JOIN = "join"
    LEAVE = "leave"
    PUBLISH = "publish"


Flag = Annotated[bool, PlainValidator(_flag)]
Text = Annotated[str, PlainValidator(_text)]
Seconds = Annotated[Decimal, _number("0", MAX_TIME_S)]
Milliseconds = Annotated[Decimal, _number("0", MAX_TIME_MS)]
Share = Annotated[Decimal, _share()]
Count = Annotated[int, _integer(0, MAX_NODES)]
NodeNumber = Annotated[int, _integer(0, MAX_NODES - 1)]
Bytes = Annotated[int, _integer(0, MAX_BYTES)]
Link = Annotated[tuple[int, int], PlainValidator(_link)]


class Section(BaseModel):
    """A table of the scenario: known keys only, frozen, checked as a whole once every key is in its own range."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _check_cross_rules(self) -> Self:
        violations = tuple(self.cross_rules())
        if violations:
            raise _violated(violations)
        return self

    def cross_rules(self) -> Iterator[Violation]:
        yield from ()


@dataclass(frozen=True, slots=True)
class RouterChoice:
    """A router by name with its parameters, all of them resolved."""

    kind: str
    preset: str | None
    definition: RouterKind = field(repr=False, hash=False)
    parameters: RouterParameters

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """From `kind`, `preset` and parameters; raises `ParameterError` with everything that is wrong."""
        kind = values.get("kind", "gossipsub")
        if not isinstance(kind, str):
            raise ParameterError((Violation("kind", kind, "must be a string"),))
        try:
            definition = find_router(kind)
        except ValueError as error:
            raise ParameterError((Violation("kind", kind, str(error)),)) from None
        preset = values.get("preset", "r1" if "r1" in definition.presets else None)
        known = ("kind", "preset", *definition.parameters.names())
        violations = [
            Violation(key, value, unknown_key(key, known)) for key, value in values.items() if key not in known
        ]
        base: Mapping[str, object] = {}
        if isinstance(preset, str) and preset in definition.presets:
            base = definition.presets[preset]
        elif preset is not None:
            violations.append(Violation("preset", preset, f"must be one of {', '.join(definition.presets)}"))
        own = {key: value for key, value in values.items() if key in known[2:]}
        try:
            parameters = definition.parameters.from_mapping({**base, **own})
        except ParameterError as error:
            raise ParameterError((*violations, *error.violations)) from None
        if violations:
            raise ParameterError(tuple(violations))
        return cls(kind, cast("str | None", preset), definition, parameters)

    def to_mapping(self) -> dict[str, object]:
        """The whole choice, every parameter spelled out."""
        preset = {} if self.preset is None else {"preset": self.preset}
        return {"kind": self.kind, **preset, **self.parameters.to_mapping()}

    def validating(self) -> RouterChoice:
        return replace(self, parameters=replace(self.parameters, validate=True))


def _router(value: object) -> RouterChoice:
    if isinstance(value, RouterChoice):
        return value
    if not isinstance(value, Mapping):
        raise _broken("must be a table")
    try:
        return RouterChoice.from_mapping(cast("Mapping[str, object]", value))
    except ParameterError as error:
        raise _violated(error.violations) from None


RouterTable = Annotated[RouterChoice, PlainValidator(_router)]


class Network(Section):
    """[network] – the nodes and who dials whom."""

    nodes: Annotated[int, _integer(1, MAX_NODES)] = 100
    topology: Annotated[TopologyKind, _word(TopologyKind)] = TopologyKind.RANDOM
    degree: Annotated[int, _integer(0, MAX_DEGREE)] = 10
    edges_file: Text | None = None
    nat_share: Share = Decimal(0)
    rendezvous_ms: Milliseconds = Decimal(50)

    @property
    def nat_millionths(self) -> int:
        return scaled(self.nat_share, MILLION)

    @property
    def rendezvous_us(self) -> Micros:
        return scaled(self.rendezvous_ms, 1000)

    def cross_rules(self) -> Iterator[Violation]:
        listed = self.topology is TopologyKind.EDGE_LIST
        if listed and self.edges_file is None:
            yield Violation("topology", self.topology, "needs edges_file")
        if not listed and self.edges_file is not None:
            yield Violation("edges_file", self.edges_file, 'only with topology = "edge_list"')
        if self.topology is TopologyKind.COMPLETE and self.nodes > MAX_COMPLETE_NODES:
            yield Violation("nodes", self.nodes, f'must not be above {MAX_COMPLETE_NODES} with topology = "complete"')


class Links(Section):
    """[links] – latency, jitter and the sender's uplink."""

    latency: Annotated[LatencyKind, _word(LatencyKind)] = LatencyKind.UNIFORM
    min_ms: Milliseconds = Decimal(10)
    max_ms: Milliseconds = Decimal(150)
    value_ms: Milliseconds = Decimal(50)
    median_ms: Milliseconds = Decimal(60)
    sigma: Annotated[Decimal, _number("0", 3)] = Decimal("0.5")
    cap_ms: Milliseconds = Decimal(2000)
    regions_file: Text | None = None
    jitter_ms: Milliseconds = Decimal(0)
    uplink_mbit: Annotated[Decimal, _number("0", MILLION)] = Decimal(0)
    uplink_queue_bytes: Bytes = 0

    def cross_rules(self) -> Iterator[Violation]:
        if self.min_ms > self.max_ms:
            if "min_ms" in self.model_fields_set:
                yield Violation("min_ms", self.min_ms, f"must not be above max_ms ({self.max_ms})")
            else:
                yield Violation("max_ms", self.max_ms, f"must not be below min_ms ({self.min_ms})")
        if self.median_ms > self.cap_ms:
            if "cap_ms" in self.model_fields_set:
                yield Violation("cap_ms", self.cap_ms, f"must not be below median_ms ({self.median_ms})")
            else:
                yield Violation("median_ms", self.median_ms, f"must not be above cap_ms ({self.cap_ms})")
        by_region = self.latency is LatencyKind.REGIONS
        if by_region and self.regions_file is None:
            yield Violation("latency", self.latency, "needs regions_file")
        if not by_region and self.regions_file is not None:
            yield Violation("regions_file", self.regions_file, 'only with latency = "regions"')

    @property
    def min_us(self) -> Micros:
        return scaled(self.min_ms, 1000)

    @property
    def max_us(self) -> Micros:
        return scaled(self.max_ms, 1000)

    @property
    def value_us(self) -> Micros:
        return scaled(self.value_ms, 1000)

    @property
    def median_us(self) -> Micros:
        return scaled(self.median_ms, 1000)

    @property
    def sigma_millionths(self) -> int:
        return scaled(self.sigma, MILLION)

    @property
    def cap_us(self) -> Micros:
        return scaled(self.cap_ms, 1000)

    @property
    def jitter_us(self) -> Micros:
        return scaled(self.jitter_ms, 1000)

    @property
    def uplink_bits_per_s(self) -> int:
        """0 is unlimited."""
        return scaled(self.uplink_mbit, MILLION)


class Loss(Section):
    """[loss] – how often an RPC is lost; `control` puts control parts at risk too."""

    rate: Share = Decimal(0)
    control: Flag = False

    @property
    def rate_millionths(self) -> int:
        return scaled(self.rate, MILLION)


class Service(Section):
    """[service] – how long a node works on one RPC."""

    time_ms: Milliseconds = Decimal(0)

    @property
    def time_us(self) -> Micros:
        return scaled(self.time_ms, 1000)


class Validation(Section):
    """[validation] – the application's check of a message."""

    delay_ms: Milliseconds = Decimal(0)
    reject_share: Share = Decimal(0)

    @property
    def delay_us(self) -> Micros:
        return scaled(self.delay_ms, 1000)

    @property
    def reject_millionths(self) -> int:
        return scaled(self.reject_share, MILLION)

    @property
    def active(self) -> bool:
        return self.delay_us > 0 or self.reject_millionths > 0


class Population(Section):
    """[[population]] – a random share of the nodes that runs another router."""

    share: Share
    router: RouterTable

    @property
    def share_millionths(self) -> int:
        return scaled(self.share, MILLION)


class TopicGroup(Section):
    """[[topics]] – a topic, or `count` alike; all nodes subscribe unless one of `subscribers…` says who."""

    name: Text = "topic"
    count: Annotated[int, _integer(1, MILLION)] = 1
    subscribers_share: Share | None = None
    subscribers_count: Count | None = None
    subscribers: tuple[NodeNumber, ...] | None = None

    def cross_rules(self) -> Iterator[Violation]:
        ways = ("subscribers_share", "subscribers_count", "subscribers")
        given = [way for way in ways if getattr(self, way) is not None]
        for way in given[1:]:
            yield Violation(way, getattr(self, way), f"not together with {given[0]}")

    @property
    def names(self) -> tuple[str, ...]:
        if self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(self.count))

    @property
    def share_millionths(self) -> int | None:
        return None if self.subscribers_share is None else scaled(self.subscribers_share, MILLION)


class Workload(Section):
    """[workload] – what is published, when and by whom."""

    messages: Annotated[int, _integer(0, MAX_NODES)] = 10
    interval_s: Seconds = Decimal(1)
    arrivals: Annotated[Arrivals, _word(Arrivals)] = Arrivals.INTERVAL
    publishers: Annotated[Publishers, _word(Publishers)] = Publishers.SCRIPT
    publisher_count: Count = 0
    inject: Annotated[int, _integer(1, MAX_NODES)] = 5
    size_bytes: Bytes = 100
    topic_choice: Annotated[TopicChoice, _word(TopicChoice)] = TopicChoice.ROUND_ROBIN

    @property
    def interval_us(self) -> Micros:
        return scaled(self.interval_s, MILLION)


class Timed(Section):
    """[[timed]] – one node joins, leaves or publishes at a given time."""

    at_s: Seconds
    node: NodeNumber
    action: Annotated[TimedKind, _word(TimedKind)]
    topic: Text = "topic"

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)


class Churn(Section):
    """[faults.churn] – nodes come and go; sessions and absences are exponential."""

    away_share: Annotated[Decimal, _share("0.95")] = Decimal("0.3")
    mean_session_s: Annotated[Decimal, _number("0.001", MAX_TIME_S)] = Decimal(60)
    goodbye: Flag = False
    start_s: Seconds = Decimal(0)

    @property
    def away_millionths(self) -> int:
        return scaled(self.away_share, MILLION)

    @property
    def mean_session_us(self) -> Micros:
        return scaled(self.mean_session_s, MILLION)

    @property
    def mean_away_us(self) -> Micros:
        """So that in the long run `away_share` of the nodes are away."""
        return self.mean_session_us * self.away_millionths // (MILLION - self.away_millionths)

    @property
    def start_us(self) -> Micros:
        return scaled(self.start_s, MILLION)


class Crash(Section):
    """[[faults.crash]] – a share of the nodes that are up stops without a word."""

    at_s: Seconds
    share: Share
    rejoin_after_s: Seconds | None = None

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def share_millionths(self) -> int:
        return scaled(self.share, MILLION)

    @property
    def rejoin_after_us(self) -> Micros | None:
        return None if self.rejoin_after_s is None else scaled(self.rejoin_after_s, MILLION)


class Partition(Section):
    """[[faults.partition]] – a share of the nodes is cut off from the others until it heals."""

    at_s: Seconds
    heal_s: Seconds
    share: Share

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def heal_us(self) -> Micros:
        return scaled(self.heal_s, MILLION)

    @property
    def share_millionths(self) -> int:
        return scaled(self.share, MILLION)


class Cut(Section):
    """[[faults.cut]] – a share of the links, or given links, are cut, for good unless `heal_s` is given."""

    at_s: Seconds
    heal_s: Seconds | None = None
    share: Share | None = None
    links: tuple[Link, ...] | None = None

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us is not None and self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")
        if self.share is None and self.links is None:
            yield Violation("at_s", self.at_s, "needs share or links")
        if self.share is not None and self.links is not None:
            yield Violation("links", self.links, "not together with share")
        for number, (a, b) in enumerate(self.links or ()):
            if a == b:
                yield Violation(f"links.{number}", [a, b], "must be two different nodes")

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def heal_us(self) -> Micros | None:
        return None if self.heal_s is None else scaled(self.heal_s, MILLION)

    @property
    def share_millionths(self) -> int | None:
        return None if self.share is None else scaled(self.share, MILLION)


class Faults(Section):
    """[faults] – what goes wrong, and how soon the others notice."""

    detection_s: Seconds = Decimal(1)
    redial: Annotated[int, _integer(0, MAX_DEGREE)] = 10
    churn: Churn | None = None
    crash: tuple[Crash, ...] = ()
    partition: tuple[Partition, ...] = ()
    cut: tuple[Cut, ...] = ()

    @property
    def detection_us(self) -> Micros:
        return scaled(self.detection_s, MILLION)


class Trace(Section):
    """[trace] – how often the state of all nodes is written down; 0 is never."""

    state_interval_s: Seconds = Decimal(10)

    @property
    def state_interval_us(self) -> Micros:
        return scaled(self.state_interval_s, MILLION)


class Scenario(Section):
    """A whole scenario. `validation` stands before the routers because it turns `validate` on in them."""

    seed: Annotated[int, _integer(0, MAX_SEED)] = 1
    warmup_s: Seconds = Decimal(5)
    linger_s: Seconds = Decimal(10)
    network: Network = Network()
    links: Links = Links()
    loss: Loss = Loss()
    service: Service = Service()
    validation: Validation = Validation()
    router: RouterTable = Field(default=RouterChoice.from_mapping({}), validate_default=True)
    population: tuple[Population, ...] = ()
    topics: tuple[TopicGroup, ...] = (TopicGroup(),)
    workload: Workload = Workload()
    timed: tuple[Timed, ...] = ()
    faults: Faults = Faults()
    trace: Trace = Trace()

    @field_validator("router")
    @classmethod
    def _validate_in_router(cls, router: RouterChoice, info: ValidationInfo) -> RouterChoice:
        validation = info.data.get("validation")
        return router.validating() if isinstance(validation, Validation) and validation.active else router

    @field_validator("population")
    @classmethod
    def _validate_in_population(
        cls, population: tuple[Population, ...], info: ValidationInfo
    ) -> tuple[Population, ...]:
        validation = info.data.get("validation")
        if not isinstance(validation, Validation) or not validation.active:
            return population
        return tuple(one.model_copy(update={"router": one.router.validating()}) for one in population)

    def cross_rules(self) -> Iterator[Violation]:
        yield from self._population_rules()
        yield from self._topic_rules()
        yield from self._timed_rules()
        for number, cut in enumerate(self.faults.cut):
            for place, link in enumerate(cut.links or ()):
                for node in link:
                    if not 0 <= node < self.network.nodes:
                        rule = f"must name nodes below network.nodes ({self.network.nodes})"
                        yield Violation(f"faults.cut.{number}.links.{place}", list(link), rule)
                        break

    def _population_rules(self) -> Iterator[Violation]:
        total = 0
        for number, population in enumerate(self.population):
            total += population.share_millionths
            if total > MILLION:
                rule = "the shares of all populations must not sum to more than 1"
                yield Violation(f"population.{number}.share", population.share, rule)
                return

    def _topic_rules(self) -> Iterator[Violation]:
        if not self.topics:
            yield Violation("topics", [], "must not be empty")
        nodes = self.network.nodes
        seen: set[str] = set()
        for number, group in enumerate(self.topics):
            path = f"topics.{number}"
            twice = next((name for name in group.names if name in seen), None)
            if twice is not None:
                yield Violation(f"{path}.name", group.name, f"topic {twice!r} is there already")
            seen.update(group.names)
            if group.subscribers_count is not None and group.subscribers_count > nodes:
                rule = f"must not be above network.nodes ({nodes})"
                yield Violation(f"{path}.subscribers_count", group.subscribers_count, rule)
            times = Counter(group.subscribers or ())
            for place, node in enumerate(group.subscribers or ()):
                if node >= nodes:
                    rule = f"must be below network.nodes ({nodes})"
                    yield Violation(f"{path}.subscribers.{place}", node, rule)
                elif times[node] > 1:
                    yield Violation(f"{path}.subscribers.{place}", node, "is there more than once")
                    times[node] = 0

    def _timed_rules(self) -> Iterator[Violation]:
        known = frozenset(self.topic_names)
        for number, timed in enumerate(self.timed):
            if timed.node >= self.network.nodes:
                rule = f"must be below network.nodes ({self.network.nodes})"
                yield Violation(f"timed.{number}.node", timed.node, rule)
            if timed.topic not in known:
                close = get_close_matches(timed.topic, sorted(known), n=1)
                hint = f", did you mean {close[0]!r}?" if close else ""
                yield Violation(f"timed.{number}.topic", timed.topic, f"no such topic{hint}")

    @property
    def topic_names(self) -> tuple[str, ...]:
        """All topics, groups expanded; a topic's number is its place here."""
        return tuple(name for group in self.topics for name in group.names)

    @property
    def warmup_us(self) -> Micros:
        return scaled(self.warmup_s, MILLION)

    @property
    def linger_us(self) -> Micros:
        return scaled(self.linger_s, MILLION)
