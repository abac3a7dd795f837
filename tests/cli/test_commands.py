"""The real command: what it prints, what it leaves behind, how it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEARSAY = Path(sys.executable).with_name("hearsay")
SMALL = ("--nodes", "30", "--messages", "3")


def hearsay(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(HEARSAY), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert "Traceback" not in done.stderr
    return done


def refuse_constants(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def summary_of(*arguments: object) -> dict[str, object]:
    done = hearsay("simulate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=refuse_constants)


def test_json_has_the_keys_of_the_contract_and_nothing_else_is_on_stdout():
    summary = summary_of("--preset", "simsub", *SMALL)
    assert list(summary) == [
        "router", "engine", "seed", "nodes", "messages", "fanout", "publish", "deliver", "delivery_ratio",
        "duplicates", "sent", "latency_ms", "hops", "simulated_seconds", "events", "trace_hash", "complete",
    ]  # fmt: skip
    assert list(summary["latency_ms"]) == ["p50", "p90", "p99", "max"]
    assert list(summary["hops"]) == ["mean", "max"]
    assert (summary["publish"], summary["deliver"], summary["sent"]["connect"]) == (15, 90, 300)


def test_flags_change_the_scenario():
    arguments = ("--router", "floodsub", "--connect", 3, "--fanout", 2, "--message-delay", 0.5, "--seed", 7)
    summary = summary_of(*SMALL, *arguments, "--engine", "reference")
    assert (summary["router"], summary["seed"], summary["fanout"]) == ("floodsub", 7, 2)
    assert summary["sent"]["connect"] == 90
    assert summary["simulated_seconds"] == 5 + 3 * 0.5 + 10


def test_no_messages():
    summary = summary_of("--nodes", "10", "--messages", "0")
    assert (summary["delivery_ratio"], summary["latency_ms"]["p50"], summary["hops"]["max"]) == (None, None, None)
    shown = hearsay("simulate", "--nodes", "10", "--messages", "0")
    assert "no messages" in shown.stdout
    assert "nan" not in shown.stdout.lower()


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_or_two_nodes(nodes):
    assert summary_of("--nodes", nodes, "--messages", 3)["deliver"] == 3 * nodes


def test_people_see_counters_and_a_histogram():
    shown = hearsay("simulate", "--preset", "simsub", *SMALL).stdout
    assert "=== simulation summary ===\n" in shown
    assert "deliver: 90\n" in shown
    assert "█" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nodse", "5"), "--nodes"),
        (("--nodes", "many"), "'many' is not a valid integer"),
        (("--nodes", "0"), "0 is not in the range 1<=x<=100000000"),
        (("--preset", "simsb"), "did you mean 'simsub'?"),
        (("--router", "gosipsub"), "no router 'gosipsub'; there are episub, floodsub, gossipsub"),
        (("--set", "network.nods=4"), "--set network.nods=4: unknown key, did you mean 'nodes'?"),
        (("--set", "loss.rate=2"), "--set loss.rate=2: must be in 0…1"),
        (("--set", "router.degree_low=9"), "must not be above degree (6)"),
        (("--set", "nodes"), "write it as section.key=value"),
        (("nowhere.toml",), "nowhere.toml: no such file"),
        (("--engine", "array", "--router", "episub"), "--engine array: router.kind = 'episub': only floodsub"),
        (("--engine", "array", "--check"), "--check needs the routers themselves"),
        (("--nodes", "10000000", "--engine", "reference"), "this run is too large here: it needs about"),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_is_right(arguments, message, tmp_path):
    done = hearsay("simulate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_wrong_command_has_a_suggestion():
    done = hearsay("simulat")
    assert (done.returncode, "Did you mean simulate?" in done.stderr) == (2, True)


def test_all_errors_of_a_file_at_once_with_their_lines(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("[network]\nnodes = -3\ndegre = 4\n\n[router]\ndegree = 2\ndegree_low = 3\n", encoding="utf-8")
    done = hearsay("simulate", file)
    assert done.returncode == 2
    problems = done.stderr.splitlines()
    assert f"hearsay: {file}:2: network.nodes = -3: must be in 1…100000000" in problems
    assert any(f"{file}:3:" in line and "did you mean 'degree'?" in line for line in problems)
    assert any(f"{file}:7:" in line and "must not be above degree (2)" in line for line in problems)


def test_invalid_toml_names_the_line(tmp_path):
    file = tmp_path / "broken.toml"
    file.write_text("seed = 1\n[network\n", encoding="utf-8")
    done = hearsay("simulate", file)
    assert done.returncode == 2
    assert f"{file}:2:" in done.stderr


def test_topics_may_have_any_name(tmp_path):
    file = tmp_path / "names.toml"
    file.write_text("[[topics]]\nname = 'nachrichten-äöü-新聞'\n", encoding="utf-8")
    assert hearsay("simulate", file, *SMALL, "--out", tmp_path / "run").returncode == 0
    shown = hearsay("trace", "show", tmp_path / "run", "--event", "deliver", "--limit", 3)
    assert "nachrichten-äöü-新聞" in shown.stdout


def test_a_run_folder_that_cannot_be_written_fails_before_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = hearsay("simulate", *SMALL, "--out", tmp_path / "file" / "run")
    assert done.returncode == 1
    assert str(tmp_path / "file" / "run") in done.stderr
    assert "summary" not in done.stdout


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    done = hearsay("simulate", *SMALL, "--out", tmp_path)
    assert (done.returncode, "not a run folder" in done.stderr) == (1, True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("engine", ["reference", pytest.param("array", marks=pytest.mark.xdist_group("array"))])
def test_a_full_disk_says_what_is_safe(tmp_path, engine):
    def small_files_only() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    arguments = ["simulate", "--nodes", 200, "--engine", engine, "--out", tmp_path / "run"]
    hearsay(*arguments[:5], "--messages", 1)  # what has to be compiled may be larger
    done = hearsay(*arguments, preexec_fn=small_files_only)
    assert done.returncode == 1
    assert "cannot write the run: File too large" in done.stderr
    assert "Finished trace files there are whole" in done.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_without_trace_there_are_summary_and_manifest(tmp_path):
    run = tmp_path / "run"
    assert hearsay("simulate", *SMALL, "--trace", "none", "--out", run).returncode == 0
    manifest = json.loads((run / "manifest.json").read_text())
    summary = json.loads((run / "summary.json").read_text())
    assert (manifest["complete"], manifest["trace_hash"]) == (True, summary["trace_hash"])
    assert not list(run.glob("trace/**/*.parquet"))


def test_ctrl_c_leaves_a_readable_run_marked_incomplete(tmp_path):
    run = tmp_path / "run"
    arguments = ["simulate", "--nodes", "1000", "--messages", "5000", "--out", str(run)]
    process = subprocess.Popen([HEARSAY, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:  # a plain progress line comes once the run is well under way
        if line.startswith("simulated"):
            process.send_signal(signal.SIGINT)
            break
    shown, errors = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in errors) == (130, False)
    assert "(interrupted: figures up to there)" in shown
    assert json.loads((run / "manifest.json").read_text())["complete"] is False
    assert "deliver" in hearsay("trace", "show", run, "--event", "deliver", "--limit", 5).stdout


def test_trace_show_and_diff(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert hearsay("simulate", *SMALL, "--seed", seed, "--out", tmp_path / name).returncode == 0
    shown = hearsay("trace", "show", tmp_path / "a", "--node", 3, "--event", "graft").stdout.splitlines()
    assert shown
    assert all(
        ("graft" in line and line.split("graft")[0].strip().endswith("node 3")) or "↔ 3" in line for line in shown
    )
    nobody = hearsay("trace", "show", tmp_path / "a", "--node", 999)
    assert (nobody.stdout, nobody.stderr) == ("", "no row of this run is like that\n")
    equal = hearsay("trace", "diff", tmp_path / "a", tmp_path / "b")
    assert (equal.returncode, equal.stdout) == (0, "the traces are equal\n")
    different = hearsay("trace", "diff", tmp_path / "a", tmp_path / "c")
    assert different.returncode == 1
    assert "part at 0.000000s" in different.stdout
    missing = hearsay("trace", "show", tmp_path / "nowhere")
    assert (missing.returncode, "does not exist" in missing.stderr) == (1, True)


def test_presets_are_listed():
    shown = hearsay("simulate", "--list-presets").stdout
    names = [line.split()[0] for line in shown.splitlines()]
    assert names == ["churn-30", "ethereum-blocks", "ipns", "r1", "simsub"]


def test_help_loads_nothing_heavy():
    heavy = "{'numpy', 'pyarrow', 'pydantic', 'rich', 'hearsay.sim', 'hearsay.core'}"
    code = (
        "import sys; sys.argv = ['hearsay', '--help']\n"
        "from hearsay.cli.main import main\n"
        f"try: main()\nexcept SystemExit: print(sorted({heavy} & set(sys.modules)))"
    )
    env = {**os.environ, "COLUMNS": "80"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert shown.splitlines()[-1] == "[]"
