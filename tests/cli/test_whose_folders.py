"""Commands that write refuse files of other programs and users in one line, and change no byte of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from commands import HEARSAY, hearsay, started

from hearsay.pipeline.output.folders import WORK, Folder
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.output.tables import TABLES, arrow_schema, read_table
from hearsay.pipeline.run_facts import load_runs
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.manifest import RunFolderError, load_manifest
from hearsay.trace.folder.own_folders import MARKER, Holds, claim
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.reader import load_names

TRACE = Path(__file__).parents[1] / "ingest" / "data" / "go-0.16.pb.gz"
SMALL = ("--nodes", 8, "--messages", 1, "--engine", "reference")
STUDY = """
seeds = 1
[base]
preset = "r1"
network.nodes = 8
workload.messages = 1
[[axes]]
key = "loss.rate"
values = [0, 0.1]
"""
BUDGET = """
seeds = 1
[[cases]]
name = "small"
base = { preset = "r1", network.nodes = 8, workload.messages = 1 }
[cases.budgets]
delivery_ratio = { at_least = 0.5 }
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """A run, a study and budgets."""
    folder = tmp_path_factory.mktemp("inputs")
    assert hearsay("simulate", *SMALL, "--out", folder / "theirs").returncode == 0
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "budget.toml").write_text(BUDGET, encoding="utf-8")
    return folder


def make_foreign(path: Path) -> None:
    """Make a folder with the names of files and folders that Hearsay writes, but none written by Hearsay."""
    texts = {
        "manifest.json": '{"format": "their own", "files": []}',
        "summary.json": '{"sum": 1}',
        "scenario.toml": "theirs = true",
        "study.toml": "theirs = true",
        "report.html": "<!DOCTYPE html><p>their report</p>",
        "dictionary/words.txt": "a b c",
        "trace/class=message/part-00000.parquet": "theirs",
        "metrics/headline/part-00000.parquet": "theirs",
        "metrics/headline/_SUCCESS": "",
        "whole/manifest.json": "{}",
        "00000/manifest.json": "{}",
        "gossipsub/notes.txt": "theirs",
        "scenarios/one.toml": "",
        "tables/runs.csv": "1",
    }
    for name, text in texts.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    (path / "results").mkdir()
    table = pyarrow.table({"mine": [1, 2]})
    for name in ("mine", "0" * 32):
        pyarrow.parquet.write_table(table, path / "results" / f"{name}.parquet")


def snapshot(path: Path) -> dict[str, object]:
    """Return mode, modification time in ns, inode and content of a folder and all its entries."""
    found: dict[str, object] = {}
    for entry in (path, *sorted(path.rglob("*"))):
        status = entry.lstat()
        content = os.readlink(entry) if entry.is_symlink() else entry.read_bytes() if entry.is_file() else None
        found[str(entry.relative_to(path))] = status.st_mode, status.st_mtime_ns, status.st_ino, content
    return found


WRITERS = {
    "simulate": lambda inputs, out: ("simulate", *SMALL, "--out", out),
    "demo": lambda inputs, out: ("demo", "--nodes", 8, "--messages", 1, "--out", out),
    "node": lambda inputs, out: ("node", "--trace", out),
    "analyze": lambda inputs, out: ("analyze", inputs / "theirs", "--out", out.parent),
    "follow": lambda inputs, out: (
        "analyze", inputs / "theirs", "--follow", "--until-complete", "--out", out.parent
    ),
    "sweep": lambda inputs, out: ("sweep", inputs / "study.toml", "--out", out),
    "sweep --dry-run": lambda inputs, out: ("sweep", inputs / "study.toml", "--dry-run", "--out", out),
    "compare": lambda inputs, out: ("compare", "r1", "--set", "network.nodes=8", "--seeds", 2, "--out", out),
    "check": lambda inputs, out: ("check", inputs / "budget.toml", "--out", out),
    "import": lambda inputs, out: ("trace", "import", TRACE, "--out", out),
    "report": lambda inputs, out: ("report", inputs / "theirs", "--out", out / "report.html"),
}  # fmt: skip


