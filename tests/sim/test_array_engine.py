"""The array engine gives the reference engine's trace, row for row, and its summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from click.testing import CliRunner
from commands import hearsay as run_command
from hypothesis import given
from profiles import examples

import corner_scenarios
from corner_scenarios import CORNERS, DIRECT, EXCHANGED, GATED, GATED_RETURNING
from engines_agree import agree, check, difference_text, even_plan, plan_of, run_array, run_reference
from hearsay.api.scenarios import simulate
from hearsay.cli.commands import hearsay
from hearsay.cli.ending import CommandFailed
from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import PartKind
from hearsay.core.rules import randomness
from hearsay.sim.array import build, build_nodes
from hearsay.sim.array import engine as engine_module
from hearsay.sim.array.compiling import entry
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.run import loop
from hearsay.sim.array.world import draws, layout, queue, record
from hearsay.sim.array.world.layout import World
from hearsay.sim.plan import engines
from hearsay.sim.plan.engines import choose_engine, estimate, unsupported
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.studies.packs import Task, perform
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.rows import TraceDigest
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.reader import read_rows
from random_scenarios import IMPLEMENTATIONS, SCORED, scenario_texts
from simsub_tables import LAG_MS, TABLES, run

MANY_LOST_COPIES = """
linger_s = 2
[network]
nodes = 60
[router]
kind = "gossipsub"
preset = "r1"
seen_ttl_ms = 6000
[workload]
messages = 240
interval_s = 0.1
publishers = "any"
[loss]
rate = 0.1
"""


OVERLAY_OF_EPISUB = """
warmup_s = 1
linger_s = 1
[network]
nodes = 20
[links]
latency = "uniform"
min_ms = 10
max_ms = 150
[router]
kind = "episub"
overlay = "episub"
[workload]
messages = 3
interval_s = 0.3
"""


def share_small_parts(patched):
    """Let threads share every part of a bucket, in blocks of eight nodes."""
    patched.setattr(engine_module, "_WORTH_SHARING", 0)
    patched.setattr(build, "_BLOCK_BITS", 3)


@examples(0.6)
@given(scenario_texts())
def test_engines_agree_on_random_scenarios(text):
    check(text)


@pytest.mark.parametrize("number", range(examples(0.4).max_examples))
def test_engines_agree_on_even_scenarios(number):
    """Values are drawn evenly, because Hypothesis repeats simple values."""
    _, plan = even_plan(number)
    agree(plan)


def test_kinds_of_events_and_vias_fit_into_the_words_of_the_queue():
    """Both have four bits. The engine adds one kind of event, and -1 stands for no via."""
    assert len(EventKind) < 1 << (queue.OFFSET - queue.EVENT_KIND)
    assert max(Via) + 1 < 1 << (queue.EVENT_SOURCE - queue.VIA)


OLD_AND_NEW_LINK_CUT = """
seed = 658
warmup_s = 5
linger_s = 1
[links]
latency = "uniform"
max_ms = 900
[service]
time_ms = 2
[faults]
detection_s = 0
[faults.churn]
away_share = 0.1
mean_session_s = 1
goodbye = true
[[faults.cut]]
at_s = 2
share = 0.3
"""
"""A fault cuts two links between the same nodes: one whose loss is not noticed yet, and its successor."""


MEMBERS_GRAFT_AGAIN = """
[network]
nodes = 4
[router]
preset = "v1.1"
degree = 3
degree_low = 3
degree_high = 3
member_graft_is_judged = true
places_per_address = 1
[addresses]
nodes_per_address = 2
"""
"""Members send GRAFT again to a full mesh that has a member with a lent place (PLACES-2)."""


IHAVE_PARTS_COUNT_IN_GOSSIPSUB_10 = """
[network]
nodes = 60
[router]
ihave_parts_count = true
"""
"""The only parameter that is set has an effect only in gossipsub 1.1."""

DIAL_BEFORE_TWO_RPCS = """
[network]
nodes = 40
[links]
latency = "constant"
value_ms = 0.3
[router]
preset = "nim"
hello = false
direct_peers = [[0, 1]]
test_extension = true
[workload]
messages = 3
"""
"""A dial of a router arrives before two RPCs of one link that arrive at the same time."""


@pytest.mark.parametrize(
    "text",
    [OLD_AND_NEW_LINK_CUT, MEMBERS_GRAFT_AGAIN, IHAVE_PARTS_COUNT_IN_GOSSIPSUB_10, DIAL_BEFORE_TWO_RPCS],
    ids=["old-and-new-link-cut", "members-graft-again", "ihave-parts-count-in-1.0", "dial-before-two-rpcs"],
)
def test_engines_agree_on_scenarios_on_which_they_once_differed(text):
    plan = plan_of(text)
    assert difference_text(run_array(plan)[0], run_reference(plan)[0]) is None


def corner_name(text: str) -> str:
    """Return the constant of `corner_scenarios.py` from which a scenario is made, or "variant"."""
    lengths = {
        name: len(value)
        for name, value in vars(corner_scenarios).items()
        if name.isupper() and isinstance(value, str) and text.startswith(f"seed = 1\n{value}")
    }
    return max(lengths, key=lengths.__getitem__, default="variant")


@pytest.mark.parametrize("text", list(islice(corner_scenarios.corner_scenarios(), CORNERS)), ids=corner_name)
def test_engines_agree_in_corners(text):
    assert agree(plan_of(text))


@examples(0.25)
@given(scenario_texts())
def test_two_threads_give_the_same_trace(text):
    with pytest.MonkeyPatch.context() as patched:
        share_small_parts(patched)
        check(text, threads=2)


def test_two_threads_give_the_same_trace_of_episub(monkeypatch):
    """Runs with routers that choose their neighbours use one thread, even if more are requested."""
    share_small_parts(monkeypatch)
    assert agree(plan_of(OVERLAY_OF_EPISUB), threads=2)


@pytest.fixture(scope="module")
def many_lost_copies():
    """Return a plan with the reference engine's rows and summary."""
    plan = plan_of(MANY_LOST_COPIES)
    return plan, *run_reference(plan)


