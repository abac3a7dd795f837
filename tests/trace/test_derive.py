"""Rows that are not recorded but derived: RECV_RPC from sent and dropped parts, DUPLICATE from received copies."""

from __future__ import annotations

import numpy as np
from rows_strategy import as_rows
from written_runs import write_run

from hearsay.trace.language.rows import derive_duplicates, derive_receipts, with_derived
from hearsay.trace.language.schema import PartKind, Reason, TraceEvent, TraceRow, Via
from hearsay.trace.reader import RowFilter, iter_rows, read_rows


def send(time_us, peer, remote, delay_us, kind=PartKind.PUBLISH, message=9):
    return TraceRow(
        time_us,
        TraceEvent.SEND_RPC,
        kind,
        peer,
        remote,
        topic=0,
        message=message,
        hops=1,
        bytes=200,
        via=Via.MESH,
        delay_us=delay_us,
    )


def drop(time_us, peer, remote, kind=PartKind.PUBLISH, message=9):
    return TraceRow(
        time_us,
        TraceEvent.DROP_RPC,
        kind,
        peer,
        remote,
        topic=0,
        message=message,
        bytes=200,
        reason=Reason.LOST,
    )


def message_row(event, time_us, peer, remote=None, message=9, reason=None):
    return TraceRow(time_us, event, None, peer, remote, topic=0, message=message, reason=reason)


def rows_of(*rows):
    return as_rows([row.to_codes() for row in rows])


def times_and_peers(rows):
    """Return time, receiver and sender of rows, sorted."""
    return sorted((row[0], row[3], row[4]) for row in rows.tolist())


RECORDED = (
    message_row(TraceEvent.PUBLISH, 0, 0),
    send(0, 0, 1, 10),
    send(0, 0, 2, 20),
    message_row(TraceEvent.DELIVER, 10, 1, 0),
    send(10, 1, 2, 10),
    send(10, 1, 0, 5),
    send(10, 1, 3, 30),
    drop(40, 1, 3),
    message_row(TraceEvent.DELIVER, 20, 2, 0),
    send(20, 2, 3, 40),
    send(20, 2, 1, 7),
    message_row(TraceEvent.DELIVER, 60, 3, 2),
    send(20, 2, 4, 1),
    send(50, 0, 1, 3, kind=PartKind.IHAVE, message=None),
)


def test_sent_parts_that_were_not_dropped_are_received():
    received = derive_receipts(rows_of(*RECORDED))
    assert times_and_peers(received) == [
        (10, 1, 0),
        (15, 0, 1),
        (20, 2, 0),
        (20, 2, 1),
        (21, 4, 2),
        (27, 1, 2),
        (53, 1, 0),
        (60, 3, 2),
    ]
    assert set(received[:, 1]) == {TraceEvent.RECV_RPC}


def test_a_received_row_keeps_the_columns_of_the_sent_one():
    (row,) = derive_receipts(rows_of(send(3, 1, 2, 4))).tolist()
    assert TraceRow.from_codes(row) == TraceRow(
        7,
        TraceEvent.RECV_RPC,
        PartKind.PUBLISH,
        2,
        1,
        topic=0,
        message=9,
        hops=1,
        bytes=200,
        via=Via.MESH,
        delay_us=4,
    )


def test_a_drop_cancels_one_of_two_equal_parts():
    assert len(derive_receipts(rows_of(send(0, 1, 2, 5), send(0, 1, 2, 5), drop(5, 1, 2)))) == 1
    assert len(derive_receipts(rows_of(send(0, 1, 2, 5), send(0, 1, 2, 6), drop(6, 1, 2)))) == 1
    assert len(derive_receipts(rows_of(send(0, 1, 2, 5), drop(5, 2, 1), drop(5, 1, 2, message=8)))) == 1
    assert len(derive_receipts(rows_of(send(0, 1, 2, 5), drop(5, 1, 2, kind=PartKind.IWANT)))) == 1


def test_a_part_without_a_delay_is_not_received():
    assert len(derive_receipts(rows_of(send(0, 1, 2, None)))) == 0


def test_all_but_the_first_copy_are_duplicates():
    rows = with_derived(rows_of(*RECORDED))
    duplicates = rows[rows[:, 1] == TraceEvent.DUPLICATE]
    # Node 0 published the message. Node 2 got two copies at once: the one of the smaller sender is first.
    # The first copy to node 3 was lost. Node 4 did not deliver the message, so its copy is no duplicate.
    assert times_and_peers(duplicates) == [(15, 0, 1), (20, 2, 1), (27, 1, 2)]
    (row,) = [TraceRow.from_codes(row) for row in duplicates.tolist() if row[3] == 1]
    assert row == TraceRow(27, TraceEvent.DUPLICATE, None, 1, 2, topic=0, message=9, hops=1, bytes=200)


def test_a_recorded_duplicate_or_rejection_is_not_derived_again():
    copies = (send(0, 1, 5, 1), send(0, 2, 5, 2), send(0, 3, 5, 3))
    delivered = message_row(TraceEvent.DELIVER, 1, 5, 1)
    rejected = message_row(TraceEvent.REJECT, 2, 5, 2, reason=Reason.THROTTLED)
    duplicate = message_row(TraceEvent.DUPLICATE, 3, 5, 3)
    received = derive_receipts(rows_of(*copies))
    for known, expected in [((), 2), ((rejected,), 1), ((duplicate,), 1), ((rejected, duplicate), 0)]:
        rows = np.concatenate((rows_of(delivered, *known), received))
        assert len(derive_duplicates(rows)) == expected


def test_a_rejected_message_has_duplicates_too():
    rows = rows_of(send(0, 1, 5, 1), send(0, 2, 5, 2), message_row(TraceEvent.REJECT, 1, 5, 1, reason=Reason.IGNORED))
    derived = with_derived(rows)
    assert times_and_peers(derived[derived[:, 1] == TraceEvent.DUPLICATE]) == [(2, 5, 2)]


def test_reading_with_derivation(tmp_path):
    run = tmp_path / "run"
    write_run(run, rows_of(*RECORDED))
    assert len(read_rows(run)) == len(RECORDED)
    assert len(read_rows(run, derive=True)) == len(RECORDED) + 8 + 3
    assert len(read_rows(run, {"rpc"}, derive=True)) == 2
    duplicates = iter_rows(run, RowFilter(events=[TraceEvent.DUPLICATE], peers=[1, 2]), derive=True)
    assert [(row.time_us, row.peer, row.remote) for row in duplicates] == [(20, 2, 1), (27, 1, 2)]
    duplicates = iter_rows(run, RowFilter(events=[TraceEvent.DUPLICATE], remotes=[1]), derive=True)
    assert [(row.time_us, row.peer, row.remote) for row in duplicates] == [(15, 0, 1), (20, 2, 1)]
    late = list(iter_rows(run, RowFilter(from_us=20, before_us=50), derive=True))
    assert {row.time_us for row in late} == {20, 21, 27, 40}
    assert late == sorted(late, key=lambda row: (row.time_us, row.peer))
