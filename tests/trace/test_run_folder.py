"""Run folders: manifest, names, damage that `verify` finds, and folders that `create` refuses."""

from __future__ import annotations

import json
import os

import pytest
from rows_strategy import many_rows
from written_runs import SMALL, message_rows

from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import pa, parquet
from hearsay.trace.folder.manifest import RunFolderError, load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.reader import load_names


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    folder = RunFolder.create(path)
    writer = TraceWriter(path, **SMALL)
    writer.add(many_rows(600, seed=1))
    writer.add(message_rows(20, 10, seed=2))
    folder.write_peers([0, 1], ["zero", None], ["full", "light"], [None, "eu"], [None, None])
    folder.write_topics([0, 1], ["blöcke\n", "plain"])
    folder.write_messages([3], [0], [1], [200], [17])
    folder.write_text_atomic("config.toml", "seed = 1\n")
    folder.write_manifest(writer.close(), seed=7, complete=True)
    return path


def test_a_complete_run_passes_verify(run):
    manifest = load_manifest(run)
    assert verify(run) == []
    assert (manifest.seed, manifest.complete, manifest.trace.rows) == (7, True, 800)
    document = json.loads((run / "manifest.json").read_text())
    assert (document["format"], document["version"]) == ("hearsay-run", 1)
    classes = {"message", "rpc", "mesh", "node", "score", "exchange"}
    assert {entry["class"] for entry in document["files"]} == classes
    assert [entry["path"] for entry in document["other_files"]] == [
        "config.toml",
        "dictionary/messages.parquet",
        "dictionary/peers.parquet",
        "dictionary/topics.parquet",
    ]


def test_names(run):
    names = load_names(run)
    assert (names.peer(0), names.peer(1), names.topic(0)) == ("zero", "1", "blöcke\n")
    assert (names.find_peer("zero"), names.find_peer("12"), names.find_topic("plain")) == (0, 12, 1)
    with pytest.raises(RunFolderError, match="no topic is called 'x'"):
        names.find_topic("x")


def test_a_lone_surrogate_in_a_name_is_kept_as_its_escape(tmp_path):
    folder = RunFolder.create(tmp_path)
    folder.write_topics([0], ["bad\udcff"])
    assert load_names(tmp_path).topic(0) == "bad\\udcff"


def listed_files(run):
    manifest = load_manifest(run)
    return [file.name for file in (*manifest.trace.files, *manifest.others)]


def test_verify_finds_a_missing_file(run):
    for name in listed_files(run):
        data = (run / name).read_bytes()
        (run / name).unlink()
        assert verify(run) == [f"{name}: missing"]
        (run / name).write_bytes(data)


def test_verify_finds_a_replaced_parquet_file(run):
    name = next(name for name in listed_files(run) if name.endswith(".parquet"))
    data = (run / name).read_bytes()
    parquet.write_table(pa.table({"a": [1]}), run / name)
    (problem,) = verify(run)
    assert problem.startswith(f"{name}: changed, ")
    (run / name).write_bytes(data)


def test_verify_finds_a_truncated_file(run):
    for name in listed_files(run):
        data = (run / name).read_bytes()
        os.truncate(run / name, len(data) - 1)
        assert verify(run) == [f"{name}: changed, {len(data) - 1} bytes instead of {len(data)}"]
        (run / name).write_bytes(data)


def test_verify_finds_a_flipped_bit(run):
    for name in listed_files(run):
        data = bytearray((run / name).read_bytes())
        data[len(data) // 2] ^= 4
        (run / name).write_bytes(data)
        assert verify(run) == [f"{name}: changed, its checksum differs"]
        data[len(data) // 2] ^= 4
        (run / name).write_bytes(data)


def test_verify_finds_a_file_that_is_not_listed(run):
    (run / "trace" / "class=rpc" / "part-99999.parquet").write_bytes(b"")
    assert verify(run) == ["trace/class=rpc/part-99999.parquet: not in the manifest"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"format": "other"}', "not the manifest of a hearsay run"),
        ('{"format": "hearsay-run", "version": 2}', "version 2 is not 1"),
        ('{"format": "hearsay-run", "version": 1}', "a field is missing or wrong"),
    ],
)
def test_a_bad_manifest_is_explained(tmp_path, text, complaint):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunFolderError, match=complaint) as caught:
        load_manifest(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_manifest_cannot_point_outside(run):
    text = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(text.replace('"config.toml"', '"../config.toml"'))
    with pytest.raises(RunFolderError, match="leaves the folder"):
        load_manifest(run)


def test_a_folder_without_a_manifest_is_no_run(tmp_path):
    with pytest.raises(RunFolderError, match=r"not a run folder: it has no manifest\.json"):
        load_manifest(tmp_path)
    with pytest.raises(RunFolderError, match="does not exist"):
        load_manifest(tmp_path / "nowhere")


def test_an_unfinished_run_is_reported(tmp_path):
    RunFolder.create(tmp_path / "run").write_text_atomic("scenario.toml", "")
    message = r"run is an unfinished run \(no manifest\.json\): it was cut off, or is still being written"
    with pytest.raises(RunFolderError, match=f"{message}$"):
        load_manifest(tmp_path / "run")
    with pytest.raises(RunFolderError, match=f"{message}; choose another --out or remove it$"):
        RunFolder.create(tmp_path / "run")


def test_create_refuses_existing_runs_and_folders_of_other_files(tmp_path, run):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(RunFolderError, match="notes is not empty and not a run folder"):
        RunFolder.create(tmp_path / "notes", overwrite=True)
    with pytest.raises(RunFolderError, match="run already holds a run; choose another --out or remove it"):
        RunFolder.create(run)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="file"):
        RunFolder.create(tmp_path / "file")
    with pytest.raises(RunFolderError, match="file"):
        RunFolder.create(tmp_path / "file" / "run")
    with pytest.raises(RunFolderError, match="cannot be written"):
        RunFolder.create(type(tmp_path)("/proc/hearsay-run"))
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep"


def test_overwriting_removes_the_old_run_and_nothing_else(run):
    (run / "mine.txt").write_text("keep")
    RunFolder.create(run, overwrite=True)
    left = sorted(str(entry.relative_to(run)) for entry in run.rglob("*"))
    assert left == [".hearsay-folder", "dictionary", "mine.txt"]