@pytest.mark.parametrize("columns", [8, 64])
def test_columns_of_forgotten_messages_are_reused(monkeypatch, many_lost_copies, columns):
    monkeypatch.setattr(build_nodes, "_LEAST_COLUMNS", columns)
    monkeypatch.setattr(build_nodes, "_CELLS_AT_FIRST", columns)
    plan, expected_rows, expected_summary = many_lost_copies
    rows, summary = run_array(plan)
    assert np.array_equal(rows, expected_rows)
    assert summary == expected_summary
    engine = ArrayEngine(plan, None)
    engine.run()
    world = engine.arrays.world
    assert columns < world[layout.COLUMNS] < len(plan.publications)
    assert world[layout.FIRST_MESSAGE] > 0


SEEN_CACHE_OF_500_MS = """
seed = 702
[network]
nodes = 120
topology = "ring_random"
nat_share = 0.3
[links]
max_ms = 900
jitter_ms = 3
uplink_mbit = 0.05
uplink_queue_bytes = 5000
[router]
kind = "meshsub"
preset = "v1.1"
hello = false
seen_ttl_ms = 500
[workload]
arrivals = "poisson"
publishers = "subscribers"
size_bytes = 3000
[faults]
detection_s = 0.2
redial = 0
[[faults.crash]]
at_s = 1
share = 0.2
[[faults.partition]]
at_s = 0.5
heal_s = 3
share = 0.4
[trace]
state_interval_s = 1
"""


def test_the_column_of_a_message_that_returns_is_not_reused():
    """All nodes forget a message while copies of it are under way, which deliver it again; this happens twice."""
    assert agree(plan_of(SEEN_CACHE_OF_500_MS))


@pytest.mark.parametrize("preset", sorted(SCORED))
def test_engines_agree_on_the_scores_of_implementations(preset):
    """Uplinks refuse messages, applications reject some, and answers are late, so that all parts of a score count."""
    assert agree(plan_of(f'{SCORES_WITH_NARROW_UPLINKS}preset = "{preset}"\n'))


