"""The path of a first copy and the fastest path, searched in all rows of a run in plain, slow Python."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

from hearsay.core.language.actions import Reason, Via
from hearsay.core.rules.randomness import Randomness
from hearsay.sim.plan.network import LatencyModel, make_latency
from hearsay.sim.scenario.scenario import Scenario
from hearsay.trace.language.schema import TraceEvent, TraceRow

FOREVER = 1 << 60


def cache_latencies(latency: LatencyModel) -> None:
    """Cache the latencies of a model, because a search needs each of them many times."""
    latency.base_us = cache(latency.base_us)


class Rows:
    """The rows of a run, by message."""

    def __init__(self, rows: list[TraceRow], scenario: Scenario, end_us: int) -> None:
        self.rows = rows
        self.scenario = scenario
        self.end_us = end_us
        self.latency = make_latency(scenario.links, scenario.network.nodes, Randomness(scenario.seed))
        cache_latencies(self.latency)
        self.of_message: dict[tuple[int, TraceEvent], list[TraceRow]] = defaultdict(list)
        for row in rows:
            if row.message is not None:
                self.of_message[row.message, row.event].append(row)
        self.copies = cache(self._copies)
        self.links = cache(self._links)

    def publication(self, message: int) -> TraceRow:
        return min(self._events(message, TraceEvent.PUBLISH), key=lambda row: row.time_us)

    def deliveries(self, message: int, node: int) -> list[TraceRow]:
        found = [row for row in self._events(message, TraceEvent.DELIVER) if row.peer == node]
        return sorted(found, key=lambda row: row.time_us)

    def receivers(self, message: int) -> list[int]:
        return sorted({row.peer for row in self._events(message, TraceEvent.DELIVER) if row.peer is not None})

    def _copies(self, message: int) -> list[dict[str, Any]]:
        """Return all copies that were sent, each with its fate."""
        lost = [
            row for row in self._events(message, TraceEvent.DROP_RPC)
            if row.reason in (Reason.LOST, Reason.UNREACHABLE)
        ]  # fmt: skip
        found: list[dict[str, Any]] = []
        for row in self._events(message, TraceEvent.SEND_RPC):
            assert row.delay_us is not None
            arrival = row.time_us + row.delay_us
            fate = "arrived" if arrival < self.end_us else "under way"
            for drop in lost:
                same = (drop.peer, drop.remote, drop.bytes, drop.hops, drop.via) == (
                    row.peer, row.remote, row.bytes, row.hops, row.via
                )  # fmt: skip
                if same and drop.time_us == arrival:
                    lost.remove(drop)
                    assert drop.reason is not None
                    fate = drop.reason.name.lower()
                    break
            found.append({"from": row.peer, "to": row.remote, "sent": row.time_us, "arrived": arrival, "fate": fate,
                          "via": row.via, "hops": row.hops, "bytes": row.bytes})  # fmt: skip
        return found

    def _events(self, message: int, event: TraceEvent) -> list[TraceRow]:
        return self.of_message[message, event]

    def path(self, message: int, node: int) -> list[dict[str, Any]]:
        """Return the hops in order of time, each as its copy, the time since which the sender had the message, and
        the time of the delivery.
        """
        published = self.publication(message)
        arrived = [copy for copy in self.copies(message) if copy["fate"] == "arrived"]
        delivery, before = self.deliveries(message, node)[0], -1
        hops: list[dict[str, Any]] = []
        while True:
            if delivery.peer == published.peer and delivery.remote is None:
                return hops[::-1]
            copy = self._delivered_copy(arrived, delivery, before)
            sender = delivery.remote
            assert sender is not None
            had = [row for row in self.deliveries(message, sender) if row.time_us <= copy["sent"]]
            if had:
                at = had[-1].time_us
                hops.append({"copy": copy, "had": at, "delivered": delivery.time_us})
                before = had[-2].time_us if len(had) > 1 else -1
                delivery = had[-1]
                continue
            if sender == published.peer:
                hops.append({"copy": copy, "had": published.time_us, "delivered": delivery.time_us})
                return hops[::-1]
            injected = [
                each for each in arrived
                if each["to"] == sender and each["via"] is Via.INJECT and each["arrived"] <= copy["sent"]
            ]  # fmt: skip
            last = max(injected, key=lambda each: each["arrived"])
            hops.append({"copy": copy, "had": last["arrived"], "delivered": delivery.time_us})
            hops.append({"copy": last, "had": published.time_us, "delivered": last["arrived"]})
            return hops[::-1]

    def _delivered_copy(self, arrived: list[dict[str, Any]], delivery: TraceRow, before: int) -> dict[str, Any]:
        """Return the first copy that arrived since `before` and can have caused a delivery."""
        fits = [
            copy for copy in arrived
            if copy["from"] == delivery.remote and copy["to"] == delivery.peer
            and copy["hops"] == delivery.hops and copy["via"] == delivery.via
            and before <= copy["arrived"] <= delivery.time_us
        ]  # fmt: skip
        if not self.scenario.service.time_us:
            ends = {delivery.time_us, delivery.time_us - self.scenario.validation.delay_us}
            fits = [copy for copy in fits if copy["arrived"] in ends] or fits
        return min(fits, key=lambda copy: copy["arrived"])

    def handling_us(self, message: int, node: int) -> int | None:
        """Return the time from the arrival of the first copy to its delivery, in microseconds; None if unknown."""
        arrived = [copy for copy in self.copies(message) if copy["fate"] == "arrived"]
        there = self.deliveries(message, node)
        if not there:
            injected = any(copy["to"] == node and copy["via"] is Via.INJECT for copy in self.copies(message))
            return 0 if injected else None
        if there[0].remote is None:
            return None
        return max(0, there[0].time_us - self._delivered_copy(arrived, there[0], -1)["arrived"])

    def _links(self, topic: int, publisher: int) -> list[tuple[int, int, int, int]]:
        """Return (from, to, since, until) of connections that both nodes knew, while both were in the topic. The
        publisher need not be in the topic.
        """
        ends: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
        joined: dict[int, list[list[int]]] = defaultdict(list)
        order = {TraceEvent.REMOVE_PEER: 0, TraceEvent.LEAVE: 0, TraceEvent.NODE_DOWN: 0}
        for row in sorted(self.rows, key=lambda row: (row.time_us, order.get(row.event, 1))):
            node, now = row.peer, row.time_us
            match row.event:
                case TraceEvent.ADD_PEER:
                    _begin(ends[node, row.remote], now)
                case TraceEvent.REMOVE_PEER:
                    _end(ends[node, row.remote], now)
                case TraceEvent.JOIN if row.topic == topic:
                    _begin(joined[node], now)
                case TraceEvent.LEAVE if row.topic == topic:
                    _end(joined[node], now)
                case TraceEvent.NODE_DOWN:
                    _end(joined[node], now)
                    for (one, _), spans in ends.items():
                        if one == node:
                            _end(spans, now)
                case _:
                    pass
        for spans in joined.values():
            _end(spans, self.end_us)
        found: list[tuple[int, int, int, int]] = []
        for (one, other), spans in ends.items():
            for here in spans:
                for there in ends.get((other, one), ()):
                    for members in joined[other]:
                        own = [[0, FOREVER]] if one == publisher else joined[one]
                        for mine in own:
                            since = max(here[0], there[0], members[0], mine[0])
                            until = min(here[1], there[1], members[1], mine[1])
                            if since < until:
                                found.append((one, other, since, until))
        return found

    def fastest(self, message: int) -> dict[int, int]:
        """Return the earliest time at which each node could have the message: repeat a pass over all links and copies
        until no time changes.
        """
        published = self.publication(message)
        assert published.peer is not None
        assert published.topic is not None
        copies = [copy for copy in self.copies(message) if copy["fate"] == "arrived"]
        links = self.links(published.topic, published.peer)
        nodes = {published.peer, *(copy["to"] for copy in copies), *(link[1] for link in links)}
        known = {node: took for node in nodes if (took := self.handling_us(message, node)) is not None}
        sizes = [copy["bytes"] for copy in copies]
        rate = self.scenario.links.uplink_bits_per_s
        own = -(-min(sizes) * 8_000_000 // rate) if rate and sizes else 0
        receivers = set(self.receivers(message))
        rejecting = {
            row.peer for row in self._events(message, TraceEvent.REJECT)
            if row.reason in (Reason.REJECTED, Reason.IGNORED) and row.peer not in receivers
        }  # fmt: skip
        quickest = min((took for node, took in known.items() if node in receivers), default=0)
        had = {published.peer: published.time_us}
        changed = True
        while changed:
            changed = False
            arrivals = [
                (copy["from"], copy["to"], copy["arrived"])
                for copy in copies if copy["from"] in had and copy["sent"] >= had[copy["from"]]
            ]  # fmt: skip
            for one, other, since, until in links:
                if one in had and one not in rejecting:
                    arrives = max(had[one], since) + own + self.latency.base_us(one, other)
                    if arrives < until:
                        arrivals.append((one, other, arrives))
            for _, other, arrives in arrivals:
                then = arrives + known.get(other, quickest)
                if then < had.get(other, FOREVER):
                    had[other] = then
                    changed = True
        return had


def _begin(spans: list[list[int]], now: int) -> None:
    if not spans or spans[-1][1] <= now:
        spans.append([now, FOREVER])


def _end(spans: list[list[int]], now: int) -> None:
    if spans and spans[-1][1] > now:
        spans[-1][1] = now
