"""The sections of topics, messages and their validation: [[topics]], [workload], [[timed]] and [validation]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.core.language.rpc import PartialUse
from hearsay.core.shell.parameters import Violation
from hearsay.partial.exchange import Asking
from hearsay.sim.scenario.values import (
    MAX_NODES,
    MILLION,
    Bytes,
    Count,
    Flag,
    Milliseconds,
    NodeNumber,
    Scaled,
    ScaledIfGiven,
    Seconds,
    Section,
    Share,
    SomeNodes,
    Text,
    integer_in,
    one_of,
)

MAX_PARTS = 1024


class Arrivals(StrEnum):
    """The rule for the times at which the workload's messages are published."""

    INTERVAL = "interval"
    POISSON = "poisson"


class Publishers(StrEnum):
    """The publishers of the workload's messages: the script, which is a sender outside the network (as in simsub), or
    nodes of a class."""

    SCRIPT = "script"
    SUBSCRIBERS = "subscribers"
    NON_SUBSCRIBERS = "non_subscribers"
    ANY = "any"


class TopicChoice(StrEnum):
    """The rule that assigns topics to the workload's messages."""

    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class TimedKind(StrEnum):
    """The kind of a timed action of a node."""

    JOIN = "join"
    LEAVE = "leave"
    PUBLISH = "publish"


class PartialParts(Section):
    """[topics.partial]: the exchange of the topic's messages in equal parts, between routers with `partial_messages`
    (gossipsub 1.3)."""

    use: Annotated[PartialUse, one_of(PartialUse)] = PartialUse.REQUESTS
    """`requests`: nodes request and send parts; `supports`: nodes send parts, but request none; `none`: no parts."""
    parts: Annotated[int, integer_in(1, MAX_PARTS)] = 8
    """Number of parts of a message."""
    known_parts: Annotated[int, integer_in(0, MAX_PARTS)] = 0
    """Number of parts that every node's application already has when the node first learns of a message."""
    eager: Flag = False
    """Publishers send parts even to peers that have not announced which parts they have."""
    asks: Annotated[Asking, one_of(Asking)] = Asking.ALL
    """`all`: a node requests missing parts from all peers, with a bitmap. `one`: a node requests each part from one
    peer that has it, with two bitlists, and from another peer if it does not arrive within a whole heartbeat."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.known_parts > self.parts:
            yield Violation("known_parts", self.known_parts, f"must not be above parts ({self.parts})")


class TopicGroup(Section):
    """[[topics]]: a topic, or `count` similar topics. Without one of the keys `subscribers…`, all nodes subscribe."""

    name: Text = "topic"
    """Name of the topic. With a `count` above 1, the names are name-0, name-1, …"""
    count: Annotated[int, integer_in(1, MILLION)] = 1
    """Number of topics."""
    subscribers_share: Share | None = None
    """Probability that a node subscribes. A node whose router does not allow the topic (`router.allowed_topics`)
    never subscribes."""
    subscribers_count: Count | None = None
    """Number of random nodes that subscribe."""
    subscribers: tuple[NodeNumber, ...] | None = None
    """The nodes that subscribe."""
    size_bytes: Bytes | None = None
    """Size of a message of the topic; without this key, `workload.size_bytes`."""
    weight: Annotated[int, integer_in(0, 1000)] = 1
    """Frequency of the topic among the workload's messages, relative to the weights of other topics; 0 is never."""
    partial: PartialParts | None = None
    """Messages are sent in parts between routers with `partial_messages`. Not together with `[validation]`."""
    share_millionths = ScaledIfGiven("subscribers_share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        yield from self.exclusive("subscribers_share", "subscribers_count", "subscribers")

    @property
    def goes_in_parts(self) -> bool:
        """True if messages of these topics are sent in parts."""
        return self.partial is not None and self.partial.use is not PartialUse.NONE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all topics of the group."""
        if self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(self.count))


class Workload(Section):
    """[workload]: the messages that are published."""

    messages: Annotated[int, integer_in(0, MAX_NODES)] = 10
    """Number of messages."""
    interval_s: Seconds = Decimal(1)
    """Time between two messages; with `poisson`, the mean time."""
    arrivals: Annotated[Arrivals, one_of(Arrivals)] = Arrivals.INTERVAL
    """Times of the messages: at a fixed `interval`, or `poisson`."""
    publishers: Annotated[Publishers, one_of(Publishers)] = Publishers.SCRIPT
    """`script`: a script outside the network sends each message to `inject` nodes, which publish it (simsub);
    `subscribers`, `non_subscribers` or `any`: one node of that class publishes it."""
    publisher_count: Count = 0
    """Size of a fixed set of publishers for each topic. With 0, the publishers are drawn from the whole class."""
    inject: Annotated[int, integer_in(1, MAX_NODES)] = 5
    """Number of nodes to which the `script` sends a message."""
    size_bytes: Bytes = 100
    """Size of a message's data."""
    topic_choice: Annotated[TopicChoice, one_of(TopicChoice)] = TopicChoice.ROUND_ROBIN
    """Choice of a message's topic: `round_robin` or `random`, both by weight."""
    interval_us = Scaled("interval_s", MILLION)


class Timed(Section):
    """[[timed]]: a node joins, leaves or publishes at a given time. Joins and leaves need routers with `hello`."""

    at_s: Seconds
    """Time of the action."""
    node: NodeNumber
    """Number of the node."""
    action: Annotated[TimedKind, one_of(TimedKind)]
    """Action of the node: `join`, `leave` or `publish`."""
    topic: Text = "topic"
    """Name of the topic."""
    at_us = Scaled("at_s", MILLION)


class Refusal(StrEnum):
    """The verdict of applications on an invalid message."""

    REJECT = "reject"
    IGNORE = "ignore"


class InvalidMessages(SomeNodes):
    """[[validation.invalid]]: nodes that publish invalid messages. Applications do not accept these messages, except
    with `forwards_invalid`. If several entries match a message, the last one sets the verdict and the nodes that
    accept the message."""

    topics: tuple[Text, ...] | None = None
    """Topics in which messages of these nodes are invalid; without this key, all topics."""
    message_share: Share = Decimal(1)
    """Probability that such a message is invalid."""
    verdict: Annotated[Refusal, one_of(Refusal)] = Refusal.REJECT
    """Verdict of the applications on these invalid messages."""
    forwards_invalid: Flag = False
    """An attack: the nodes of this entry accept the invalid messages of all its nodes, and so forward them."""
    message_millionths = Scaled("message_share", MILLION)


class Validation(Section):
    """[validation]: the applications' check of messages."""

    delay_ms: Milliseconds = Decimal(0)
    """Time that the check of one message takes."""
    reject_share: Share = Decimal(0)
    """Probability that a message is invalid, so that every application rejects it."""
    invalid: tuple[InvalidMessages, ...] = ()
    """Publishers of invalid messages."""
    delay_us = Scaled("delay_ms", 1000)
    reject_millionths = Scaled("reject_share", MILLION)

    @property
    def active(self) -> bool:
        """True if a key of the section has an effect. Then all routers ask the application about messages."""
        return self.delay_us > 0 or self.reject_millionths > 0 or bool(self.invalid)
