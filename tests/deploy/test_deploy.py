"""`deploy/` and `action.yml`: verifiers accept them, their options and locked packages exist, and they run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import HEARSAY
from fewer_packages import BEYOND_SIM, MAIN, path_without
from try_container import DECLARED, instructions

from hearsay.cli.commands import hearsay as group
from hearsay.cli.node import command as node_command

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "hearsay-node.service"
CONTAINER = list(instructions((ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
BUDGETS = """
seeds = 2

[[cases]]
name = "small"

[cases.base]
preset = "r1"
network.nodes = 20
workload.messages = 2

[cases.budgets]
copies_per_delivery = {{ at_most = {most} }}
"""


def parse_options(words):
    """Return the parsed options of a command `hearsay node`; an unknown option is an error."""
    assert words[:2] == ["hearsay", "node"]
    with group.make_context("hearsay", words[1:]) as above:
        return node_command.make_context("node", words[2:], parent=above).params


def pinned(lock):
    """Return the versions in a lock file by package."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", text, re.MULTILINE))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reports_no_fault_of_the_unit(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/hearsay/bin/hearsay", str(HEARSAY)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    unit.write_text(unit.read_text(encoding="utf-8").replace("Restart=on-failure", "Restrat=on-failure"))
    assert "Restrat" in subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True).stderr


def test_the_unit_starts_a_node_with_options_that_exist():
    text = UNIT.read_text(encoding="utf-8")
    start = re.search(r"^ExecStart=/opt/hearsay/bin/(.*)$", text, re.MULTILINE)[1]
    given = re.search(r"^#\s+HEARSAY_NODE_OPTIONS=(.*)$", text, re.MULTILINE)[1]
    words = start.replace("$HEARSAY_NODE_OPTIONS", given).replace("${STATE_DIRECTORY}", "/var/lib/hearsay").split()
    options = parse_options(words)
    assert (options["log_json"], options["metrics"], options["rendezvous_point"]) == (True, "127.0.0.1:9464", True)


def test_the_container_runs_a_node_as_an_ordinary_user_and_checks_its_health():
    last = dict(CONTAINER)
    options = parse_options(json.loads(last["ENTRYPOINT"]))
    port = options["metrics"].rpartition(":")[2]
    check = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert f"http://127.0.0.1:{port}/health" in check[2]
    assert set(last["EXPOSE"].split()) == {port, options["listen"][0].rpartition("/")[2]}
    assert int(last["USER"]) > 0
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert {name for name, _ in CONTAINER} <= {"FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", *DECLARED}


def test_packages_of_the_container_are_pinned_by_the_lock():
    steps = [part for name, rest in CONTAINER if name == "RUN" for part in rest.split("&&")]
    installs = [part for part in steps if re.search(r"/pip\b.* install ", part)]
    assert len(installs) == 3
    for words in map(shlex.split, installs):
        locked = "--require-hashes" in words and "--only-binary" in words
        assert locked or {"--no-index", "--no-deps"} <= set(words), words
    for lock in ("deploy/node.lock", "deploy/build.lock"):
        everything = pinned("requirements.lock")
        assert {name: everything.get(name) for name in pinned(lock)} == pinned(lock)


def step(name, environment, **inputs):
    """Run a step of the action as a runner of GitHub does."""
    (found,) = [each for each in ACTION["runs"]["steps"] if each.get("name") == name]
    values = {key: value["default"] for key, value in ACTION["inputs"].items()} | inputs
    given = {
        key: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda part: values[part[1]], text)
        for key, text in found["env"].items()
    }
    given = {key: text.replace("${{ github.action_path }}", str(ROOT)) for key, text in given.items()}
    assert not any("${{" in text for text in (found["run"], *given.values()))
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]]
    return subprocess.run(
        shell, env={**os.environ, **given, **environment}, capture_output=True, text=True,
        cwd=environment["WORK"],
    )  # fmt: skip