@pytest.mark.parametrize("preset", [name for name in IMPLEMENTATIONS if name != "hardening"])
def test_engines_agree_on_the_copies_that_implementations_withhold(preset):
    """Latencies differ and validation is slow, so IDONTWANTs prevent copies, and others arrive in validation."""
    plan = plan_of(f'{SLOW_VALIDATION_OF_LARGE_MESSAGES}preset = "{preset}"\n')
    assert agree(plan)
    dropped = run_array(plan)[0][:, [Column.EVENT, Column.REASON]]
    assert [TraceEvent.DROP_RPC, Reason.UNWANTED] in dropped.tolist()


MESSAGE_AND_CONTROL_IN_ONE_RPC = """
[network]
nodes = 120
degree = 70
[links]
latency = "log_normal"
jitter_ms = 20
uplink_mbit = 0.05
uplink_queue_bytes = 5000
[loss]
control = true
[service]
time_ms = 2
[router]
preset = "rust"
degree_out = 0
degree_score = 0
degree = 4
degree_low = 2
degree_high = 5
max_subscriptions_per_peer = 1
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 50
max_backoffs = 1
graft_on_missing = 1
graft_choice = "best"
iwant_followup_ms = 60
[[topics]]
name = "b"
subscribers_share = 0.5
[[topics]]
name = "a"
[workload]
interval_s = 0.05
publishers = "non_subscribers"
size_bytes = 3000
[[timed]]
at_s = 7.982
node = 116
action = "publish"
topic = "b"
[[timed]]
at_s = 0.747
node = 66
action = "publish"
topic = "a"
[[timed]]
at_s = 4.786
node = 14
action = "join"
topic = "a"
"""


def test_a_forwarded_message_makes_no_promise():
    """The message came in one RPC with control. Its copies reuse entries of the outbox of an earlier IWANT."""
    plan = plan_of(MESSAGE_AND_CONTROL_IN_ONE_RPC)
    assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_engines_agree_on_filecoins_bootstrap_nodes():
    """Bootstrap nodes have a gater, and are in no mesh."""
    others = '[[population]]\nlisted = [1, 5]\nrouter = { preset = "filecoin-bootstrap" }\n'
    text = SCORES_WITH_NARROW_UPLINKS.replace("[router]", f"{others}[router]") + 'preset = "filecoin"\n'
    assert agree(plan_of(text))


@pytest.mark.parametrize("text", [GATED, GATED_RETURNING], ids=["gater", "gater-and-churn"])
def test_the_gater_rejects_messages_when_validation_is_overloaded(text):
    dropped = run_array(plan_of(text))[0][:, [Column.EVENT, Column.REASON]]
    assert [TraceEvent.REJECT, Reason.GATED] in dropped.tolist()


def test_engines_agree_on_the_copies_that_are_withdrawn_from_uplinks():
    plan = plan_of(SLOW_VALIDATION_OF_LARGE_MESSAGES.replace("jitter_ms = 5", "uplink_mbit = 2") + 'preset = "rust"')
    assert agree(plan)
    dropped = run_array(plan)[0][:, [Column.EVENT, Column.REASON]]
    assert [TraceEvent.DROP_RPC, Reason.WITHDRAWN] in dropped.tolist()


SLOW_VALIDATION_OF_LARGE_MESSAGES = """
linger_s = 2
[network]
nodes = 40
degree = 8
[links]
max_ms = 400
jitter_ms = 5
[loss]
rate = 0.05
[validation]
delay_ms = 90
[workload]
messages = 20
interval_s = 0.2
publishers = "any"
size_bytes = 20_000
[router]
"""


@pytest.mark.parametrize("preset", sorted(SCORED))
def test_engines_agree_on_the_scores_of_peers_that_come_and_go(preset):
    assert agree(plan_of(f'{SCORES_WITH_CHURN}preset = "{preset}"\n'))


