"""Commands of an installation without extras: the error names what to install, before anything starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import hearsay
from fewer_packages import BEYOND_NOTHING, BEYOND_SIM, MAIN, path_without

import hearsay as package
from hearsay.cli.commands import COMMANDS
from hearsay.user_errors import EXTRAS

Run = Callable[..., subprocess.CompletedProcess[str]]

MAX_NODE_BYTES = 45 * 10**6
SMALL = ("--nodes", "20", "--messages", "1")


def installation(folder: Path, without: tuple[str, ...]) -> Run:
    path = path_without(folder, without)

    def run(*arguments: object, cwd: Path, program: str = MAIN) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", program, *map(str, arguments)], stdin=subprocess.DEVNULL,
            cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """`pip install hearsay-gossip`."""
    return installation(tmp_path_factory.mktemp("bare"), BEYOND_NOTHING)


@pytest.fixture(scope="module")
def with_sim(tmp_path_factory):
    """`pip install 'hearsay-gossip[sim]'`."""
    return installation(tmp_path_factory.mktemp("sim"), BEYOND_SIM)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    assert hearsay("simulate", *SMALL, "--out", folder).returncode == 0
    return folder


NEED_SPARK = [
    ("analyze", "RUN"),
    ("analyze", "RUN", "--follow"),
    ("demo", *SMALL),
    ("compare", "r1", "--set", "network.nodes=20", "--seeds", "2", "--master", "local[1]"),
    ("trace", "import", "RUN/scenario.toml", "--out", "imported", "--master", "local[1]"),
]
NEED_SIM = [
    ("simulate", *SMALL),
    ("simulate", "--list-presets"),
    ("trace", "show", "RUN"),
    ("trace", "diff", "RUN", "RUN"),
    ("trace", "join", "RUN", "--out", "joined"),
    ("report", "RUN"),
    ("score", "--preset", "go"),
    ("node", "--trace", "node-trace"),
    ("compare", "r1", "--set", "router.degree=4", "--seeds", "2"),
]


def assert_names_extra(done: subprocess.CompletedProcess[str], extra: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    line = rf"hearsay: \w+ is not installed: {re.escape(sys.executable)} -m pip install 'hearsay-gossip\[{extra}\]'\n"
    assert re.fullmatch(line, done.stderr)


@pytest.mark.parametrize("arguments", NEED_SPARK, ids=lambda arguments: " ".join(arguments[:2]))
@pytest.mark.parametrize("installed", ["bare", "with_sim"])
def test_without_spark_nothing_is_begun_and_the_extra_is_named(installed, run, arguments, tmp_path, request):
    plain: Run = request.getfixturevalue(installed)
    done = plain(*(argument.replace("RUN", str(run)) for argument in arguments), cwd=tmp_path)
    assert_names_extra(done, "(spark|sim)" if installed == "bare" else "spark")
    assert not list(tmp_path.rglob("trace"))
    assert not (run / "metrics").exists()


@pytest.mark.parametrize("arguments", NEED_SIM, ids=lambda arguments: " ".join(arguments[:2]))
def test_without_the_simulator_nothing_is_begun_and_the_extra_is_named(bare, run, arguments, tmp_path):
    assert_names_extra(bare(*(argument.replace("RUN", str(run)) for argument in arguments), cwd=tmp_path), "sim")
    assert not list(tmp_path.iterdir())


def test_without_the_optimiser_nothing_is_begun_and_the_extra_is_named(with_sim, tmp_path):
    asked = ("tune", "r1", "--vary", "router.degree=4..6", "--aim", "latency_p99_ms")
    assert_names_extra(with_sim(*asked, cwd=tmp_path), "tune")
    assert not list(tmp_path.iterdir())


def test_figures_for_papers_need_their_extra(with_sim, run, tmp_path):
    assert_names_extra(with_sim("report", str(run), "--figures", "figures", cwd=tmp_path), "figures")
    assert not list(tmp_path.iterdir())


def test_simulate_show_and_tracestat_need_no_spark(with_sim, run, tmp_path):
    for arguments in (("simulate", *SMALL), ("trace", "show", run), ("analyze", run, "--format", "tracestat")):
        assert with_sim(*arguments, cwd=tmp_path).returncode == 0


def test_without_spark_runs_are_made_in_processes(with_sim, tmp_path):
    small = ("--both", "network.nodes=20", "--both", "workload.messages=1", "--seeds", "2")
    done = with_sim("compare", "r1", "--set", "router.degree=4", *small, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Spark is not installed, so runs are made in" in done.stderr
    assert "4 of 4 runs done" in done.stderr
    assert (tmp_path / "out" / "tables" / "runs.parquet").exists()
    assert (tmp_path / "out" / "report.html").exists()


def test_a_sweep_needs_neither_spark_nor_the_optimiser(with_sim, tmp_path):
    study = 'seeds = 1\n[base]\npreset = "r1"\nnetwork = { nodes = 20 }\nworkload = { messages = 1 }\n'
    (tmp_path / "study.toml").write_text(f'{study}[[axes]]\nkey = "router.degree"\nvalues = [4, 5]\n')
    done = with_sim("sweep", "study.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs done" in done.stderr
    assert (tmp_path / "out" / "report.html").exists()


def test_a_node_and_all_help_need_no_extra(bare, tmp_path):
    for command in ([], *([name] for name in COMMANDS)):
        assert bare(*command, "--help", cwd=tmp_path).returncode == 0
    done = bare("node", "--publish", "news", cwd=tmp_path)  # ends with its input
    assert (done.returncode, "listening: /ip4/" in done.stderr) == (0, True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_node_needs_little_memory(bare, tmp_path):
    program = (
        "import asyncio, re, hearsay\n"
        "async def main():\n"
        "    async with hearsay.Node() as node:\n"
        "        await node.join('news')\n"
        "        print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
        "asyncio.run(main())"
    )
    done = bare(cwd=tmp_path, program=program)
    assert 0 < int(done.stdout) * 1024 < MAX_NODE_BYTES


def test_a_program_with_a_node_needs_no_extra(bare, tmp_path):
    program = (
        "import asyncio, hearsay\n"
        "async def main():\n"
        "    async with hearsay.Node() as node:\n"
        "        await (await node.join('news')).publish(b'hello')\n"
        "asyncio.run(main())\n"
        "try: hearsay.simulate\n"
        "except hearsay.MissingExtra as error: print(error)\n"
    )
    done = bare(cwd=tmp_path, program=program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("pip install 'hearsay-gossip[sim]'\n")


def test_the_citation_names_the_version():
    citation = Path(package.__file__).parents[2].joinpath("CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {package.__version__}\n" in citation


def test_every_extra_is_known_by_its_modules():
    project = tomllib.loads(Path(package.__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    assert {*EXTRAS, "all"} == set(project["project"]["optional-dependencies"])


def test_an_environment_without_pip_is_extended_with_uv(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    program = "from hearsay.user_errors import pip_install; print(pip_install('sim'))"
    source = str(Path(package.__file__).parents[1])
    done = subprocess.run(
        [python, "-c", program], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"uv pip install --python {python} 'hearsay-gossip[sim]'\n"