RECORDING_PYTHON = """#!/bin/sh
printf '%s\\n' "$@" -- >> "$WORK/asked"
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""


@pytest.mark.parametrize(("extras", "locks"), [
    ("sim", ["requirements.lock"]),
    ("fast,spark", ["requirements.lock", "requirements-source.lock"]),
    ("sim $(touch forged); touch forged", ["requirements.lock"]),
])  # fmt: skip
def test_the_action_installs_packages_by_their_hashes(extras, locks, tmp_path):
    """In place of Python, a program records its arguments. The paths have blanks."""
    work = tmp_path / "my work"
    (work / "bin").mkdir(parents=True)
    program = work / "bin" / "python"
    program.write_text(RECORDING_PYTHON)
    program.chmod(0o755)
    place = {"RUNNER_TEMP": str(work), "WORK": str(work), "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = step("Install", place, extras=extras)
    assert done.returncode == 0, done.stderr
    _, *installs = [call.split("\n") for call in (work / "asked").read_text().split("\n--\n")[:-1]]
    assert [Path(words[-1]).name for words in installs] == [*locks, ROOT.name]
    for words in installs[:-1]:
        assert words[-2:] == ["-r", str(ROOT / Path(words[-1]).name)]
        assert "--require-hashes" in words
        assert {"--only-binary", "--no-deps"} & set(words)
    assert {"--no-deps", "--no-build-isolation"} <= set(installs[-1])
    assert not (work / "forged").exists()


@pytest.mark.thorough
def test_the_action_fails_where_a_budget_breaks(tmp_path):
    """Only the packages of the action's default extra are there."""
    assert ACTION["inputs"]["extras"]["default"] == "sim"
    assert ACTION["runs"]["using"] == "composite"
    packages, program = tmp_path / "packages", tmp_path / "hearsay" / "bin" / "hearsay"
    packages.mkdir()
    program.parent.mkdir(parents=True)
    path = path_without(packages, BEYOND_SIM)
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{path}' exec '{sys.executable}' -S -c '{MAIN}' \"$@\"\n")
    program.chmod(0o755)
    place = {"RUNNER_TEMP": str(tmp_path), "WORK": str(tmp_path)}
    for most, code in (("100", 0), ("0.5", 1)):
        (tmp_path / "my budgets.toml").write_text(BUDGETS.format(most=most))
        done = step("Check", place, budgets="my budgets.toml", arguments="--out checked")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
    assert step("Check", place, budgets="$(touch forged).toml").returncode == 2
    assert not (tmp_path / "forged").exists()
    done = step("Check", place, budgets="my budgets.toml", arguments="*.toml $(touch forged) --help")
    assert "Usage" in done.stdout, done.stderr
    assert not (tmp_path / "forged").exists()


@pytest.mark.thorough
def test_the_action_installs_the_packages_that_its_check_needs(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    place = {"RUNNER_TEMP": str(tmp_path), "WORK": str(tmp_path), "PATH": path, "PYTHONPATH": ""}
    done = step("Install", place)
    if done.returncode and re.search("connect|resolve|retries", done.stderr, re.IGNORECASE):
        pytest.skip(f"pip reaches no package index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    (tmp_path / "budgets.toml").write_text(BUDGETS.format(most="100"))
    assert step("Check", place).returncode == 0


@pytest.mark.thorough
def test_the_container_file_works_in_a_tree_of_debootstrap(tmp_path):
    if os.geteuid() or shutil.which("debootstrap") is None:
        pytest.skip("the steps of the container file need root and debootstrap")
    script = ROOT / "deploy" / "try_container.py"
    elsewhere = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, script], env=elsewhere, capture_output=True, text=True)
    assert list(tmp_path.iterdir()) == []
    if "Failed getting release file" in done.stdout + done.stderr:
        pytest.skip("debootstrap reaches no package archive")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.endswith("the container file works\n")
