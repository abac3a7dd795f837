"""Signed records of addresses in an RPC: the number that is read is bounded."""

from __future__ import annotations

from hearsay.core.language.rpc import Control, Extension, Graft, Rpc
from hearsay.node.meeting.address_book import MAX_RECORDS, RECORD_FIELD, split_records


def test_the_records_read_of_an_rpc_are_bounded_and_none_stays_in_it():
    records = tuple(Extension(RECORD_FIELD, b"%d" % number) for number in range(3 * MAX_RECORDS))
    other = Extension(RECORD_FIELD + 1, b"not ours")
    rpc, taken = split_records(Rpc(control=Control(graft=(Graft("news"),), extensions=(*records, other))))
    assert taken == [record.payload for record in records[:MAX_RECORDS]]
    assert rpc == Rpc(control=Control(graft=(Graft("news"),), extensions=(other,)))