@pytest.mark.parametrize("text", [EXCHANGED, DIRECT], ids=["exchanged-peers", "direct-peers"])
def test_threads_agree_on_the_dials_of_routers(text):
    assert agree(plan_of(f"seed = 3\n{text}"), 2)


def test_engines_agree_on_dials_that_arrive_within_a_bucket():
    """Some latencies are shorter than a bucket."""
    text = EXCHANGED.replace("min_ms = 200\nmax_ms = 500", "min_ms = 0.01\nmax_ms = 5")
    rows, summary = run_array(plan_of(text))
    expected, expected_summary = run_reference(plan_of(text))
    assert difference_text(rows, expected) is None
    assert summary == expected_summary
    assert TraceEvent.DIAL in rows[:, Column.EVENT]


def test_engines_agree_when_two_connections_of_a_pair_are_lost_at_once():
    """Nodes return before their loss is noticed, so a partition breaks their old and new connections."""
    assert agree(plan_of(TWO_CONNECTIONS_OF_A_PAIR_LOST))


TWO_CONNECTIONS_OF_A_PAIR_LOST = """
seed = 2
warmup_s = 0
linger_s = 3
[network]
nodes = 20
topology = "complete"
[links]
min_ms = 1
max_ms = 900
[router]
heartbeat_interval_ms = 300
[workload]
messages = 1
[faults]
detection_s = 0.2
redial = 10
[faults.churn]
away_share = 0.6
mean_session_s = 1
goodbye = true
[[faults.partition]]
at_s = 2
heal_s = 3
share = 0.4
"""


SCORES_WITH_CHURN = """
warmup_s = 2
linger_s = 3
[network]
nodes = 40
degree = 6
[validation]
delay_ms = 20
reject_share = 0.2
[workload]
messages = 30
interval_s = 0.3
size_bytes = 3000
publishers = "any"
[faults]
detection_s = 0.2
redial = 4
[faults.churn]
away_share = 0.4
mean_session_s = 2
[[ratings]]
rating = -1
share = 0.2
[addresses]
nodes_per_address = 4
form = "ipv6"
[scores]
every_s = 1
[router]
"""


def test_engines_agree_where_nodes_join_few_of_many_topics():
    """A node has counters only for topics that it joins, and columns of a topic's messages are next to each other."""
    plan = plan_of(FEW_OF_MANY_TOPICS)
    world = ArrayEngine(plan, None).arrays.world
    assert world[layout.CLUSTERS]
    assert world[layout.HAS_OWN_PLACES]
    assert agree(plan)


FEW_OF_MANY_TOPICS = """
warmup_s = 3
linger_s = 2
[network]
nodes = 100
degree = 12
[router]
preset = "ethereum"
[[topics]]
name = "beacon_block"
weight = 0
[[topics]]
name = "beacon_attestation"
count = 16
subscribers_share = 0.12
[workload]
messages = 150
interval_s = 0.02
publishers = "non_subscribers"
topic_choice = "random"
[[timed]]
at_s = 4
node = 1
action = "publish"
topic = "beacon_block"
[[timed]]
at_s = 4
node = 2
action = "join"
topic = "beacon_attestation-3"
"""


SCORES_WITH_NARROW_UPLINKS = """
linger_s = 2
[network]
nodes = 40
degree = 10
[links]
max_ms = 400
uplink_mbit = 1
uplink_queue_bytes = 20_000
[loss]
rate = 0.05
[validation]
delay_ms = 40
reject_share = 0.1
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
[scores]
every_s = 1
[router]
"""


def test_the_folder_contains_the_hashed_rows(tmp_path):
    """Rows are written in the background. The engine's hash in the manifest must be that of the stored rows."""
    folder = RunFolder.create(tmp_path / "run")
    summary = Simulation(load_scenario(None, "churn-30", ()), folder=folder, engine="array").run().summary
    assert verify(folder.path) == []
    digest = TraceDigest()
    rows = read_rows(folder.path)
    digest.add(rows)
    trace = load_manifest(folder.path).trace
    assert digest.hex() == trace.hash == summary.trace_hash
    assert len(rows) == trace.rows


