"""Nodes whose routers do not take part in all topics (`allowed_topics`).

Rules:

* Such a node is in none of the other topics, however their subscribers are chosen.
* Anything else that is planned for it there is a mistake in the scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.subscription_filter import subscription_filter
from hearsay.sim.plan.planned_events import Publication, TimedAction
from hearsay.sim.scenario.scenario_error import ScenarioError


class AllowedTopics:
    def __init__(
        self, topics: Sequence[str], parameters: Iterable[RouterParameters], router_of: Sequence[int]
    ) -> None:
        self._topics = topics
        self._router_of = router_of
        self._refused = [frozenset(_refused(topics, each)) for each in parameters]
        """By router the numbers of topics."""

    def members(self, chosen: list[Sequence[int]]) -> list[Sequence[int]]:
        """By topic those of the nodes that were chosen who may be in it."""
        if not any(self._refused):
            return chosen
        return [[node for node in nodes if self._allows(node, topic)] for topic, nodes in enumerate(chosen)]

    def check(self, timed: Iterable[TimedAction], publications: Iterable[Publication]) -> None:
        if not any(self._refused):
            return
        planned = [(action.node, action.topic) for action in timed if action.join]
        planned += [(node, each.topic) for each in publications for node in each.inject or (each.publisher,)]
        for node, topic in planned:
            if not self._allows(node, topic):
                what = (
                    f"node {node} is to join or publish in {self._topics[topic]!r}, which its router does not allow"
                )
                raise ScenarioError([f"router.allowed_topics: {what}"])

    def _allows(self, node: int, topic: int) -> bool:
        return topic not in self._refused[self._router_of[node]]


def _refused(topics: Sequence[str], parameters: RouterParameters) -> Iterator[int]:
    chosen = subscription_filter(parameters)
    if chosen is not None:
        yield from (number for number, name in enumerate(topics) if not chosen.allows(name))
