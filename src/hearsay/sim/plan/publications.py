"""When messages are published, to which topics.

Publications are numbered in time order, the workload's before `[[timed]]` ones of the same time. Message i of the
workload is at warm-up + i × interval, or after Poisson gaps. The run ends one interval and the linger time after the
last, or the linger time after the last timed event.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.planned_events import Publication
from hearsay.sim.plan.publishers import PublisherDraw
from hearsay.sim.plan.quantiles import exponential_us
from hearsay.sim.plan.topology import distinct
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.workload import Arrivals, Publishers, TimedKind, TopicChoice


def planned_arrivals_us(scenario: Scenario, randomness: Randomness) -> list[Micros]:
    """When the workload's messages are due."""
    workload = scenario.workload
    time_us = scenario.warmup_us
    if workload.arrivals is Arrivals.INTERVAL:
        return [time_us + number * workload.interval_us for number in range(workload.messages)]
    arrivals_us: list[Micros] = []
    for number in range(workload.messages):
        time_us += exponential_us(randomness.draw(Purpose.ARRIVAL, number), workload.interval_us)
        arrivals_us.append(time_us)
    return arrivals_us


def planned_end_us(scenario: Scenario, arrivals_us: list[Micros]) -> Micros:
    over_us = arrivals_us[-1] + scenario.workload.interval_us if arrivals_us else scenario.warmup_us
    return max(over_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us


def planned_publications(
    scenario: Scenario, randomness: Randomness, arrivals_us: list[Micros], publishers: PublisherDraw
) -> tuple[Publication, ...]:
    workload = scenario.workload
    nodes = scenario.network.nodes
    topics = {name: number for number, name in enumerate(scenario.topic_names)}
    groups = [group for group in scenario.topics for _ in group.names]
    turns = list(accumulate(group.weight for group in groups))
    due = [(time_us, 0, number) for number, time_us in enumerate(arrivals_us)]
    due += [
        (timed.at_us, 1, number) for number, timed in enumerate(scenario.timed) if timed.action is TimedKind.PUBLISH
    ]
    publications: list[Publication] = []
    for time_us, by_timed, number in sorted(due):
        message = len(publications)
        inject: tuple[int, ...] = ()
        if by_timed:
            publisher = scenario.timed[number].node
            topic = topics[scenario.timed[number].topic]
        else:
            turn = number % turns[-1]
            if workload.topic_choice is TopicChoice.RANDOM:
                turn = randomness.below(turns[-1], Purpose.TOPIC_OF_MESSAGE, number)
            topic = bisect_right(turns, turn)
            if workload.publishers is Publishers.SCRIPT:
                publisher = nodes
                inject = tuple(distinct(randomness, workload.inject, nodes, -1, Purpose.INJECTION, message))
            else:
                drawn = publishers.draw(message, topic, time_us)
                if drawn is None:
                    continue
                publisher = drawn
        own = groups[topic].size_bytes
        size_bytes = workload.size_bytes if own is None else own
        publications.append(Publication(time_us, message, topic, publisher, inject, size_bytes))
    return tuple(publications)
