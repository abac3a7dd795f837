"""Forked commands behave like those of a fresh Python; the life of the server that forks them."""

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
    hearsay("simulate", *SMALL, "--engine", "array")  # compile the kernels now, because commands report it
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
def test_a_forked_command_has_the_output_and_exit_code_of_a_fresh_one(run, arguments):
    given = [str(run) if argument == "RUN" else argument for argument in arguments]
    forked, fresh = hearsay(*given), hearsay(*given, new_process=True)
    # the free space of the disk changes
    texts = [re.sub(r"[\d.]+ GiB in", "some GiB in", done.stdout) for done in (forked, fresh)]
    assert (forked.returncode, texts[0], forked.stderr) == (fresh.returncode, texts[1], fresh.stderr)


def forked(*arguments: object, **options) -> Command:
    command = started(*arguments, **options)
    assert isinstance(command, Command)
    return command


def test_a_forked_command_has_the_given_folder_variables_and_streams(tmp_path):
    (tmp_path / "here.toml").write_text("nodes = 5", encoding="utf-8")
    with (tmp_path / "errors").open("w") as file:
        code = forked("simulate", "here.toml", cwd=tmp_path, stderr=file).wait(60)
    assert (code, "here.toml:1: nodes" in (tmp_path / "errors").read_text()) == (2, True)
    environment = {**os.environ, "HEARSAY_SPARK_HEAP": "none"}
    errors = hearsay("analyze", tmp_path, env=environment).stderr
    assert errors.startswith("hearsay: HEARSAY_SPARK_HEAP = 'none': ")


def test_signals_reach_a_forked_command_and_set_its_exit_code():
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        node = forked("node", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert node.stderr.readline().startswith("listening: ")
        assert node.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            node.wait(0)
        node.send_signal(number)
        assert node.wait(30) == node.poll() == code
        assert ends_within(node.pid, 30)


def test_variables_that_python_reads_at_its_start_need_a_fresh_process():
    for name in ("HOME", "LC_ALL", "NUMBA_DISABLE_JIT", "PYTHONIOENCODING", "XDG_CACHE_HOME"):
        assert not can_become({**os.environ, name: "another"})
    assert can_become({**os.environ, "COLUMNS": "7", "PATH": "", "PYTHONPATH": "more"})
    with pytest.raises(AssertionError):
        forked("--version", env={"PATH": "/bin"}, stdout=subprocess.PIPE).wait(60)


def test_a_leftover_command_is_found_but_not_its_server():
    node = forked("node", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert node.stderr.readline().startswith("listening: ")
    (server,) = servers()
    found = leftovers.marked()
    assert node.pid in found
    assert server not in found
    node.kill()
    node.wait(30)
    assert node.pid not in leftovers.marked()


def test_a_command_after_the_end_of_the_server_starts_another_server():
    assert hearsay("--version").returncode == 0
    (first,) = servers()
    end_server()
    assert (servers(), ends_within(first, 0)) == ([], True)
    assert hearsay("--version").returncode == 0
    assert servers() not in ([], [first])