UPLINKS_OF_20_KBIT = """
preset = "r1"
linger_s = 60
[network]
nodes = 60
degree = 29
[links]
uplink_mbit = 0.02
[router]
kind = "floodsub"
[workload]
messages = 120
interval_s = 0.01
"""


def test_more_than_250_000_copies_may_wait_for_uplinks():
    """Copies wait beyond the ring of buckets; earlier, the queue had no room for this number."""
    plan = plan_of(UPLINKS_OF_20_KBIT)
    engine = ArrayEngine(plan, None)
    assert engine.run()
    assert engine.arrays["control"][0, layout.FAR] > 250_000
    reference = ReferenceEngine(plan, Recorder())
    reference.run()
    assert engine.trace_hash == reference.trace_hash


def test_auto_starts_again_with_the_reference_engine_if_the_array_engine_has_no_room(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "WORTH_COMPILING", 0)
    monkeypatch.setattr(build, "lines_at_most", lambda least, _bytes: min(least, 200))
    file = tmp_path / "lively.toml"
    text = MANY_LOST_COPIES.replace("messages = 240", "messages = 60")
    file.write_text(text, encoding="utf-8")
    arguments = ["simulate", str(file), "--json", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(hearsay, arguments)
    assert done.exit_code == 0
    engine, again = done.stderr.splitlines()[:2]
    assert engine.startswith("engine: array (")
    assert again.startswith("engine: reference (the array engine has no room for more ")
    summary = json.loads(done.stdout)
    assert summary["engine"] == "reference"
    assert summary["trace_hash"] == simulate(file).trace_hash
    assert verify(tmp_path / "run") == []
    task = Task("again", "point", 1, text, (), "auto", trace=True)
    row = perform(task, tmp_path)
    assert (row["error"], row["engine"], row["trace_hash"]) == (None, "reference", summary["trace_hash"])
    assert verify(tmp_path / "again") == []
    row = perform(replace(task, run="array", engine="array"), tmp_path)
    assert row["error"].startswith("CapacityExceeded: the array engine has no room for more ")
    arguments = [*arguments[:-1], str(tmp_path / "other"), "--engine", "array"]
    done = CliRunner().invoke(hearsay, arguments, standalone_mode=False)
    assert isinstance(done.exception, CommandFailed)
    assert "the reference engine may have room (--engine reference)" in str(done.exception)


def test_the_engine_runs_in_an_address_space_of_8_gib():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30));"
        "from hearsay.sim.scenario.scenario_file import load_scenario; from hearsay.api.scenarios import simulate;"
        "print(simulate(load_scenario(None, 'simsub', ()), engine='array').complete)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


PRINT_CACHE_FOLDER = """
from hearsay.sim.array.compiling import KEPT
print(KEPT.folder, KEPT.is_kept_for_good, KEPT.holds("work_of_slots"))
"""