def assert_refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (1, 2), done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("writer", WRITERS)
def test_a_foreign_folder_stays_as_it_is(inputs, tmp_path, writer):
    make_foreign(tmp_path / "theirs")
    before = snapshot(tmp_path)
    assert_refused(hearsay(*WRITERS[writer](inputs, tmp_path / "theirs")))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "report"])
def test_a_link_is_not_written_through(inputs, tmp_path, writer):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "theirs").symlink_to("elsewhere")
    before = snapshot(tmp_path)
    done = hearsay(*WRITERS[writer](inputs, tmp_path / "theirs"))
    assert_refused(done)
    assert "link" in done.stderr
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_in_place_of_the_folder_stays(inputs, tmp_path, writer):
    (tmp_path / "theirs").write_text("letters", encoding="utf-8")
    before = snapshot(tmp_path)
    done = hearsay(*WRITERS[writer](inputs, tmp_path / "theirs"))
    assert done.returncode in (1, 2)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("writer", ["simulate", "node", "analyze", "sweep"])
def test_a_folder_that_may_not_be_written_is_refused_in_a_line(inputs, tmp_path, writer):
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("root may write everywhere, and there is no setpriv to become another user")
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "theirs").mkdir(mode=0o555)
    before = snapshot(locked)
    command = [str(HEARSAY), *map(str, WRITERS[writer](inputs, locked / "theirs"))]
    if os.geteuid() == 0:
        # Root without the right to override modes; a program that all users may read stays readable.
        command = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", *command]
        for folder in (inputs, tmp_path, locked):
            os.chown(folder, 0, 0)
        os.chown(locked / "theirs", 65534, 65534)
        before = snapshot(locked)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert_refused(done)
    assert "Permission denied" in done.stderr
    assert snapshot(locked) == before


def test_a_dry_run_writes_nothing_at_all(inputs, tmp_path):
    for writer, runs in {"sweep": 2, "compare": 4, "check": 1}.items():
        done = hearsay(*WRITERS[writer](inputs, tmp_path / "new"), "--dry-run", cwd=tmp_path)
        assert (done.returncode, list(tmp_path.iterdir())) == (0, [])
        assert f"to make: {runs}" in done.stdout


