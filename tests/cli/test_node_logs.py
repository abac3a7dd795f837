"""Metrics and logs of `hearsay node`: the URL of the metrics, logs as text and as JSON."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import socket
import subprocess
import sys
from datetime import datetime
from urllib.request import urlopen

import pytest
from commands import hearsay, started
from hypothesis import given
from hypothesis import strategies as st
from waiting import patience

from hearsay.cli.node_logs import NEWS, formatter
from hearsay.libp2p.names.peer_id import to_text
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node

COMMON_KEYS = {"time", "level", "logger", "message"}


class Running:
    """A node whose stderr is read line by line."""

    def __init__(self, *arguments):
        self.process = started("node", *arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def line(self, matches):
        """Return the next line for which `matches` returns True."""
        for line in self.process.stderr:
            if matches(line):
                return line
        raise AssertionError("the node ended")

    def end_with(self, number):
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=30)
        return self.process.wait(), rest


def test_the_url_of_the_metrics_is_reported_and_answers():
    with Running("--subscribe", "chat", "--metrics", "0") as node:
        url = node.line(lambda line: line.startswith("metrics: ")).removeprefix("metrics: ").strip()
        assert url.startswith("http://127.0.0.1:")
        with urlopen(url, timeout=30) as response:
            assert b'gossipsub_mesh_peer_counts{topic="chat"} 0\n' in response.read()
        with urlopen(url.replace("/metrics", "/ready"), timeout=30) as response:
            assert response.read() == b"ready\n"
        assert node.end_with(signal.SIGTERM)[0] == 143


def test_a_taken_port_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = hearsay("node", "--subscribe", "chat", "--metrics", port)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"hearsay: cannot start the node: metrics: cannot listen at 127.0.0.1 port {port}: Address already in use; "
        "use another port, or port 0 for any free port\n"
    )


@pytest.mark.parametrize("address", ["", "x", ":9464", "127.0.0.1:70000", "1:2:3"])
def test_an_invalid_address_is_an_error_of_one_line(address):
    ended = hearsay("node", "--metrics", address)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith(f"hearsay: --metrics {address!r}: an address is HOST:PORT")


def test_with_log_json_each_line_of_stderr_is_an_object():
    dead = "/ip4/127.0.0.1/tcp/1"
    with Running("--subscribe", "chat", "--connect", dead, "--log-json", "--log-level", "debug") as node:
        first = json.loads(node.line(lambda line: '"listening"' in line))
        refused = json.loads(node.line(lambda line: '"failed"' in line))
        code, rest = node.end_with(signal.SIGINT)
    assert first.keys() >= {*COMMON_KEYS, "event", "address"}
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert (refused["event"], refused["address"], refused["level"]) == ("address", dead, "info")
    *_, last = map(json.loads, rest.splitlines())
    assert (code, last["event"], last["code"], last["level"]) == (130, "ended", 130, "info")


def test_with_log_json_a_failure_is_an_object():
    ended = hearsay("node", "--log-json", "--metrics", "nowhere:x")
    (entry,) = map(json.loads, ended.stderr.splitlines())
    assert (ended.returncode, entry["code"], entry["level"], entry["event"]) == (2, 2, "error", "ended")
    assert entry["message"].startswith("--metrics 'nowhere:x'")


def test_connections_and_disconnections_are_logged_at_debug():
    async def connect_to(address):
        async with Node(NodeConfig(bootstrap=(address,))) as node, patience():
            while not node.peers:
                await asyncio.sleep(0.005)
        return node

    with Running("--subscribe", "chat", "--log-level", "debug") as node:
        address = node.line(lambda line: line.startswith("listening: ")).removeprefix("listening: ").strip()
        peer = to_text(asyncio.run(connect_to(address)).peer)
        assert node.line(lambda line: line.endswith(f" debug hearsay.node.links: {peer} is connected\n"))
        assert node.line(lambda line: line.endswith(f" debug hearsay.node.links: {peer} is gone\n"))


def record(name, text, error=None):
    given = (type(error), error, None) if error is not None else None
    return logging.LogRecord(name, logging.WARNING, __file__, 1, "%s", (text,), given)


ANY = st.text() | st.just("\n2026-01-01T00:00:00Z error hearsay.news: forged\x1b[2J\u202e\udcff")


@given(ANY, ANY, st.sampled_from([NEWS.name, "hearsay.node", "asyncio"]))
def test_logged_texts_cannot_forge_a_line_or_control_the_terminal(text, reason, name):
    first, *rest = formatter(as_json=False).format(record(name, text, ValueError(reason))).split("\n")
    assert first.isprintable()
    assert all(line.startswith("  | ") and line.isprintable() for line in rest)
    entry = json.loads(formatter(as_json=True).format(record(name, text, ValueError(reason))))
    assert (entry["message"], entry["level"], entry["logger"]) == (text, "warning", name)
    assert "ValueError" in entry["traceback"]


def test_the_library_prints_no_log_unless_the_program_configures_logging():
    program = "import logging, hearsay; logging.getLogger('hearsay.node').warning('x')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
    shown = subprocess.run(
        [sys.executable, "-c", "import logging; logging.basicConfig(); " + program],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stderr == "WARNING:hearsay.node:x\n"


def test_characters_that_the_encoding_of_stderr_lacks_are_escaped(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stderr", narrow)
    assert formatter(as_json=False).format(record(NEWS.name, "grüße")) == "gr\\xfc\\xdfe"