def reported_cache_folder(**environment: str) -> list[str]:
    known = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "HOME", "TMPDIR")}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_CACHE_FOLDER],
        env={**known, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def first_line(*arguments: str, env: dict[str, str] | None = None) -> str:
    """Run the command; return its first line on stderr, and kill it."""
    command = [Path(sys.executable).with_name("hearsay"), *arguments]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    return line


def test_machine_code_is_stored_in_a_temporary_folder_if_the_home_is_not_writable(tmp_path):
    home = tmp_path / "home"
    home.write_text("no folder", encoding="utf-8")
    folder, for_good, _ = reported_cache_folder(HOME=str(home), TMPDIR=str(tmp_path))
    private = tmp_path / f"hearsay-cache-{os.getuid()}"
    assert folder.startswith(f"{private}/hearsay/array-engine/")
    assert for_good == "False"
    assert private.stat().st_mode & 0o777 == 0o700
    folder, for_good, _ = reported_cache_folder(XDG_CACHE_HOME=str(tmp_path / "named"), TMPDIR=str(tmp_path))
    assert (folder.startswith(f"{tmp_path}/named/hearsay/"), for_good) == (True, "True")


def test_machine_code_in_a_folder_that_others_can_write_is_not_used(tmp_path):
    private = tmp_path / f"hearsay-cache-{os.getuid()}"
    nowhere = {"HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    private.mkdir(mode=0o777)
    private.chmod(0o777)
    assert reported_cache_folder(**nowhere) == ["None", "False", "False"]
    private.rmdir()
    (tmp_path / "another").mkdir(mode=0o700)
    private.symlink_to(tmp_path / "another")
    assert reported_cache_folder(**nowhere) == ["None", "False", "False"]
    known = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    line = first_line("simulate", "--nodes", "10", "--engine", "array", env={**known, **nowhere})
    assert "its code cannot be kept, so every run does this (XDG_CACHE_HOME names another place)" in line


def test_a_script_that_lags_explains_the_gossip_of_fast_runs_of_simsub():
    """Table 3 of simsub publishes every 10 ms, and has twice our number of IHAVEs. The numbers agree if the script
    waits for each message before it publishes the next.
    """
    (nodes, messages, delay), published = TABLES[3]
    lag_s = nodes * LAG_MS / 1000
    assert lag_s > delay
    for interval_s, fits in ((lag_s, True), (delay, False)):
        counts = [run("array", (nodes, messages, interval_s, seed))["ihave"] for seed in range(1, 5)]
        assert (abs(fmean(counts) - published["ihave"]) < 4 * stdev(counts)) is fits


def test_a_long_run_is_announced():
    assert first_line("simulate", "--nodes", "5000", "--messages", "500", "--engine", "reference") == (
        "it needs about 1.3 GiB and 3 min on the reference engine\n"
    )
    assert not estimate(load_scenario(None, "r1"), "reference").is_large
    assert estimate(load_scenario(None, "r1", [("network.nodes", "10000000")]), "array").is_large


def test_scores_raise_the_estimate():
    scored, plain = (
        estimate(load_scenario(None, "r1", [("router.preset", preset)]), "array") for preset in ("hardening", "v1.1")
    )
    assert scored.memory_bytes > plain.memory_bytes
    assert scored.seconds > plain.seconds


def test_timed_publications_count_in_the_estimate(tmp_path):
    timed = "".join(f"[[timed]]\nat_s = {20 + at}\nnode = {at}\naction = 'publish'\n" for at in range(30))
    file = tmp_path / "timed.toml"
    file.write_text(f"preset = 'r1'\nworkload.messages = 0\nnetwork.nodes = 50\n{timed}", encoding="utf-8")
    scenario = load_scenario(file)
    events = simulate(scenario, engine="reference").events
    assert 0.5 * events < engines.estimated_events(scenario) < 2 * events
    without = load_scenario(None, "r1", [("workload.messages", "0"), ("network.nodes", "50")])
    assert estimate(scenario, "array").memory_bytes > estimate(without, "array").memory_bytes


def test_a_difference_is_shown_with_its_rows():
    plan = plan_of(MANY_LOST_COPIES)
    rows, _ = run_array(plan)
    other = rows.copy()
    other[1000, 4] += 1
    line = difference_text(rows, other)
    assert line is not None
    assert "Only in A at that time: 1 rows\n-" in line
    assert "Only in B at that time: 1 rows\n+" in line


@pytest.mark.parametrize("delay_ms", [30, 2500])
def test_engines_agree_on_messages_that_applications_reject(delay_ms):
    """With the long delay, verdicts come after the end of the message's window."""
    few = MANY_LOST_COPIES.replace("messages = 240", "messages = 20").replace("seen_ttl_ms = 6000\n", "")
    assert agree(plan_of(f"{few}\n[validation]\ndelay_ms = {delay_ms}\nreject_share = 0.4\n"))


def test_constants_of_the_layout_fit_into_their_tables():
    """Kernels do not check the bounds of arrays."""
    assert layout.PART_WORDS < layout.SCALARS
    assert layout.MAX_METADATA < layout.PARAMETERS
    assert record.COUNTS <= layout.COUNTERS


def test_most_gossip_and_many_duplicates_are_no_events():
    plan = make_plan(load_scenario(None, "simsub", [("network.nodes", "500")]))
    engine = ArrayEngine(plan, None)
    world = engine.arrays.world
    travelled = 0
    while loop.work(world, loop.BEGIN, 0):
        travelled += int(world[layout.PART_EVENTS]) if world[layout.NOW] else 0
        if world[layout.PART_EVENTS]:
            loop.work(world, loop.SHARE, 0)
        if not loop.work(world, loop.FINISH, 0):
            break
    figures = engine.figures()
    assert figures.trace_hash == run_reference(plan)[1]["trace_hash"]
    heartbeats = 24 * 500
    sent = dict(zip(PartKind, figures.sent, strict=True))
    assert travelled - heartbeats < 0.75 * sent[PartKind.PUBLISH] + 0.2 * sent[PartKind.IHAVE] + sent[PartKind.GRAFT]


@entry
def _pick(table: World, state: int, size: int, count: int) -> int:
    return draws.pick(layout.world(table), 0, np.uint64(state), size, count)


@entry
def _below(draw: int, bound: int) -> int:
    return draws.below(np.uint64(draw), bound)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 200])
