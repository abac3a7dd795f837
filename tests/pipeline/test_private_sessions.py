"""Privacy of Spark sessions: no other user can read their folders or use their ports, and no token is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest
from kills import environment

from hearsay.pipeline.spark.failures import in_one_line
from hearsay.pipeline.spark.settings import Where, address_without_secrets


def test_the_embedded_session_has_private_files_and_authenticated_ports(spark):
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true"
    folder = Path(settings["spark.sql.warehouse.dir"].removeprefix("file:")).parent
    assert S_IMODE(folder.stat().st_mode) == 0o700
    assert settings["spark.local.dir"] == str(folder)
    assert spark.range(10).repartition(3).count() == 10


@pytest.mark.parametrize("command", [["spark", "doctor"], ["trace", "import", __file__, "--out"]])
def test_a_token_is_never_printed(tmp_path, command):
    address = "sc://user:hidden@127.0.0.1:1/;use_ssl=true;token=hidden-token"
    arguments = [*command, *([str(tmp_path / "run")] if command[-1] == "--out" else []), "--remote", address]
    done = subprocess.run(
        [sys.executable, "-m", "hearsay", *arguments], capture_output=True, text=True, env=environment(), timeout=120
    )
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stdout + done.stderr
    assert "hidden" not in done.stdout + done.stderr


def test_an_error_of_the_gateway_is_one_line_with_its_cause():
    error = 'An error occurred while calling o1.open.\n: a.SomeException: No FileSystem for scheme "xyz"\n\tat a'
    assert in_one_line(RuntimeError(error)) == 'No FileSystem for scheme "xyz"'
    error += "\nCaused by: a.OtherError: no such class"
    assert in_one_line(RuntimeError(error)) == "no such class"


def test_a_token_in_an_error_is_hidden():
    assert str(Where(remote="sc://host:15002/;token=abc")) == "sc://host:15002"
    assert address_without_secrets("k8s://https://me:secret@host:6443/path") == "k8s://https://host:6443"
    text = in_one_line(RuntimeError("cannot connect to sc://host/;user_id=me;token=abc with Bearer abc"))
    assert "abc" not in text
    assert "user_id=me" in text
