"""Uplinks: RPCs leave one after the other, and IDONTWANT overtakes RPCs that wait."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import RpcReceived
from hearsay.core.language.rpc import Control, Graft, IDontWant, Message, PartKind, Rpc, Subscription
from hearsay.sim.reference.nodes import Uplink, WaitingRpc, connect_pair, is_only_idontwant
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.language.schema import TraceEvent, TraceRow

IDONTWANT = Control(idontwant=(IDontWant((1,)),))


def waiting(number: int, urgent: bool = False) -> WaitingRpc:
    link = connect_pair(0, number, 10, None, None)
    return WaitingRpc(link, RpcReceived(0, Rpc()), (), number, 0, 100, urgent)


def test_idontwant_goes_ahead_of_other_rpcs():
    uplink = Uplink(0, in_order=False)
    for number, urgent in ((1, False), (2, False), (3, True), (4, False), (5, True)):
        uplink.queue_up(waiting(number, urgent), 0)
    assert [uplink.next(0).sequence for _ in range(5)] == [3, 5, 1, 2, 4]
    assert uplink.free_us == 500


def test_an_idle_uplink_is_free_now():
    uplink = Uplink(0, in_order=False)
    uplink.queue_up(waiting(1), 1000)
    uplink.next(1000)
    assert uplink.busy_until_us == uplink.free_us == 1100


@pytest.mark.parametrize(
    ("rpc", "urgent"),
    [
        (Rpc(control=IDONTWANT), True),
        (Rpc(), False),
        (Rpc(messages=(Message(1, "t", b""),), control=IDONTWANT), False),
        (Rpc((Subscription("t", True),), (), IDONTWANT), False),
        (Rpc(control=Control(graft=(Graft("t"),), idontwant=IDONTWANT.idontwant)), False),
        (Rpc(control=Control(graft=(Graft("t"),))), False),
    ],
)
def test_only_rpcs_of_idontwant_alone_are_urgent(rpc, urgent):
    assert is_only_idontwant(RpcReceived(0, rpc)) == urgent


NARROW = {
    "network.nodes": 30,
    "workload.messages": 8,
    "workload.interval_s": 2,
    "workload.size_bytes": 30_000,
    "workload.publishers": "any",
    "links.uplink_mbit": 10,
    "linger_s": 8,
}
WITH_IDONTWANT = {"router__idontwant_threshold_bytes": 1000}


def run(**keys: object) -> tuple[list[TraceRow], Simulation]:
    rows: list[TraceRow] = []
    settings = {**NARROW, **{key.replace("__", "."): value for key, value in keys.items()}}
    overrides = [(key, str(value)) for key, value in settings.items()]
    simulation = Simulation(load_scenario(None, "r1", overrides), check=True, listener=rows.append)
    assert simulation.run().problems == ()
    return rows, simulation


def sent(rows: list[TraceRow], kind: PartKind) -> list[TraceRow]:
    return [row for row in rows if row.event == TraceEvent.SEND_RPC and row.kind == kind]


def arrival_us(row: TraceRow) -> int:
    return row.time_us + (row.delay_us or 0)


def test_idontwant_spares_copies_where_uplinks_are_narrow():
    (plain_rows, plain), (idontwant_rows, with_idontwant) = run(), run(**WITH_IDONTWANT)
    assert plain.delivered == with_idontwant.delivered == 240
    plain_bytes, idontwant_bytes = (
        sum(row.bytes or 0 for row in sent(rows, PartKind.PUBLISH)) for rows in (plain_rows, idontwant_rows)
    )
    assert idontwant_bytes < 0.9 * plain_bytes
    assert with_idontwant.recorder.duplicates < plain.recorder.duplicates


def test_unwanted_copies_that_wait_are_withdrawn():
    (idontwant_rows, with_idontwant), (fewer_rows, fewer) = (
        run(**WITH_IDONTWANT),
        run(**WITH_IDONTWANT, router__withdraw_unwanted="true"),
    )
    assert fewer.delivered == with_idontwant.delivered
    assert fewer.recorder.duplicates < with_idontwant.recorder.duplicates
    idontwant_bytes, fewer_bytes = (
        sum(row.bytes or 0 for row in sent(rows, PartKind.PUBLISH)) for rows in (idontwant_rows, fewer_rows)
    )
    assert fewer_bytes < idontwant_bytes
    withdrawn = [row for row in fewer_rows if row.reason is Reason.WITHDRAWN]
    assert withdrawn
    assert {row.event for row in withdrawn} == {TraceEvent.DROP_RPC}
    unwanted = {
        (row.peer, row.remote, row.time_us + (row.delay_us or 0)) for row in sent(fewer_rows, PartKind.IDONTWANT)
    }
    assert all((row.remote, row.peer, row.time_us) in unwanted for row in withdrawn)


def test_withdrawing_keeps_the_rest_of_an_rpc():
    uplink = Uplink(0, in_order=False)
    shorter, empty = waiting(1), waiting(2)
    uplink.queue_up(shorter, 0)
    uplink.queue_up(empty, 0)
    uplink.shorten(shorter, shorter.event, ((0, 0, 0, 0, 10, 1, 0),), 30)
    uplink.shorten(empty, empty.event, (), 0)
    assert (uplink.waiting, uplink.free_us) == ([shorter], 30)


def test_an_idontwant_arrives_before_copies_that_were_sent_earlier():
    rows, _ = run(**WITH_IDONTWANT, workload__interval_s=0.05)
    copies = sent(rows, PartKind.PUBLISH)
    overtaking = [
        idontwant
        for idontwant in sent(rows, PartKind.IDONTWANT)
        if any(
            (copy.peer, copy.remote) == (idontwant.peer, idontwant.remote)
            and copy.time_us < idontwant.time_us
            and arrival_us(copy) > arrival_us(idontwant)
            for copy in copies
        )
    ]
    assert overtaking


def test_an_idontwant_waits_only_for_the_rpc_that_is_being_sent():
    rows, _ = run(**WITH_IDONTWANT, links__latency="constant", links__value_ms=10)
    whole_us = 30_200 * 8 // 10
    longest = {
        kind: max((row.delay_us or 0) - 10_000 for row in sent(rows, kind))
        for kind in (PartKind.IDONTWANT, PartKind.PUBLISH)
    }
    assert longest[PartKind.IDONTWANT] < 1.5 * whole_us  # one copy that is being sent, and RPCs with IDONTWANT
    assert longest[PartKind.PUBLISH] > 3 * whole_us


def test_rpcs_that_wait_at_the_end_are_in_the_trace():
    rows, simulation = run(linger_s=0, workload__interval_s=0.02)
    kinds = [PartKind(kind) for kind, count in enumerate(simulation.recorder.sent) if count]
    assert [len(sent(rows, kind)) for kind in kinds] == [count for count in simulation.recorder.sent if count]
    late = [row for row in sent(rows, PartKind.PUBLISH) if arrival_us(row) > simulation.plan.end_us + 200_000]
    assert late