def test_samples_and_bounded_draws_equal_those_of_the_core(size):
    arrays = layout.Arrays()
    arrays["marks"] = np.zeros((1, size + 1), dtype=np.uint8)
    for number in range(200):
        state = randomness.mix(number)
        arrays["candidates"] = np.arange(size + 1)[None, :]
        count = number % (size + 2)
        picked = _pick(arrays.world, np.uint64(state), size, count)
        assert arrays["candidates"][0, :picked].tolist() == randomness.sample(state, range(size), count)
        assert not arrays["marks"].any()
        bound = 1 + (state >> (number % 60 + 2))
        assert _below(np.uint64(randomness.mix(state)), bound) == randomness.below(randomness.mix(state), bound)


SLOW_VALIDATION_AND_UNSUBSCRIBE_BACKOFF = """
linger_s = 6
[network]
nodes = 12
topology = "complete"
[router]
preset = "v1.1"
exchange_peers = 3
unsubscribe_backoff_ms = 2000
degree = 3
degree_low = 2
degree_high = 4
[validation]
delay_ms = 900
[workload]
messages = 12
interval_s = 0.5
publishers = "subscribers"
[[population]]
share = 0.3
router = { kind = "gossipsub", preset = "r1" }
"""


@pytest.mark.parametrize("links", ["", "[links]\nuplink_mbit = 0.3\nuplink_queue_bytes = 900"])
def test_engines_agree_on_backoffs_of_nodes_that_leave_and_rejoin(links):
    """Nodes of v1.1 and r1 leave while messages wait for a verdict, and rejoin."""
    timed = [
        f"[[timed]]\nat_s = {5.2 + 0.37 * number}\nnode = {number % 5}\naction = '{action}'\ntopic = 'topic'"
        for number, action in enumerate(["leave"] * 5 + ["join"] * 5)
    ]
    plan = plan_of("\n".join([SLOW_VALIDATION_AND_UNSUBSCRIBE_BACKOFF, links, *timed]))
    rows, summary = run_array(plan)
    expected_rows, expected_summary = run_reference(plan)
    assert difference_text(rows, expected_rows) is None
    assert summary == expected_summary
    reasons = set(rows[rows[:, Column.EVENT] == TraceEvent.REJECT][:, Column.REASON].tolist())
    assert reasons >= {Reason.NOT_SUBSCRIBED, Reason.BACKOFF, Reason.OVER_LIMIT}


def test_engines_agree_on_latencies():
    for links in ('latency = "log_normal"', "min_ms = 0\nmax_ms = 3000000"):
        plan = plan_of(f"[links]\n{links}\n[network]\nnodes = 30")
        assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_only_routers_of_other_packages_have_no_kernels():
    parts = [("router.partial_messages", "true"), ("topics.0.partial.parts", "8"), ("router.test_extension", "true")]
    assert unsupported(load_scenario(None, "r1", parts)) == []
    assert unsupported(load_scenario(None, "r1", (), router="episub")) == []
    assert choose_engine(load_scenario(None, "simsub", ()))[0] == "reference"
    assert choose_engine(load_scenario(None, "simsub", [("network.nodes", "100000")]))[0] == "array"


