"""`--remote local[N]`: the Connect server that PySpark starts with the first command and keeps for the next ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kills import environment, require_end
from spark_versions import needs_kept_servers
from test_cluster import sorted_rows

from hearsay.pipeline.output.tables import TABLES, read_table

REMOTE = ("--remote", "local[2]")
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
ON_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
"""127.0.0.1, the same as an IPv6 address, and ::1, as Linux lists them."""


@pytest.fixture
def variables(tmp_path) -> Iterator[Mapping[str, str]]:
    """Return the environment of commands that share a server, which no other test uses; then stop the server."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    given = {**environment(), "TMPDIR": str(temporary), "HEARSAY_SPARK_HEAP": "600m"}
    given.pop("JAVA_HOME", None)
    yield given
    subprocess.run([sys.executable, "-m", "pyspark.sql.connect.local_server", "--stop"], env=given, check=True)
    for file in temporary.glob("spark-connect-*/*.pid"):
        require_end(int(file.read_text()))


def listening_addresses(pid: int) -> list[str]:
    """Return the addresses on which a process accepts TCP connections, as Linux writes them."""
    sockets = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    files = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line.split() for file in files for line in file.read_text().splitlines()]
    return [
        fields[1].partition(":")[0] for fields in lines if fields[3] == LISTENS and f"socket:[{fields[9]}]" in sockets
    ]


@needs_kept_servers
@pytest.mark.thorough
def test_commands_share_a_server_that_only_this_user_reaches(two_runs, tmp_path, variables):
    run = two_runs["topics"]
    servers: list[dict[str, object]] = []
    for name in ("first", "second"):
        command = [sys.executable, "-m", "hearsay", "analyze", run, "--out", tmp_path / name, *REMOTE]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300)
        assert done.returncode == 0, done.stderr
        (file,) = (tmp_path / "temporary").glob("spark-connect-*/connect-local.json")
        servers.append(json.loads(file.read_text()))
        for table in TABLES:
            assert sorted_rows(read_table(tmp_path / name / run.name, table)) == sorted_rows(read_table(run, table))
    assert servers[0] == servers[1]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    pid = int(str(servers[0]["pid"]))
    addresses = listening_addresses(pid)
    assert addresses
    assert set(addresses) <= set(ON_LOOPBACK)
    command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert str(servers[0]["token"]).encode() not in command_line
