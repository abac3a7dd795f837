"""Invalid messages: which messages are invalid for which nodes, and how far they are forwarded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import Verdict
from hearsay.core.rules.randomness import Randomness
from hearsay.sim.plan.plan import Verdicts, make_plan
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.language.schema import TraceEvent, TraceRow

SETTINGS = {
    "network.nodes": 30,
    "workload.messages": 40,
    "workload.interval_s": 0.2,
    "workload.publishers": "any",
    "topics": "[{name = 'a'}, {name = 'b'}]",
    "linger_s": 4,
}


def scenario(invalid: str, **keys: object):
    settings = {**SETTINGS, "validation.invalid": invalid, **keys}
    return load_scenario(None, "r1", [(key, str(value)) for key, value in settings.items()])


def rows(invalid: str, **keys: object) -> tuple[list[TraceRow], Simulation]:
    found: list[TraceRow] = []
    simulation = Simulation(scenario(invalid, **keys), check=True, listener=found.append)
    assert simulation.run().problems == ()
    return found, simulation


@pytest.mark.parametrize(("verdict", "reason"), [("reject", Reason.REJECTED), ("ignore", Reason.IGNORED)])
def test_an_invalid_message_goes_one_hop(verdict, reason):
    found, simulation = rows(f"[{{listed = [1, 2, 3, 4, 5, 6, 7, 8], verdict = '{verdict}'}}]")
    publisher_of = {each.message: each.publisher for each in simulation.plan.publications}
    invalid = {message for message, publisher in publisher_of.items() if 1 <= publisher <= 8}
    assert 3 < len(invalid) < 30
    assert {row.message for row in found if row.event == TraceEvent.REJECT} == invalid
    assert {row.reason for row in found if row.event == TraceEvent.REJECT} == {reason}
    assert simulation.engine.figures().refused == len(invalid)
    delivered = Counter(row.message for row in found if row.event == TraceEvent.DELIVER)
    assert {delivered[message] for message in invalid} == {1}  # at the publisher
    assert {delivered[message] for message in publisher_of if message not in invalid} == {30}


def test_invalid_messages_do_not_count_as_undelivered():
    _, simulation = rows("[{share = 0.5}]")
    assert simulation.engine.figures().eligible == simulation.engine.figures().reached > 0


def test_nodes_of_the_same_entry_forward_their_invalid_messages():
    kind = "listed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    found, simulation = rows(f"[{{{kind}, forwards_invalid = true}}]")
    publisher_of = {each.message: each.publisher for each in simulation.plan.publications}
    invalid = {message for message, publisher in publisher_of.items() if 1 <= publisher <= 10}
    taken = [row for row in found if row.event == TraceEvent.DELIVER and row.message in invalid]
    assert {row.peer for row in taken} == set(range(1, 11))
    assert len(taken) > 3 * len(invalid)
    assert any(row.remote not in (None, publisher_of[row.message or 0]) for row in taken), "no node forwarded any"


def test_topics_and_shares_of_messages():
    plan = make_plan(scenario("[{topics = ['b'], message_share = 0.5}]", **{"workload.messages": 400}))
    verdicts = Verdicts(plan, Randomness(1))
    refused = [each for each in plan.publications if verdicts.of(0, each.message) is Verdict.REJECT]
    assert {each.topic for each in refused} == {1}
    assert 70 < len(refused) < 130
    assert all(verdicts.of(node, each.message) is Verdict.REJECT for node in range(30) for each in refused)


def test_the_last_entry_that_fits_holds():
    plan = make_plan(scenario("[{}, {listed = [3], verdict = 'ignore'}]", **{"workload.messages": 200}))
    verdicts = Verdicts(plan, Randomness(1))
    by = {each.publisher: verdicts.of(0, each.message) for each in plan.publications}
    assert by.pop(3) is Verdict.IGNORE
    assert set(by.values()) == {Verdict.REJECT}


@pytest.mark.parametrize("delay_ms", [0, 700])
@pytest.mark.parametrize(
    "invalid",
    [
        "[{share = 0.4, verdict = 'ignore'}]",
        "[{listed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], forwards_invalid = true}, {listed = [3], verdict = 'ignore'}]",
        "[{topics = ['b'], message_share = 0.5}, {share = 0.3, forwards_invalid = true, message_share = 0.7}]",
    ],
)
def test_the_array_engine_gives_the_same_rows(invalid, delay_ms):
    wanted = scenario(invalid, linger_s=1, **{"validation.delay_ms": delay_ms, "validation.reject_share": 0.1})
    summaries = [Simulation(wanted, engine=engine).run().summary for engine in ("reference", "array")]
    assert summaries[0] == replace(summaries[1], engine="reference")


@pytest.mark.parametrize("delay_ms", [0, 20])
def test_both_engines_count_the_messages_that_were_refused(delay_ms):
    keys = {**SETTINGS, "router.validate": "true", "validation.delay_ms": delay_ms, "validation.reject_share": 0.4}
    wanted = load_scenario(None, "r1", [(key, str(value)) for key, value in keys.items()])
    found: list[TraceRow] = []
    summary = Simulation(wanted, listener=found.append).run().summary
    refused = {row.message for row in found if row.event == TraceEvent.REJECT and row.reason == Reason.REJECTED}
    assert 5 < len(refused) < 35
    assert summary.refused == Simulation(wanted, engine="array").run().summary.refused == len(refused)
