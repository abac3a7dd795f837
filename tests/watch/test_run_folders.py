"""The page of a run folder, complete or still being written, shows the same as the page of the simulation."""

from __future__ import annotations

import asyncio
import socket

import numpy as np
import pytest
from commands import hearsay

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError, load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.links import DrawnNodes
from hearsay.watch.picture import Picture
from hearsay.watch.run_folder import PORTIONS, RunFolderSource


def simulate_into(folder, **how):
    """Simulate a run into a folder; return the picture of the simulation."""
    picture = Picture(DrawnNodes(30))
    scenario = load_scenario(None, "churn-30", [("network.nodes", "30"), ("workload.messages", "8")])
    Simulation(scenario, folder=RunFolder.create(folder), watcher=picture.add_rows, **how).run()
    return picture


def state(picture):
    picture.changes(0)
    whole = picture.whole(0)
    pairs = zip(whole["messages"], whole["spread"], strict=True)
    reached = {message[1]: (message[5], progress[1]) for message, progress in pairs}
    links = whole["linked"]
    return sorted(whole["up"]), {*zip(*[iter(links)] * 3, strict=True)}, reached, whole["lost"], whole["refused"]


def play(source):
    loop = asyncio.new_event_loop()
    source.run(Broadcast(source.picture, source.about(), loop), until_complete=True)
    loop.close()
    return source.picture


def test_a_finished_run_shows_what_the_simulation_showed(tmp_path):
    picture = simulate_into(tmp_path / "run")
    assert state(play(RunFolderSource(tmp_path / "run", None))) == state(picture)


def test_a_finished_run_at_maximum_pace_has_many_frames(tmp_path):
    simulate_into(tmp_path / "run")
    source = RunFolderSource(tmp_path / "run", None)
    loop = asyncio.new_event_loop()
    broadcast = Broadcast(source.picture, source.about(), loop)
    alive = set()
    for _ in range(PORTIONS):
        source.step(broadcast)
        alive.add(len(source.picture.links.up))
    loop.close()
    assert len(alive) > 3
    assert state(source.picture) == state(play(RunFolderSource(tmp_path / "run", None)))


def test_files_that_appear_are_read_once(tmp_path):
    """As `simulate --rotate` writes them: first some, then the others, then the manifest."""
    picture = simulate_into(tmp_path / "run", rotate_us=2_000_000)
    files = load_manifest(tmp_path / "run").trace.files
    hidden = [tmp_path / "run" / file.name for file in files if file.min_time_us >= 10_000_000]
    for file in [*hidden, tmp_path / "run" / MANIFEST]:
        file.rename(file.with_suffix(".hidden"))
    source = RunFolderSource(tmp_path / "run", None)
    loop = asyncio.new_event_loop()
    broadcast = Broadcast(source.picture, source.about(), loop)
    source.step(broadcast)
    assert 0 < source.picture.traffic.of_nodes.sum() < picture.traffic.of_nodes.sum()
    for file in [*hidden, tmp_path / "run" / MANIFEST]:
        file.with_suffix(".hidden").rename(file)
    source.run(broadcast, until_complete=True)
    loop.close()
    assert state(source.picture) == state(picture)
    assert np.array_equal(source.picture.traffic.of_nodes, picture.traffic.of_nodes)


def test_what_is_no_run_is_said_in_a_line(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"empty is not a run folder: it has no manifest\.json"):
        RunFolderSource(tmp_path / "empty", None)
    simulate_into(tmp_path / "run")
    for file in (tmp_path / "run").glob("trace/*/part-*.parquet"):
        file.write_bytes(b"nothing")
    with pytest.raises(RunFolderError, match=r"part-00000\.parquet"):
        play(RunFolderSource(tmp_path / "run", None))


def test_a_run_without_its_trace_or_a_file_is_said_in_a_line(tmp_path):
    few = ("--preset", "r1", "--nodes", "12", "--messages", "2")
    assert hearsay("simulate", *few, "--trace", "none", "--out", tmp_path / "bare").returncode == 0
    ended = hearsay("watch", tmp_path / "bare", "--until-complete")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"hearsay: {tmp_path / 'bare'}: has no trace; simulate with --trace full\n"
    simulate_into(tmp_path / "run")
    names = [file.name for file in load_manifest(tmp_path / "run").trace.files]
    for name in ("dictionary/peers.parquet", names[0]):
        (tmp_path / "run" / name).rename(tmp_path / "away")
        with pytest.raises(RunFolderError, match=f"{name}: is missing; the run's manifest names it"):
            RunFolderSource(tmp_path / "run", None)
        (tmp_path / "away").rename(tmp_path / "run" / name)
    RunFolderSource(tmp_path / "run", None)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("empty",), 1, "is not a run folder"),
        (("empty", "--nodes", "5"), 2, "--nodes needs a simulation"),
        (("empty", "--set", "network.nodes=5"), 2, "--set and --engine need a simulation"),
        (("nowhere.toml",), 2, "nowhere.toml"),
        (("--preset", "missing"), 2, "missing"),
        (("--preset", "r1", "--pace", "never"), 2, "neither max nor in 0.01x…1000x"),
        (("--preset", "r1", "--pace", "nanx"), 2, "neither max nor in 0.01x…1000x"),
        (("--preset", "r1", "--at", "here"), 2, "write [HOST:]PORT"),
        (("--preset", "r1", "--at", "70000"), 2, "ports are 0…65535"),
        (("--preset", "r1", "--at", "192.0.2.7:0"), 1, "cannot serve the page"),
        (("--preset", "r1", "--nodes", "2000000"), 2, "at most 1,000,000 nodes"),
        (("--preset", "r1", "--touched", "there"), 2, "exists already"),
        (("--preset", "r1", "--touched", "nowhere/there"), 2, "the folder nowhere does not exist"),
        (("--preset", "r1", "--at", "x:y", "--out", "run"), 2, "write [HOST:]PORT"),
    ],
)
def test_wrong_input_is_one_line(arguments, code, words, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "there").write_text("")
    ended = hearsay("watch", *arguments, cwd=tmp_path)
    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "there"]


def test_a_port_that_is_taken_is_one_line_and_leaves_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = str(taken.getsockname()[1])
        ended = hearsay("watch", "--preset", "r1", "--nodes", "9", "--at", address, "--touched", tmp_path / "touched")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(f"hearsay: --at {address}: cannot serve the page: ")
    assert not (tmp_path / "touched").exists()


def test_until_complete_ends_the_command_with_the_run(tmp_path):
    few = ("--preset", "r1", "--nodes", "12", "--messages", "2")
    ended = hearsay("watch", *few, "--pace", "max", "--until-complete", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("watch: http://127.0.0.1:")
    again = hearsay("watch", tmp_path / "run", "--pace", "max", "--until-complete")
    assert again.returncode == 0, again.stderr
