"""Commands of `hearsay`, mostly simulate and trace: output, files and exit codes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from commands import hearsay

from hearsay.cli import simulate
from hearsay.sim.scenario.scenario_file import load_scenario

SMALL = ("--nodes", "30", "--messages", "3")


def refuse_constants(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def summary_of(*arguments: object) -> dict[str, Any]:
    done = hearsay("simulate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=refuse_constants)


def test_json_has_the_keys_of_the_contract_and_nothing_else_is_on_stdout():
    summary = summary_of("--preset", "simsub", *SMALL)
    assert list(summary) == [
        "router", "engine", "seed", "nodes", "messages", "fanout", "publish", "deliver", "delivery_ratio",
        "duplicates", "refused", "sent", "latency_ms", "hops", "bytes_out", "uplink_share", "simulated_seconds",
        "events", "trace_hash", "complete",
    ]  # fmt: skip
    assert list(summary["latency_ms"]) == ["p50", "p90", "p99", "max"]
    assert list(summary["hops"]) == list(summary["bytes_out"]) == ["mean", "max"]
    assert summary["uplink_share"] == {"mean": None, "max": None}
    assert (summary["publish"], summary["deliver"], summary["sent"]["connect"]) == (15, 90, 300)


def test_flags_change_the_scenario():
    arguments = ("--router", "floodsub", "--connect", 3, "--fanout", 2, "--message-delay", 0.5, "--seed", 7)
    summary = summary_of(*SMALL, *arguments, "--engine", "reference")
    assert (summary["router"], summary["seed"], summary["fanout"]) == ("floodsub", 7, 2)
    assert summary["sent"]["connect"] == 90
    assert summary["simulated_seconds"] == 5 + 3 * 0.5 + 10


def test_a_run_without_messages_has_no_ratio_and_no_latency():
    summary = summary_of("--nodes", "10", "--messages", "0")
    assert (summary["delivery_ratio"], summary["latency_ms"]["p50"], summary["hops"]["max"]) == (None, None, None)
    shown = hearsay("simulate", "--nodes", "10", "--messages", "0")
    assert "no messages" in shown.stdout
    assert "nan" not in shown.stdout.lower()


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_or_two_nodes_deliver_all_messages(nodes):
    assert summary_of("--nodes", nodes, "--messages", 3)["deliver"] == 3 * nodes


def test_the_text_summary_has_counters_and_a_histogram():
    shown = hearsay("simulate", "--preset", "simsub", *SMALL).stdout
    assert "=== simulation summary ===\n" in shown
    assert "deliver: 90\n" in shown
    assert "█" in shown
    assert re.search(r"\ndelivery ratio: [\d.]+ %\nlatency: p50 [\d.]+ ms  p90 [\d.]+ ms  ", shown)
    assert re.search(r"\nsent per node: mean [\d.]+ kB  max [\d.]+ kB\nsimulated: [\d.]+ s, ", shown)
    limited = hearsay("simulate", "--preset", "simsub", *SMALL, "--set", "links.uplink_mbit=10").stdout
    assert re.search(r"sent per node: mean [\d.]+ kB  max [\d.]+ kB  [\d.]+ % of its uplink\n", limited)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nodse", "5"), "--nodes"),
        (("--nodes", "many"), "'--nodes': many is not a whole number in 1…100000000"),
        (("--nodes", "0"), "'--nodes': 0 is not a whole number in 1…100000000"),
        (("--message-delay", "nan"), "'--message-delay': nan is not a number from 0 on"),
        (("--set", "warmup_s=1e9"), "warmup_s"),
        (("--set", "linger_s=86401"), "linger_s"),
        (("--preset", "simsb"), "did you mean 'simsub'?"),
        (("--router", "gosipsub"), "no router 'gosipsub'; use one of episub, floodsub, gossipsub"),
        (("--set", "network.nods=4"), "--set network.nods=4: unknown key, did you mean 'nodes'?"),
        (("--set", "router.D=8"), "--set router.D=8: unknown key, did you mean 'degree'?"),
        (("--set", "router.D_lo=3"), "--set router.D_lo=3: unknown key, did you mean 'degree_low'?"),
        (("--set", "degree=8"), "--set degree=8: unknown key, did you mean network.degree or router.degree?"),
        (("--set", "rate=0.1"), "--set rate=0.1: unknown key, did you mean loss.rate?"),
        (("--set", "netwrk.nodes=8"), "--set netwrk.nodes=8: netwrk: unknown key, did you mean 'network'?"),
        (("--set", "birds.count=8"), "--set birds.count=8: birds: unknown key; the sections are network, links, "),
        (("--set", "loss.rate=2"), "--set loss.rate=2: must be in 0…1"),
        (("--set", "router.degree_low=9"), "must not be above degree (6)"),
        (("--set", "nodes"), "write it as section.key=value"),
        (("nowhere.toml",), "nowhere.toml: no such file"),
        (("--nodes", "10000000", "--engine", "reference"), "this run is too large here: it needs about"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_remedy(arguments, message, tmp_path):
    done = hearsay("simulate", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--master", "mars"), "--master mars: must be spark://HOST:PORT, yarn, k8s://URL or local[CORES]"),
        (("--remote", "http://mars"), "--remote http://mars: must be sc://HOST:PORT or local[CORES]"),
        (("--master", "yarn", "--remote", "sc://mars"), "give --master or --remote, not both"),
    ],
)
@pytest.mark.parametrize("command", [("analyze", "run"), ("compare", "r1", "r1"), ("spark", "doctor")], ids=" ".join)
def test_options_of_spark_are_checked_first(command, arguments, error):
    done = hearsay(*command, *arguments)
    assert (done.returncode, done.stderr) == (2, f"hearsay: {error}\n")


@pytest.mark.parametrize("heap", ["abc", "4", "2t", "-1g", "1m", "100000g"])
def test_an_invalid_heap_is_reported_before_spark_starts(tmp_path, heap):
    env = {**os.environ, "HEARSAY_SPARK_HEAP": heap}
    rule = "must be a whole number with m or g (MiB or GiB), from 512m to this machine's "
    done = hearsay("analyze", tmp_path, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"hearsay: HEARSAY_SPARK_HEAP = '{heap}': {rule}")
    checked = hearsay("spark", "doctor", "--no-start", env=env)
    assert checked.returncode == 1
    assert f"BAD  heap of the driver: HEARSAY_SPARK_HEAP = '{heap}': {rule}" in checked.stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("r1",), "r1: no such file; did you mean --preset r1?"),
        (
            ("--preset", "filecoin", "--nodes", 12),
            "--nodes network.nodes=12: timed.9.node = 95 (preset filecoin): must be below network.nodes (12), "
            "and so must 11 more; all need network.nodes = 96 or more",
        ),
    ],
)
def test_the_error_of_an_impossible_simulation_names_the_remedy(arguments, error):
    done = hearsay("simulate", *arguments)
    assert (done.returncode, done.stderr, done.stdout) == (2, f"hearsay: {error}\n", "")


def test_unused_threads_are_reported_and_a_fanout_of_no_messages_is_not():
    done = hearsay("simulate", "--nodes", 5, "--connect", 2, "--messages", 0, "--engine", "reference", "--threads", 3)
    assert (done.returncode, "fanout:" in done.stdout) == (0, False)
    assert "--threads 3: the reference engine uses one thread; only the array engine uses more\n" in done.stderr


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"router.kind": "episub", "router.overlay": "hyparview"},
            "routers that choose their neighbours run on one thread",
        ),
        ({"router.kind": "episub", "router.overlay": "connections"}, None),
        ({"router.partial_messages": True, "topics": [{"partial": {}}]}, "runs with partial messages use one thread"),
    ],
)
def test_a_run_that_uses_one_thread_names_the_reason(settings, reason):
    scenario = load_scenario(None, None, list(settings.items()))
    assert simulate._why_one_thread(scenario, "array") == reason


def test_help_shows_no_range_where_there_is_none():
    shown = hearsay("trace", "show", "--help").stdout
    assert ("None" in shown, "x>=1" in shown) == (False, True)


def test_json_and_the_tracestat_format_exclude_each_other(tmp_path):
    done = hearsay("analyze", tmp_path, "--format", "tracestat", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hearsay: --json and --format tracestat: give one; tracestat prints text\n"


def test_a_wrong_command_has_a_suggestion():
    done = hearsay("simulat")
    assert (done.returncode, "Did you mean simulate?" in done.stderr) == (2, True)


def test_all_errors_of_a_file_are_reported_with_their_lines(tmp_path):
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


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path):
    (tmp_path / "letter.txt").write_text("hello", encoding="utf-8")
    done = hearsay("simulate", *SMALL, "--out", tmp_path)
    assert (done.returncode, "not a run folder" in done.stderr) == (1, True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("engine", ["reference", "array"])
def test_the_error_of_a_full_disk_says_that_finished_files_are_whole(tmp_path, engine):
    def small_files_only() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    arguments = ["simulate", "--nodes", 200, "--engine", engine, "--out", tmp_path / "run"]
    hearsay(*arguments[:5], "--messages", 1)  # compile the kernels first, because their files may be larger
    done = hearsay(*arguments, preexec_fn=small_files_only)
    assert done.returncode == 1
    assert "cannot write the run: File too large" in done.stderr
    assert "Finished trace files there are whole" in done.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_run_that_is_named_twice_is_refused_before_spark_starts(tmp_path):
    run, link = tmp_path / "run", tmp_path / "link"
    assert hearsay("simulate", *SMALL, "--out", run).returncode == 0
    link.symlink_to(run)
    for command in (("analyze",), ("report", "--out", tmp_path / "report.html")):
        done = hearsay(*command, run, run)
        assert (done.returncode, done.stderr) == (2, f"hearsay: {run}: given twice\n")
        done = hearsay(*command, run, link)
        assert (done.returncode, done.stderr) == (2, f"hearsay: {link}: given twice, as {run} before\n")


def test_a_run_that_cannot_be_read_is_named_before_spark_starts(tmp_path):
    good, damaged = tmp_path / "good", tmp_path / "damaged"
    for run in (good, damaged):
        assert hearsay("simulate", *SMALL, "--out", run).returncode == 0
    next(damaged.glob("trace/class=message/*.parquet")).write_bytes(b"")
    unreachable = ("--master", "spark://127.0.0.1:1")
    error = hearsay("analyze", good, damaged, tmp_path / "nowhere", *unreachable).stderr.splitlines()
    assert [line.partition(", 0 bytes instead of ")[0] for line in error] == [
        f"hearsay: left out: {damaged}: trace/class=message/part-00000.parquet: changed",
        f"hearsay: left out: {tmp_path / 'nowhere'} does not exist",
        "hearsay: no session at spark://127.0.0.1:1: Connection refused",
    ]


def test_without_trace_there_are_summary_and_manifest(tmp_path):
    run = tmp_path / "run"
    assert hearsay("simulate", *SMALL, "--trace", "none", "--out", run).returncode == 0
    manifest = json.loads((run / "manifest.json").read_text())
    summary = json.loads((run / "summary.json").read_text())
    assert (manifest["complete"], manifest["trace_hash"]) == (True, summary["trace_hash"])
    assert not list(run.glob("trace/**/*.parquet"))


def test_trace_show_and_diff(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert hearsay("simulate", *SMALL, "--seed", seed, "--out", tmp_path / name).returncode == 0
    shown = hearsay("trace", "show", tmp_path / "a", "--node", 3, "--event", "graft").stdout.splitlines()
    assert shown
    assert all("node 3" in line.split("graft")[0] for line in shown)
    equal = hearsay("trace", "diff", tmp_path / "a", tmp_path / "b")
    assert (equal.returncode, equal.stdout) == (0, "the traces are equal\n")
    different = hearsay("trace", "diff", tmp_path / "a", tmp_path / "c")
    assert different.returncode == 1
    assert "diverge at 0.000000s" in different.stdout
    missing = hearsay("trace", "show", tmp_path / "nowhere")
    assert (missing.returncode, "does not exist" in missing.stderr) == (1, True)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("small") / "run"
    assert hearsay("simulate", *SMALL, "--out", run).returncode == 0
    return run


def test_shown_rows_have_one_of_the_given_nodes_and_one_of_the_given_events(small_run):
    arguments = ("--node", 3, "--node", 5, "--event", "graft", "--event", "deliver", "--limit", 10_000)
    shown = [line.split() for line in hearsay("trace", "show", small_run, *arguments).stdout.splitlines()]
    assert {(line[2], line[3]) for line in shown} == {
        (node, event) for node in "35" for event in ("graft", "deliver")
    }


def test_remote_selects_rows_by_the_other_peer(small_run):
    peers = [line.split()[-1] for line in _shown(small_run, "--node", 3, "--event", "add_peer")]
    assert len(set(peers)) > 2
    (line,) = _shown(small_run, "--node", 3, "--remote", peers[0], "--event", "add_peer")
    assert line.split()[2:] == ["3", "add", "peer", "↔", peers[0]]


def test_rows_of_a_node_leave_out_connections_and_subscriptions(small_run):
    lines = _shown(small_run, "--node", 3, "--limit", 1000)
    assert any(" deliver " in line for line in lines)
    assert not any(word in line for line in lines for word in ("add peer", "send connect", "send subscribe"))
    assert any("send subscribe" in line for line in _shown(small_run, "--node", 3, "--event", "send_rpc"))


def test_too_few_connections_for_the_meshes_cause_a_warning():
    warning = "warning: a node has about 2 peers, and router.degree_low is 4: meshes stay too small\n"
    assert warning in hearsay("simulate", "--nodes", 9, "--connect", 1, "--messages", 1).stderr
    assert "warning" not in hearsay("simulate", "--nodes", 9, "--connect", 2, "--messages", 1).stderr
    assert "warning" not in hearsay("simulate", "--nodes", 9, "--connect", 1, "--router", "floodsub").stderr


def test_large_messages_without_a_limit_of_uplinks_cause_a_warning():
    large = ("simulate", "--nodes", 9, "--messages", 1, "--set", "workload.size_bytes=100000")
    warning = "warning: messages of 100,000 bytes take no time to send, because links.uplink_mbit is not set\n"
    assert warning in hearsay(*large).stderr
    assert "warning" not in hearsay(*large, "--set", "links.uplink_mbit=50").stderr


@pytest.mark.parametrize("engine", ["reference", pytest.param("array", marks=pytest.mark.thorough)])
def test_a_check_says_that_all_invariants_hold(engine):
    done = hearsay("simulate", "--nodes", 30, "--messages", 2, "--check", "--engine", engine, "--json")
    assert done.stderr.endswith("check: all invariants hold\n")
    assert json.loads(done.stdout)["delivery_ratio"] == 1


def _shown(run, *arguments):
    return hearsay("trace", "show", run, *arguments).stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("--node", "999"), 2, "--node 999: no such node in RUN; there are 0…30"),
        (("--remote", "bob"), 2, "--remote bob: no peer is called 'bob' in this run"),
        (("--message", "55", "--message", "0"), 2, "--message 55: no such message in RUN; there are 0…2"),
        (("--topic", "birds"), 2, "--topic birds: no topic is called 'birds' in this run"),
        (("--node", "3", "--from", "1000"), 1, "RUN: no row meets these conditions"),
    ],
)
def test_conditions_that_no_row_of_a_run_meets_are_an_error(small_run, arguments, code, error):
    done = hearsay("trace", "show", small_run, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (
        code,
        "",
        f"hearsay: {error}\n".replace("RUN", str(small_run)),
    )


def test_presets_are_listed():
    shown = hearsay("simulate", "--list-presets").stdout
    names = [line.split()[0] for line in shown.splitlines()]
    assert names == ["churn-30", "ethereum-blocks", "filecoin", "ipns", "r1", "simsub"]


def test_a_preset_is_shown_as_it_is_written():
    shown = hearsay("simulate", "--show-preset", "simsub").stdout
    assert shown.startswith("# ")
    assert tomllib.loads(shown)["router"]["preset"] == "simsub"
    done = hearsay("simulate", "--show-preset", "simsb")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'simsub'?" in done.stderr


def test_a_resolved_scenario_has_the_trace_of_its_options(tmp_path):
    arguments = ("--preset", "simsub", *SMALL, "--set", "router.degree=8", "--seed", 5)
    shown = hearsay("simulate", *arguments, "--show-scenario")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert tomllib.loads(shown.stdout)["router"]["degree_low"] == 4
    file = tmp_path / "resolved.toml"
    file.write_text(shown.stdout, encoding="utf-8")
    assert summary_of(file)["trace_hash"] == summary_of(*arguments)["trace_hash"]
    wrong = hearsay("simulate", "--show-scenario", "--out", tmp_path / "run")
    assert (wrong.returncode, "only prints" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("sim", "simulate"), ("trace sh", "show"), ("simulate --preset sim", "simsub"), ("analyze --fol", "--follow")],
)
def test_a_shell_completes_commands_options_and_presets(typed, completed):
    words = f"hearsay {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_HEARSAY_COMPLETE": "bash_complete"}
    assert hearsay(env={**os.environ, **asked}).stdout == f"plain,{completed}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell(shell):
    assert f"_HEARSAY_COMPLETE={shell}_complete" in hearsay("completion", shell).stdout


def test_help_imports_no_large_package():
    heavy = "{'numpy', 'pyarrow', 'pydantic', 'rich', 'hearsay.sim', 'hearsay.core'}"
    code = (
        "import sys; sys.argv = ['hearsay', '--help']\n"
        "from hearsay.cli.main import main\n"
        f"try: main()\nexcept SystemExit: print(sorted({heavy} & set(sys.modules)))"
    )
    env = {**os.environ, "COLUMNS": "80"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert shown.splitlines()[-1] == "[]"