def test_tables_are_not_written_through_a_link_given_as_out(inputs, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    done = hearsay("analyze", inputs / "theirs", "--out", tmp_path / "link")
    assert_refused(done)
    assert f"{tmp_path / 'link'}: is a link, and links are not written through" in done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("link", ["metrics", "dictionary"])
def test_a_link_within_our_own_folder_is_not_written_through(inputs, tmp_path, link):
    run = tmp_path / "theirs"
    shutil.copytree(inputs / "theirs", run)
    if (run / link).exists():
        (run / link).rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").mkdir()
    (run / link).symlink_to("../elsewhere")
    before = snapshot(tmp_path)
    assert_refused(hearsay("analyze", run))
    assert snapshot(tmp_path) == before


def test_a_foreign_folder_of_metrics_in_a_run_of_ours_stays(inputs, tmp_path):
    run = tmp_path / "theirs"
    shutil.copytree(inputs / "theirs", run)
    (run / "metrics" / "headline").mkdir(parents=True)
    (run / "metrics" / "headline" / "part-00000.parquet").write_text("mine", encoding="utf-8")
    before = snapshot(tmp_path)
    assert_refused(hearsay("analyze", run))
    assert snapshot(tmp_path) == before


def test_the_tables_of_one_run_do_not_take_the_place_of_another_run(inputs, tmp_path):
    shutil.copytree(inputs / "theirs", tmp_path / "theirs")
    before = snapshot(tmp_path)
    done = hearsay("analyze", inputs / "theirs", "--out", tmp_path)
    assert_refused(done)
    assert "is a run folder, not the folder of an analysis" in done.stderr
    assert snapshot(tmp_path) == before


def test_a_node_does_not_go_on_with_a_simulated_run(inputs, tmp_path):
    shutil.copytree(inputs / "theirs", tmp_path / "theirs")
    before = snapshot(tmp_path)
    assert_refused(hearsay("node", "--trace", tmp_path / "theirs"))
    assert snapshot(tmp_path) == before


def test_a_file_that_is_no_report_is_not_overwritten(inputs, tmp_path):
    letter = tmp_path / "letter.html"
    letter.write_text('<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Hello', encoding="utf-8")
    (tmp_path / "pipe").symlink_to(letter)
    before = snapshot(tmp_path)
    for target in (letter, tmp_path / "pipe"):
        done = hearsay("report", inputs / "theirs", "--out", target)
        assert_refused(done)
        assert "choose another --out" in done.stderr
    assert snapshot(tmp_path) == before


def test_the_second_analysis_of_a_run_reports_the_first(inputs, tmp_path):
    shutil.copytree(inputs / "theirs", tmp_path / "theirs")
    with Folder(tmp_path / "theirs").claim(tmp_path / "theirs"):
        done = hearsay("analyze", tmp_path / "theirs")
    assert_refused(done)
    assert f"process {os.getpid()} on" in done.stderr
    assert not (tmp_path / "theirs" / "metrics").exists()


def test_the_second_node_with_one_trace_reports_the_first(tmp_path):
    command = ("node", "--subscribe", "news", "--trace", tmp_path / "trace")
    first = started(*command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert "listening" in first.stderr.readline()
        before = snapshot(tmp_path / "trace")
        second = hearsay(*command)
        assert_refused(second)
        assert f"hearsay node (process {first.pid}" in second.stderr
        assert snapshot(tmp_path / "trace").keys() >= before.keys()
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)
    assert verify(tmp_path / "trace") == []


def test_the_second_writer_of_a_run_and_of_a_study_reports_the_first(inputs, tmp_path):
    own = RunFolder.create(tmp_path / "run")
    for what, folder, name in (("simulate", own, "run"), ("study", claim(tmp_path / "study", Holds.STUDY), "study")):
        writer = WRITERS["simulate" if what == "simulate" else "sweep"]
        done = hearsay(*writer(inputs, tmp_path / name))
        assert_refused(done)
        assert "is an unfinished run" in done.stderr or f"process {os.getpid()} on" in done.stderr
        assert folder is not None


HOLD = """
import os, sys
from pathlib import Path
from hearsay.trace.folder.own_folders import Holds, claim
own = claim(Path(sys.argv[1]), Holds.STUDY)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert (tmp_path / ".hearsay-study.lock").exists()
    holder.kill()
    holder.communicate()
    claim(tmp_path, Holds.STUDY).release()
    assert [entry.name for entry in tmp_path.iterdir()] == [MARKER]


def test_a_run_without_a_marker_is_read_and_not_written_into(inputs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(inputs / "theirs", run)
    (run / MARKER).unlink()
    before = {path.name for path in run.rglob("*")}
    for write in (lambda: Folder(run).claim(run), lambda: RunFolder.create(run, overwrite=True)):
        with pytest.raises(RunFolderError, match="is not empty and not"):
            write()
    assert {path.name for path in run.rglob("*")} == before
    assert verify(run) == []


def test_files_of_others_in_a_run_stay_when_the_run_is_replaced(inputs, tmp_path):
    run = tmp_path / "theirs"
    shutil.copytree(inputs / "theirs", run)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "part-00000.parquet").write_text("outside", encoding="utf-8")
    (run / "trace" / "class=other").symlink_to("../../outside")
    mine = [run / "notes.txt", run / "trace" / "notes.txt", run / "trace" / "class=message" / "mine.parquet"]
    for file in mine:
        file.write_text("mine", encoding="utf-8")
    RunFolder.create(run, overwrite=True)
    assert [file.read_text() for file in mine] == ["mine"] * 3
    assert (tmp_path / "outside" / "part-00000.parquet").read_text() == "outside"
    left = sorted(str(entry.relative_to(run)) for entry in run.rglob("*") if entry.is_symlink() or not entry.is_dir())
    assert left == [
        MARKER, "notes.txt", "trace/class=message/mine.parquet", "trace/class=other", "trace/notes.txt"
    ]  # fmt: skip


def analysis(output: Path, router: str) -> TableStore:
    """Return the unpublished tables of one run: one line in the table `headline`, none in the others."""
    store = TableStore({"one": Folder(output)})
    for table in TABLES:
        line = {"run": "one", "topic": 0, "router": router} if table == "headline" else None
        store.write(table, pyarrow.Table.from_pylist([line] if line else [], arrow_schema(TABLES[table])))
    return store


def routers(output: Path) -> list[str]:
    return read_table(output, "headline").column("router").to_pylist()


def test_files_of_others_among_the_tables_stay(tmp_path):
    analysis(tmp_path, "first").publish()
    mine = [tmp_path / "metrics" / name for name in ("notes.txt", "headline/mine.csv", "headline/part-old.parquet")]
    for file in mine:
        file.write_text("mine", encoding="utf-8")
    (tmp_path / "metrics" / "headline" / "_SUCCESS").touch()
    analysis(tmp_path, "second").publish()
    assert routers(tmp_path) == ["second"]
    assert [file.read_text() for file in mine] == ["mine"] * 3
    assert len(list((tmp_path / "metrics").glob("headline/*"))) == 3
    assert len(list((tmp_path / "metrics").glob("manifest-*.json"))) == 1


def test_tables_of_an_analysis_that_was_killed_before_its_manifest_are_invisible_and_go(tmp_path):
    analysis(tmp_path, "first").publish()
    analysis(tmp_path, "killed")
    (tmp_path / WORK / "metrics" / "headline").rename(tmp_path / "headline")
    for file in (tmp_path / "headline").iterdir():
        file.rename(tmp_path / "metrics" / "headline" / file.name)
    assert routers(tmp_path) == ["first"]
    analysis(tmp_path, "third").publish()
    assert routers(tmp_path) == ["third"]
    assert len(list((tmp_path / "metrics").glob("headline/*.parquet"))) == 1
    assert not (tmp_path / WORK).exists()


def test_a_work_folder_that_is_not_ours_is_refused(tmp_path):
    (tmp_path / WORK).mkdir()
    (tmp_path / WORK / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunFolderError, match="is not empty and not"):
        analysis(tmp_path, "first")
    assert (tmp_path / WORK / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("command", ["simulate", "sweep", "node", "compare", "join", "show"])
def test_commands_that_reach_no_store_refuse_a_uri_in_a_line(inputs, tmp_path, command):
    options = {
        "simulate": ("simulate", "--out", "s3a://bucket/run"),
        "sweep": ("sweep", inputs / "study.toml", "--out", "s3a://bucket/run"),
        "node": ("node", "--subscribe", "news", "--trace", "hdfs:///run"),
        "compare": ("compare", "a.toml", "b.toml", "--out", "s3a://bucket/run"),
        "join": ("trace", "join", "s3a://bucket/one", "--out", "both"),
        "show": ("trace", "show", "s3a://bucket/run"),
    }[command]
    done = hearsay(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert "only analyze, report and trace import can use a store" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_uri_is_a_path(tmp_path):
    done = hearsay("simulate", "--nodes", "5", "--messages", "1", "--out", f"file://{tmp_path}/run")
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "run") == []


MANIFESTS = (
    '{"format": "hearsay-run", "version": 1, "trace_rows": 1e999}',
    "[" * 200_000,
    '{"format": "hearsay-run", "version": ' + "9" * 10_000 + "}",
    b"\xff\xfe\x00",
    "[]",
)
FIELDS = {
    "files": [[1], "text", [{"class": "message"}], [None]],
    "trace_rows": [1e300, -5, 1 << 70, "3", None, True],
    "other_files": [[{"path": "", "bytes": 0, "sha256": ""}], [{"path": 5}], {}],
    "spanning_messages": [["x"], [1 << 64]],
    "seed": [[], 1.5],
    "created_by": [[1, 2], {"a": 5}],
    "complete": ["no"],
}
READERS = {
    "analyze": ("analyze",),
    "tracestat": ("analyze", "--format", "tracestat"),
    "follow": ("analyze", "--follow", "--until-complete"),
    "show": ("trace", "show"),
    "diff": ("trace", "diff"),
}


def changed_manifest(run: Path, field: str, value: object) -> str:
    return json.dumps(json.loads((run / "manifest.json").read_text()) | {field: value})


def hostile_manifests(inputs: Path) -> list[str | bytes]:
    run = inputs / "theirs"
    return [*MANIFESTS, *(changed_manifest(run, field, value) for field in FIELDS for value in FIELDS[field])]


def test_a_hostile_manifest_is_an_error_of_one_line(inputs, tmp_path):
    for text in hostile_manifests(inputs):
        (tmp_path / "manifest.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(RunFolderError, match=r"manifest\.json: ") as caught:
            load_manifest(tmp_path)
        assert len(str(caught.value)) < 400
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_a_hostile_manifest_is_a_line_for_every_reader(inputs, tmp_path, reader):
    run = tmp_path / "run"
    shutil.copytree(inputs / "theirs", run)
    (run / "manifest.json").write_text("[" * 200_000, encoding="utf-8")
    done = hearsay(*READERS[reader], run, *([run] if reader == "diff" else []))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("spark: ")]
    assert "manifest.json: " in lines[0]
    assert len(lines) == (2 if reader in ("analyze", "tracestat") else 1)


def hostile_dictionary(kind: str) -> pyarrow.Table:
    """Return a dictionary of peers with wrong columns, or too many rows."""
    numbers, texts = pyarrow.array([0, 1]), pyarrow.array(["a", "b"])
    lists = pyarrow.array([["a"], ["b"]])
    return {
        "lists as names": pyarrow.table({"peer": numbers, "name": lists, "role": texts}),
        "lists as numbers": pyarrow.table({"peer": lists, "name": texts, "role": texts}),
        "fractions": pyarrow.table({"peer": pyarrow.array([0.5, 1e300]), "name": texts, "role": texts}),
        "bytes": pyarrow.table({"peer": numbers, "name": pyarrow.array([b"\xff", b""]), "role": texts}),
        "no name": pyarrow.table({"peer": numbers, "role": texts}),
        "millions of rows": pyarrow.table({
            "peer": pyarrow.array([0] * 2_000_000), "name": ["a"] * 2_000_000, "role": ["a"] * 2_000_000
        }),
    }[kind]  # fmt: skip


KINDS = ["lists as names", "lists as numbers", "fractions", "bytes", "no name", "millions of rows"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_dictionary_is_an_error_of_one_line(inputs, tmp_path, kind):
    shutil.copytree(inputs / "theirs", tmp_path / "run")
    file = tmp_path / "run" / "dictionary" / "peers.parquet"
    pyarrow.parquet.write_table(hostile_dictionary(kind), file, compression="zstd")
    assert file.stat().st_size < 30_000
    for read in (load_names, lambda run: load_runs([run])):
        if kind in ("lists as numbers", "fractions", KINDS[-1]) or read is load_names:
            with pytest.raises(RunFolderError, match=r"peers\.parquet: ") as caught:
                read(tmp_path / "run")
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reader", ["show", "diff", "tracestat"])
def test_a_hostile_dictionary_is_a_line_for_every_reader(inputs, tmp_path, reader):
    run = tmp_path / "run"
    shutil.copytree(inputs / "theirs", run)
    pyarrow.parquet.write_table(hostile_dictionary("lists as names"), run / "dictionary" / "peers.parquet")
    done = hearsay(*READERS[reader], run, *([run] if reader == "diff" else []))
    assert done.returncode == 1 or reader == "diff"
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", '{"simulated_seconds": 1e999}'),
        ("summary.json", '{"simulated_seconds": NaN}'),
        ("summary.json", '{"simulated_seconds": 1e300}'),
        ("summary.json", "[1, 2]"),
        ("summary.json", "[" * 200_000),
        ("scenario.toml", "linger_s = inf"),
        ("scenario.toml", "linger_s = nan"),
        ("scenario.toml", 'linger_s = "long"'),
        ("scenario.toml", "x = " + "[" * 200_000),
    ],
)
def test_a_hostile_summary_or_scenario_is_an_error_of_one_line(inputs, tmp_path, name, text):
    shutil.copytree(inputs / "theirs", tmp_path / "run")
    (tmp_path / "run" / name).write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=name) as caught:
        load_runs([tmp_path / "run"])
    assert "\n" not in str(caught.value)
