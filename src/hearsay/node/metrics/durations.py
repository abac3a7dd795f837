"""How long things take at a node, as histograms: the router's turns, validation, requests, waiting to leave.

Rules:

* The router has no clock of its own: it is timed from outside, with what it asks for done. A validator that answers
  at once is part of the turn in which it is asked.
* A node cannot know how old a message is: messages carry no time. It knows how long they take here, and how long
  after its IWANT one came.
* Of what was asked for, the last `MOST_ASKED` ids are remembered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from time import monotonic

from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import IWant, Message
from hearsay.node.metrics.openmetrics import Family, Kind

MOST_ASKED = 4096
BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Histogram:
    """How many durations lie in each bucket, the upper bound included, and all of them together."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_s = 0.0

    def note(self, duration_s: float) -> None:
        self.counts[bisect_left(self.bounds, duration_s)] += 1
        self.total_s += duration_s

    def family(self, name: str, text: str) -> Family:
        return Family(name, Kind.HISTOGRAM, text).add_histogram(self.bounds, self.counts, self.total_s)


class Durations:
    def __init__(self) -> None:
        self.heartbeat = Histogram()
        self.rpc = Histogram()
        self.validation = Histogram()
        self.queued = Histogram()
        self.asking = Histogram()
        self._validated_from: dict[Identifier, float] = {}
        """Since when messages wait for validators, which bound how many do."""
        self._asked: dict[Identifier, float] = {}

    def validation_began(self, message: Identifier, since_s: float) -> None:
        self._validated_from[message] = since_s

    def validation_ended(self, message: Identifier) -> None:
        since_s = self._validated_from.pop(message, None)
        if since_s is not None:
            self.validation.note(monotonic() - since_s)

    def asked_for(self, requests: Iterable[IWant]) -> None:
        now_s = monotonic()
        asked = self._asked
        for request in requests:
            for message in request.ids:
                asked.setdefault(message, now_s)
        while len(asked) > MOST_ASKED:
            del asked[next(iter(asked))]

    def came(self, messages: Iterable[Message]) -> None:
        if not self._asked:
            return
        for message in messages:
            since_s = self._asked.pop(message.id, None)
            if since_s is not None:
                self.asking.note(monotonic() - since_s)

    def families(self) -> Iterator[Family]:
        yield self.heartbeat.family(
            "gossipsub_heartbeat_duration_seconds", "What the router does when its timer fires: heartbeats"
        )
        yield self.rpc.family(
            "hearsay_rpc_handling_seconds", "What the router does with an RPC, or a part of one with many messages"
        )
        yield self.validation.family(
            "gossipsub_async_validation_delay_from_first_seen", "Seconds from a message's first copy to its verdict"
        )
        yield self.asking.family(
            "gossipsub_iwant_promise_delivery_seconds", "From an IWANT to the first copy of what it asked for"
        )
        yield self.queued.family(
            "hearsay_outgoing_queue_wait_seconds", "From an RPC's making to its leaving for a peer"
        )
