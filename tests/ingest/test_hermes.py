"""Imports of the Parquet files of hermes, one for each of its families of events."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from hearsay.core.language.rpc import PartKind
from hearsay.ingest.import_traces import ImportResult, NothingImported, import_traces
from hearsay.ingest.source_record import tracestat
from hearsay.libp2p.names.peer_id import to_base58
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.reader import iter_rows


def read_table(path):
    return parquet.read_table(path).to_pydict()


ME, OTHER, THIRD = (to_base58(bytes([0x12, 0x20]) + bytes([number]) * 32) for number in (1, 2, 3))
RPC = {"is_og": [True], "remote_peer_id": [OTHER]}


def write(path: Path, family: str, times: list[int], **columns: list) -> Path:
    base = {"timestamp": times, "type": [family] * len(times), "producer_id": [ME] * len(times)}
    parquet.write_table(pa.table(base | columns), path, compression="snappy")
    return path


@pytest.fixture
def files(tmp_path) -> list[Path]:
    return [
        write(
            tmp_path / "add_remove_1.parquet",
            "add_remove",
            [1_000, 9_000],
            sub_type=["add_peer", "remove_peer"],
            remote_peer_id=[OTHER] * 2,
        ),
        write(
            tmp_path / "graft_prune_2.parquet",
            "graft_prune",
            [1_001, 8_000],
            sub_type=["graft", "prune"],
            remote_peer_id=[OTHER] * 2,
            topic=["blocks"] * 2,
        ),
        write(
            tmp_path / "join_leave_3.parquet",
            "join_leave",
            [1_002, 8_500],
            sub_type=["join_topic", "leave_topic"],
            topic=["blocks"] * 2,
        ),
        write(
            tmp_path / "msg_arrival_4.parquet",
            "msg_arrival",
            [2_000, 2_001, 2_002, 2_003],
            sub_type=["deliver_msg", "handle_msg", "duplicated_msg", "reject_msg"],
            remote_peer_id=[OTHER, OTHER, THIRD, OTHER],
            topic=["blocks"] * 4,
            msg_id=["aabb", "aabb", "aabb", "ccdd"],
            local=[False] * 4,
            msg_size=[120, 100, 120, 70],
            seq_no=[""] * 4,
        ),
        write(
            tmp_path / "ihave_5.parquet",
            "ihave",
            [3_000],
            **RPC,
            direction=["in"],
            topic=["blocks"],
            msg_ids=[["aabb", "ccdd"]],
            msgs=[2],
        ),
        write(tmp_path / "iwant_6.parquet", "iwant", [3_001], **RPC, direction=["out"], msg_ids=[["ccdd"]], msgs=[1]),
        write(
            tmp_path / "idontwant_7.parquet",
            "idontwant",
            [3_002],
            **RPC,
            direction=["drop"],
            msg_ids=[["aabb"]],
            msgs=[1],
        ),
        write(
            tmp_path / "sent_msg_8.parquet",
            "sent_msg",
            [3_003],
            **RPC,
            direction=["out"],
            msg_id=["aabb"],
            topic=["blocks"],
        ),
        write(
            tmp_path / "peer_exchange_9.parquet",
            "peer_exchange",
            [3_004],
            **RPC,
            direction=["in"],
            topic=["blocks"],
            px_peers=[[THIRD]],
        ),
        write(
            tmp_path / "control_rpc_10.parquet",
            "control_rpc",
            [3_000],
            **RPC,
            direction=["in"],
            ihaves=[1],
            iwants=[0],
            idontwants=[0],
            sent_msgs=[0],
        ),
        write(
            tmp_path / "connect_disconnect_11.parquet",
            "connect_disconnect",
            [900],
            sub_type=["connect_peer"],
            remote_peer_id=[OTHER],
            remote_peer_maddrs=["/ip4/127.0.0.1"],
            agent_version=["Lighthouse/v7"],
            direction=["Outbound"],
            opened=[900],
            limited=[False],
        ),
        generic(tmp_path / "generic_12.parquet"),
    ]


def generic(path: Path) -> Path:
    payload = json.dumps({"MsgID": b64encode(b"\xee\xff").decode(), "Topic": "blocks"})
    table = pa.table(
        {
            "timestamp": [4_000, 4_001],
            "type": ["PUBLISH_MESSAGE", "HANDLE_STATUS"],
            "producer_id": [ME] * 2,
            "topic": ["", ""],
            "payload": [payload, "{}"],
        }
    )
    parquet.write_table(table, path)
    return path


def imported(tmp_path: Path, *files: Path) -> tuple[Path, ImportResult]:
    run = tmp_path / "run"
    done = import_traces(files, RunFolder.create(run))
    assert verify(run) == []
    return run, done


def test_every_family_becomes_rows(tmp_path, files):
    run, done = imported(tmp_path, *files)
    assert not done.record.quarantined
    assert done.record.formats == ("hermes",)
    assert done.record.origin_unix_ns == 900_000_000
    names = read_table(run / "dictionary/peers.parquet")["name"]
    me, other, third = names.index(ME), names.index(OTHER), names.index(THIRD)
    ids = read_table(run / "dictionary/messages.parquet")["id"]
    block, rejected, own = ids.index("aabb"), ids.index("ccdd"), ids.index("eeff")
    found = {
        (row.time_us // 1000 + 900, row.event, row.kind, row.remote, row.topic, row.message, row.bytes, row.count)
        for row in iter_rows(run)
    }
    assert found == {
        (1_000, TraceEvent.ADD_PEER, None, other, None, None, None, None),
        (9_000, TraceEvent.REMOVE_PEER, None, other, None, None, None, None),
        (1_001, TraceEvent.GRAFT, None, other, 0, None, None, None),
        (8_000, TraceEvent.PRUNE, None, other, 0, None, None, None),
        (1_002, TraceEvent.JOIN, None, None, 0, None, None, None),
        (8_500, TraceEvent.LEAVE, None, None, 0, None, None, None),
        (2_000, TraceEvent.DELIVER, None, other, 0, block, 120, None),
        (2_002, TraceEvent.DUPLICATE, None, third, 0, block, 120, None),
        (2_003, TraceEvent.REJECT, None, other, 0, rejected, 70, None),
        (3_000, TraceEvent.RECV_RPC, PartKind.IHAVE, other, 0, None, None, 2),
        (3_001, TraceEvent.SEND_RPC, PartKind.IWANT, other, None, None, None, 1),
        (3_002, TraceEvent.DROP_RPC, PartKind.IDONTWANT, other, None, None, None, 1),
        (3_003, TraceEvent.SEND_RPC, PartKind.PUBLISH, other, 0, block, None, 1),
        (3_004, TraceEvent.RECV_RPC, PartKind.PRUNE, other, 0, None, None, 1),
        (4_000, TraceEvent.PUBLISH, None, None, 0, own, None, None),
    }
    assert {row.peer for row in iter_rows(run)} == {me}


def test_dictionaries_have_what_hermes_knows_of_peers_and_messages(tmp_path, files):
    run, _ = imported(tmp_path, *files)
    peers = read_table(run / "dictionary/peers.parquet")
    described = dict(zip(peers["name"], zip(peers["role"], peers["implementation"], strict=True), strict=True))
    assert described[OTHER] == ("mentioned", "Lighthouse/v7")
    assert described[ME] == ("traced", None)
    messages = read_table(run / "dictionary/messages.parquet")
    assert dict(zip(messages["id"], messages["bytes"], strict=True)) == {"aabb": 100, "ccdd": None, "eeff": None}
    assert dict(zip(messages["id"], messages["publisher"], strict=True))["eeff"] == peers["name"].index(ME)


def test_tracestat_does_not_guess_rpcs(tmp_path, files):
    run, _ = imported(tmp_path, *files)
    assert "Sent RPCs: unknown" in tracestat(run)
    assert "Delivered Messages: 1\n" in tracestat(run)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sub_type": ["add_peer", "fire_peer"]}, "unknown sub_type 'fire_peer'"),
        ({"remote_peer_id": ["0OIl", OTHER]}, "remote_peer_id: '0OIl' is not a peer id"),
        ({"remote_peer_id": [None, OTHER]}, "a row has no remote_peer_id"),
        ({"producer_id": ["", ME]}, "a row has no producer_id"),
        ({"timestamp": [-1, 0]}, "a negative timestamp"),
        ({"timestamp": [2**62, 0]}, "a timestamp is out of range"),
        ({"timestamp": ["a", "b"]}, "column timestamp is string, not whole numbers"),
        ({"type": ["add_remove", "ihave"]}, "mixed"),
        ({"type": ["news", "news"]}, "unknown hermes family 'news'"),
        ({"sub_type": [1, 2]}, "column sub_type is int64, not string"),
    ],
)
def test_bad_columns_are_named(tmp_path, change, reason):
    base = {"sub_type": ["add_peer", "remove_peer"], "remote_peer_id": [OTHER] * 2}
    path = write(tmp_path / "add_remove.parquet", "add_remove", [1, 2], **(base | change))
    with pytest.raises(NothingImported) as caught:
        import_traces([path], RunFolder.create(tmp_path / "run"))
    assert caught.value.record.files[0].reason.startswith(reason)


def test_another_parquet_file_is_foreign(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(NothingImported) as caught:
        import_traces([path], RunFolder.create(tmp_path / "run"))
    assert caught.value.record.files[0].reason.startswith("foreign: no hermes events")


def test_a_cut_or_damaged_parquet_file_is_refused_or_whole(tmp_path, files):
    whole = files[3].read_bytes()
    path = tmp_path / "cut.parquet"
    for size in range(4, len(whole), 29):
        path.write_bytes(whole[:size])
        with pytest.raises(NothingImported):
            import_traces([path], RunFolder.create(tmp_path / f"run{size}"))
