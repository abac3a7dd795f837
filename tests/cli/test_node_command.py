"""`hearsay node` as people use it: two processes that chat, JSON, keys, traces, wrong input, Ctrl-C."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hearsay.trace.reader import read_rows
from hearsay.trace.schema import Column, TraceEvent
from hearsay.trace.verify import verify

HEARSAY = Path(sys.executable).with_name("hearsay")
CHAT = Path(__file__).parents[2] / "examples" / "chat.py"
QUICK = ("--set", "first_heartbeat_ms=10", "--set", "heartbeat_interval_ms=100")


RUNNING = []


@pytest.fixture(autouse=True)
def _nothing_stays_behind():
    yield
    while RUNNING:
        process = RUNNING.pop()
        process.kill()
        process.wait()


class Running:
    """A node in a process of its own, with --json."""

    def __init__(self, *arguments):
        command = [str(HEARSAY), "node", "--json", *QUICK, *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        RUNNING.append(self.process)
        self.address = self.until("listening")["address"]

    def until(self, event, **values):
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event and all(found[key] == value for key, value in values.items()):
                return found
        raise AssertionError(f"the node ended: {self.process.stderr.read()}")

    def type(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=30)
        assert "Traceback" not in errors
        return self.process.returncode


def test_two_terminals_chat_and_leave_readable_traces(tmp_path):
    one = Running("--subscribe", "chat", "--trace", tmp_path / "trace", "--key", tmp_path / "key")
    other = Running("--subscribe", "chat", "--connect", one.address)
    one.until("status", peers=1, mesh={"chat": 1})
    other.type("hello")
    said = one.until("message")
    assert (said["data"], said["topic"]) == ("hello", "chat")
    assert said["from"] == other.address.rpartition("/")[2]
    one.type("grüße")
    assert other.until("message")["data"] == "grüße"
    assert other.interrupt() == 130
    one.until("status", peers=0)
    assert one.interrupt() == 130
    runs = sorted((tmp_path / "trace").glob("[0-9]*"))
    assert [problem for run in (*runs, tmp_path / "trace") for problem in verify(run)] == []
    events = [row[Column.EVENT] for row in read_rows(tmp_path / "trace").tolist()]
    assert len(events) == sum(len(read_rows(run)) for run in runs)
    for event in (
        TraceEvent.NODE_UP,
        TraceEvent.GRAFT,
        TraceEvent.PUBLISH,
        TraceEvent.RECV_RPC,
        TraceEvent.NODE_DOWN,
    ):
        assert event in events
    assert events.count(TraceEvent.DELIVER) == 2
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    again = Running("--key", tmp_path / "key")
    assert again.address.rpartition("/")[2] == one.address.rpartition("/")[2]
    again.process.stdin.close()
    assert again.process.wait(timeout=30) == 0


def test_publishing_from_a_pipe_waits_for_a_peer_and_ends():
    reader = Running("--subscribe", "news", "--no-sign")
    command = [str(HEARSAY), "node", "--no-sign", *QUICK, "--publish", "news", "--connect", reader.address]
    sender = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    sender.stdin.write("one\n")
    sender.stdin.flush()
    assert reader.until("message")["from"] is None
    _, errors = sender.communicate(timeout=30)
    assert sender.returncode == 0, errors
    reader.interrupt()


def test_the_chat_example():
    pipe = subprocess.PIPE
    one = subprocess.Popen([sys.executable, str(CHAT), "--name", "Ada"], stdin=pipe, stdout=pipe, text=True)
    address = one.stdout.readline().split()[-1]
    arguments = ["--name", "Bob", "--connect", address]
    other = subprocess.Popen([sys.executable, str(CHAT), *arguments], stdin=pipe, stdout=pipe, text=True)
    other.stdin.write("hello\n")
    other.stdin.flush()
    line = one.stdout.readline()
    assert line.startswith("Bob [")
    assert line.endswith("]: hello\n")
    for process in (other, one):
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_the_file_sharing_example(tmp_path):
    book, copy = tmp_path / "book", tmp_path / "copy"
    book.write_bytes(random.Random(1).randbytes(300_000))
    program = [sys.executable, str(CHAT.with_name("file_sharing.py"))]
    sharing = subprocess.Popen([*program, "share", str(book)], stdout=subprocess.PIPE, text=True)
    root, address = (sharing.stdout.readline().split()[-1] for _ in range(2))
    fetching = [*program, "--connect", address, "fetch", root, str(copy)]
    done = subprocess.run(fetching, capture_output=True, text=True, timeout=100)
    sharing.send_signal(signal.SIGINT)
    assert done.stdout.endswith("fetched 19 pieces\n"), done.stderr
    assert copy.read_bytes() == book.read_bytes()
    assert sharing.wait(timeout=30) == 130


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--listen", "nonsense"), "--listen: 'nonsense' is not a multiaddr"),
        (("--connect", "/ip4/1.2.3.4/udp/1/quic-v1"), "host own supports only TCP"),
        (("--host", "libp2p", "--listen", "/ip4/1.2.3.4/udp/1"), "supports only TCP, WebSocket and QUIC"),
        (("--dht",), "--dht needs --host libp2p"),
        (("--router", "episumb"), "no router 'episumb'"),
        (("--preset", "v9"), "no preset 'v9'"),
        (("--set", "degree=-1"), "degree = -1: must be in 0…"),
        (("--set", "degree"), "write it as key=value"),
        (("--key", __file__), "--key"),
    ],
)
def test_wrong_input_is_one_line(arguments, complaint):
    done = subprocess.run(
        [str(HEARSAY), "node", *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(find_spec("libp2p") is not None, reason="py-libp2p is installed")
def test_a_host_whose_extra_is_missing_says_what_to_install():
    done = subprocess.run(
        [str(HEARSAY), "node", "--host", "libp2p"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert done.stderr.endswith("pip install hearsay[libp2p]\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_a_line_and_not_a_traceback():
    one = Running()
    taken = one.address.partition("/p2p/")[0]
    done = subprocess.run(
        [str(HEARSAY), "node", "--listen", taken],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "cannot start the node" in done.stderr
    assert "Traceback" not in done.stderr
    one.interrupt()