def test_the_command_prints_the_same_on_both_engines(tmp_path):
    summaries = []
    for engine in ("reference", "array"):
        small = ("--preset", "churn-30", "--nodes", 120, "--messages", 9)
        done = run_command("simulate", *small, "--engine", engine, "--json", "--out", tmp_path / engine)
        summaries.append(json.loads(done.stdout))
    assert summaries[0].pop("engine") == "reference"
    assert summaries[1].pop("engine") == "array"
    assert summaries[0] == summaries[1]
    compared = run_command("trace", "diff", tmp_path / "reference", tmp_path / "array")
    assert (compared.returncode, compared.stdout) == (0, "the traces are equal\n")


def test_a_plan_of_regions_with_jitter(tmp_path):
    table = tmp_path / "regions.csv"
    table.write_text("from,to,latency_ms,jitter_ms\neu,eu,5,1\neu,us,40,8\nus,us,6,2\n", encoding="utf-8")
    keys = [("links.latency", "regions"), ("links.regions_file", str(table)), ("network.nodes", "50")]
    plan = make_plan(load_scenario(None, "r1", keys))
    assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


TOPICS_1200 = """
warmup_s = 2
linger_s = 4
[network]
nodes = 2
degree = 1
[links]
uplink_mbit = 1
uplink_queue_bytes = 60000
[router]
preset = "r1"
max_subscriptions_per_peer = 2000
[[topics]]
name = "large"
size_bytes = 59000
[[topics]]
name = "t"
count = 1200
[workload]
messages = 0
[[timed]]
at_s = 4.5
node = 0
action = "publish"
topic = "large"
"""


def test_prunes_of_a_thousand_topics_are_sent_again():
    leaves = (f'[[timed]]\nat_s = 4.51\nnode = 0\naction = "leave"\ntopic = "t-{number}"\n' for number in range(1200))
    plan = plan_of(TOPICS_1200 + "".join(leaves))
    assert agree(plan)
    rows, _ = run_array(plan)
    prunes = (rows[:, Column.EVENT] == TraceEvent.SEND_RPC) & (rows[:, Column.KIND] == PartKind.PRUNE)
    assert np.count_nonzero(prunes & (rows[:, Column.TIME_US] > 4_600_000)) == 1000


def test_removed_links_are_reused():
    plan = plan_of(
        "[network]\nnodes = 60\ndegree = 3\n[workload]\nmessages = 40\n"
        "[faults]\ndetection_s = 0.3\n[faults.churn]\naway_share = 0.4\nmean_session_s = 3"
    )
    engine = ArrayEngine(plan, None)
    engine.run()
    links = int(engine.arrays.world[layout.LINKS])
    connections = engine.figures().sent[PartKind.CONNECT]
    assert links < connections
    assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_long_latencies_that_are_moved_in_portions_are_all_counted(monkeypatch):
    plan = plan_of("[links]\nmin_ms = 1\nmax_ms = 9000\n[network]\nnodes = 200\n[workload]\nmessages = 40")
    whole = ArrayEngine(plan, None)
    whole.run()
    monkeypatch.setattr(engine_module, "LATENCIES_AT_ONCE", 2)
    in_pieces = ArrayEngine(plan, None)
    in_pieces.run()
    expected, counted = whole.figures().latencies, in_pieces.figures().latencies
    assert expected.microseconds.max() > build.MEASURED_US
    assert np.array_equal(counted.microseconds, expected.microseconds)
    assert np.array_equal(counted.counts, expected.counts)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux only")
def test_too_little_memory_is_one_line():
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
        "sys.argv = ['hearsay', 'simulate', '--engine', 'array', '--nodes', '300000'];"
        "runpy.run_module('hearsay', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hearsay: out of memory")
