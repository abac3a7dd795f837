"""A forked command against one that a fresh Python runs, and the server that forks them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from commands import hearsay, started
from kills import ends_within
from prepared_commands import Command, can_become, end_server, servers

import leftovers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are forked on Linux only")

SMALL = ("--preset", "r1", "--nodes", "20", "--messages", "2")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forked") / "run"
    assert hearsay("simulate", *SMALL, "--out", folder).returncode == 0
    hearsay("simulate", *SMALL, "--engine", "array")  # which tells when it has to compile something
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", *SMALL, "--json"),
        ("simulate", "--nodes", "many"),
        ("trace", "show", "RUN"),
        ("completion", "bash"),
        *(
            pytest.param(arguments, marks=pytest.mark.thorough)
            for arguments in (
                ("simulate", *SMALL, "--json", "--engine", "array"),
                ("analyze", "RUN", "--format", "tracestat"),
                ("analyze", "nowhere", "--master", "spark://127.0.0.1:1"),
                ("report", "RUN"),
                ("score", "--preset", "go"),
                ("check", "nowhere.toml"),
                ("sweep", "nowhere.toml"),
                ("compare", "r1"),
                ("spark", "doctor", "--no-start"),
                ("schema", "budget"),
                ("node", "--connect", "nonsense"),
            )
        ),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_forked_command_says_what_a_fresh_one_says(run, arguments):
    given = [str(run) if argument == "RUN" else argument for argument in arguments]
    forked, fresh = hearsay(*given), hearsay(*given, new_process=True)
    said, fresh_said = (re.sub(r"[\d.]+ GiB in", "some GiB in", done.stdout) for done in (forked, fresh))  # free disk
    assert (forked.returncode, said, forked.stderr) == (fresh.returncode, fresh_said, fresh.stderr)


def forked(*arguments: object, **options) -> Command:
    command = started(*arguments, **options)
    assert isinstance(command, Command)
    return command


def test_it_has_the_folder_the_variables_and_the_streams_that_it_was_given(tmp_path):
    (tmp_path / "here.toml").write_text("nodes = 5", encoding="utf-8")
    with (tmp_path / "errors").open("w") as file:
        code = forked("simulate", "here.toml", cwd=tmp_path, stderr=file).wait(60)
    assert (code, "here.toml:1: nodes" in (tmp_path / "errors").read_text()) == (2, True)
    environment = {**os.environ, "HEARSAY_SPARK_HEAP": "none"}
    errors = hearsay("analyze", tmp_path, env=environment).stderr
    assert errors.startswith("hearsay: HEARSAY_SPARK_HEAP = 'none': ")


def test_signals_reach_it_and_its_code_says_which():
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        node = forked("node", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert node.stderr.readline().startswith("listening: ")
        assert node.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            node.wait(0)
        node.send_signal(number)
        assert node.wait(30) == node.poll() == code
        assert ends_within(node.pid, 30)


def test_what_is_heeded_as_python_starts_asks_for_a_fresh_one():
    for name in ("HOME", "LC_ALL", "NUMBA_DISABLE_JIT", "PYTHONIOENCODING", "XDG_CACHE_HOME"):
        assert not can_become({**os.environ, name: "another"})
    assert can_become({**os.environ, "COLUMNS": "7", "PATH": "", "PYTHONPATH": "more"})
    with pytest.raises(AssertionError):
        forked("--version", env={"PATH": "/bin"}, stdout=subprocess.PIPE).wait(60)


def test_a_leftover_process_is_found_and_so_is_a_server_without_owner():
    node = forked("node", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert node.stderr.readline().startswith("listening: ")
    (server,) = servers()
    found = leftovers.marked()
    assert node.pid in found
    assert server not in found
    node.kill()
    node.wait(30)
    assert node.pid not in leftovers.marked()


def test_the_server_ends_with_its_tests_and_the_next_command_begins_another():
    assert hearsay("--version").returncode == 0
    (first,) = servers()
    end_server()
    assert (servers(), ends_within(first, 0)) == ([], True)
    assert hearsay("--version").returncode == 0
    assert servers() not in ([], [first])
