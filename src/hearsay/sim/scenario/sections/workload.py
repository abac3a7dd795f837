"""What is published and read, by whom, when: [[topics]], [workload], [[timed]] and [validation]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartialUse
from hearsay.core.shell.parameters import Violation
from hearsay.partial.exchange import Asking
from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.some_nodes import SomeNodes
from hearsay.sim.scenario.sections.values import (
    MAX_NODES,
    MILLION,
    Bytes,
    Count,
    Flag,
    Milliseconds,
    NodeNumber,
    Seconds,
    Share,
    Text,
    integer_in,
    one_of,
    scaled,
)

MAX_PARTS = 1024


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


class PartialParts(Section):
    """[topics.partial] – between routers with partial messages (gossipsub 1.3) the topic's go in equal parts."""

    use: Annotated[PartialUse, one_of(PartialUse)] = PartialUse.REQUESTS
    parts: Annotated[int, integer_in(1, MAX_PARTS)] = 8
    known_parts: Annotated[int, integer_in(0, MAX_PARTS)] = 0
    eager: Flag = False
    asks: Annotated[Asking, one_of(Asking)] = Asking.ALL

    def cross_rules(self) -> Iterator[Violation]:
        if self.known_parts > self.parts:
            yield Violation("known_parts", self.known_parts, f"must not be above parts ({self.parts})")


class TopicGroup(Section):
    """[[topics]] – a topic, or `count` alike; all nodes subscribe unless one of `subscribers…` says who."""

    name: Text = "topic"
    count: Annotated[int, integer_in(1, MILLION)] = 1
    subscribers_share: Share | None = None
    subscribers_count: Count | None = None
    subscribers: tuple[NodeNumber, ...] | None = None
    size_bytes: Bytes | None = None
    weight: Annotated[int, integer_in(0, 1000)] = 1
    partial: PartialParts | None = None

    def cross_rules(self) -> Iterator[Violation]:
        ways = ("subscribers_share", "subscribers_count", "subscribers")
        given = [way for way in ways if getattr(self, way) is not None]
        for way in given[1:]:
            yield Violation(way, getattr(self, way), f"not together with {given[0]}")

    @property
    def goes_in_parts(self) -> bool:
        return self.partial is not None and self.partial.use is not PartialUse.NONE

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

    messages: Annotated[int, integer_in(0, MAX_NODES)] = 10
    interval_s: Seconds = Decimal(1)
    arrivals: Annotated[Arrivals, one_of(Arrivals)] = Arrivals.INTERVAL
    publishers: Annotated[Publishers, one_of(Publishers)] = Publishers.SCRIPT
    publisher_count: Count = 0
    inject: Annotated[int, integer_in(1, MAX_NODES)] = 5
    size_bytes: Bytes = 100
    topic_choice: Annotated[TopicChoice, one_of(TopicChoice)] = TopicChoice.ROUND_ROBIN

    @property
    def interval_us(self) -> Micros:
        return scaled(self.interval_s, MILLION)


class Timed(Section):
    """[[timed]] – one node joins, leaves or publishes at a given time."""

    at_s: Seconds
    node: NodeNumber
    action: Annotated[TimedKind, one_of(TimedKind)]
    topic: Text = "topic"

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)


class Refusal(StrEnum):
    """What applications answer to an invalid message."""

    REJECT = "reject"
    IGNORE = "ignore"


class InvalidMessages(SomeNodes):
    """[[validation.invalid]] – a share of what these nodes publish is invalid, for all applications but, with
    `forwards_invalid`, their own."""

    topics: tuple[Text, ...] | None = None
    message_share: Share = Decimal(1)
    verdict: Annotated[Refusal, one_of(Refusal)] = Refusal.REJECT
    forwards_invalid: Flag = False

    @property
    def message_millionths(self) -> int:
        return scaled(self.message_share, MILLION)


class Validation(Section):
    """[validation] – the application's check of a message."""

    delay_ms: Milliseconds = Decimal(0)
    reject_share: Share = Decimal(0)
    invalid: tuple[InvalidMessages, ...] = ()

    @property
    def delay_us(self) -> Micros:
        return scaled(self.delay_ms, 1000)

    @property
    def reject_millionths(self) -> int:
        return scaled(self.reject_share, MILLION)

    @property
    def active(self) -> bool:
        return self.delay_us > 0 or self.reject_millionths > 0 or bool(self.invalid)
