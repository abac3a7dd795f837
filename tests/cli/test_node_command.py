"""`hearsay node` as people use it: two processes that chat, pipes, JSON, keys, traces, wrong input, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import HEARSAY, hearsay, started
from running_node import QUICK, RUNNING, Running

from hearsay.core.language.rpc import Rpc, Subscription
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.peer_id import to_text
from hearsay.trace.compare_runs import verify
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.reader import read_rows
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

CHAT = Path(__file__).parents[2] / "examples" / "chat.py"


@pytest.fixture(autouse=True)
def _kill_started_nodes():
    yield
    while RUNNING:
        process = RUNNING.pop()
        process.kill()
        process.wait()


def forge(address, count):
    """Send `count` messages with wrong signatures, and return the id of the sender when it is disconnected."""

    async def attack():
        host = Host()
        host.handle("/meshsub/1.1.0", lambda stream: None)
        try:
            stream = await host.open_stream(await host.dial(address), ["/meshsub/1.1.0"])
            signed = Author(host.identity, 1).write("chat", b"x", SignaturePolicy.STRICT_SIGN)
            for number in range(count):
                forged = replace(signed, data=b"%d" % number)
                stream.write(frame(encode_rpc(Rpc((Subscription("chat", True),), (forged,)))))
            while host.connections:
                await asyncio.sleep(0.01)
        finally:
            await host.close()
        return to_text(host.peer)

    return asyncio.run(asyncio.wait_for(attack(), 30))


def test_a_ban_is_reported_with_peer_address_time_and_reason():
    node = Running("--subscribe", "chat")
    sender = forge(node.address, 20)
    found = node.until("kept_out")
    assert (found["peer"], found["address"], found["for_s"]) == (sender, "127.0.0.1", 600.0)
    assert found["reason"] == "11 forged messages"


def test_two_terminals_chat_and_leave_readable_traces(tmp_path):
    one = Running("--subscribe", "chat", "--trace", tmp_path / "trace", "--key", tmp_path / "key")
    other = Running("--subscribe", "chat", "--connect", one.address)
    one.until("status", peers=1, mesh={"chat": 1})
    other.type("hello")
    message = one.until("message")
    assert (message["data"], message["topic"]) == ("hello", "chat")
    assert message["from"] == other.address.rpartition("/")[2]
    one.type("grüße")
    assert other.until("message")["data"] == "grüße"
    assert other.interrupt() == 130
    one.until("status", peers=0)
    assert one.interrupt() == 130
    # the trace may be in one folder or in several
    runs = sorted((tmp_path / "trace").glob("[0-9]*")) or [tmp_path / "trace" / "whole"]
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
    command = ("node", "--no-sign", *QUICK, "--publish", "news", "--connect", reader.address)
    sender = started(*command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    sender.stdin.write("one\n")
    sender.stdin.flush()
    assert reader.until("message")["from"] is None
    _, errors = sender.communicate(timeout=30)
    assert sender.returncode == 0, errors
    reader.interrupt()


def is_listening(address):
    try:
        socket.create_connection(("127.0.0.1", int(address.split("/")[4]))).close()
    except ConnectionError:
        return False
    return True


def node(*arguments, stdin="", timeout=60):
    """Run a node to its end."""
    return hearsay("node", *QUICK, *arguments, input=stdin, timeout=timeout)


def test_piped_lines_arrive_before_the_node_ends():
    reader = Running("--subscribe", "news")
    lines = [f"line {number}" for number in range(100)]
    done = node("--publish", "news", "--connect", reader.address, stdin="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert [reader.until("message")["data"] for _ in lines] == lines
    assert f"connected to {reader.address}: /meshsub/1.1.0" in done.stderr
    reader.interrupt()


def test_messages_that_reach_no_peer_are_reported_as_a_failure():
    stranger = Running("--subscribe", "weather")
    refused = node("--publish", "news", "--connect", stranger.address, "--wait", "0.5", stdin="one\n\ntwo\nthree")
    assert refused.returncode == 1
    expected = "hearsay: 3 messages for topic news reached no peer: no subscriber came within 0.5 s, 1 other peer did"
    assert refused.stderr.splitlines()[-1] == expected
    stranger.interrupt()
    no_peer = node("--publish", "news", "--connect", stranger.address, "--wait", "0.2", stdin="one")
    assert no_peer.returncode == 1
    assert no_peer.stderr.splitlines()[-1] == (
        "hearsay: 1 message for topic news reached no peer: no peer was connected within 0.2 s; "
        f"{stranger.address}: Connection refused"
    )


def test_a_peer_that_does_not_confirm_the_end_is_a_failure():
    reader = Running("--subscribe", "news")
    command = ("node", *QUICK, "--json", "--publish", "news", "--connect", reader.address)
    sender = started(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sender.stdin.write("one\n")
    sender.stdin.flush()
    reader.until("message")
    reader.process.send_signal(signal.SIGSTOP)
    _, errors = sender.communicate("two\n", timeout=30)
    reader.process.send_signal(signal.SIGCONT)
    assert sender.returncode == 1
    assert errors == (
        "hearsay: the last messages may not have arrived: no peer has confirmed the end of its connection\n"
    )
    reader.interrupt()


def test_lines_that_are_too_long_are_refused_and_the_later_ones_sent(tmp_path):
    reader = Running("--subscribe", "news")
    given = tmp_path / "lines"
    given.write_text("\n".join(["first", "x" * 3_000_000, "second", "y" * (1 << 20), "third", ""]))
    with given.open() as file:
        done = hearsay("node", *QUICK, "--publish", "news", "--connect", reader.address, stdin=file)
    assert done.returncode == 1
    refusals = [line for line in done.stderr.splitlines() if "not sent" in line or line.startswith("hearsay")]
    assert refusals[0] == "line 2: not sent: 3000000 bytes; at most 1048576 fit into an RPC"
    assert refusals[1].startswith("line 4: not sent: a message of 1048")
    assert refusals[2:] == ["hearsay: 2 lines of the input could not be sent"]
    assert [reader.until("message")["data"] for _ in range(3)] == ["first", "second", "third"]
    reader.interrupt()


def test_a_line_that_still_waits_is_named_when_the_node_is_interrupted():
    waiting = Running("--subscribe", "news")
    waiting.type("hello?")
    waiting.until("waiting", topic="news")
    waiting.process.send_signal(signal.SIGINT)
    _, errors = waiting.process.communicate(timeout=30)
    assert waiting.process.returncode == 130
    assert list(filter(None, errors.splitlines())) == [
        "hearsay: 1 message for topic news reached no peer: no peer was connected",
        "hearsay: interrupted",
    ]


@pytest.mark.parametrize("kind", ["nothing", "a file", "closed"])
def test_a_node_with_an_empty_or_closed_input_ends(kind, tmp_path):
    (tmp_path / "empty").touch()
    given = {"nothing": "< /dev/null", "a file": f"< {tmp_path / 'empty'}", "closed": "<&-"}[kind]
    done = subprocess.run(["sh", "-c", f"{HEARSAY} node {given}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["listening", "peers"]


def test_messages_of_peers_cannot_forge_lines_or_control_the_terminal():
    reader = subprocess.Popen(
        [str(HEARSAY), "node", *QUICK, "--subscribe", "news"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    RUNNING.append(reader)
    address = reader.stderr.readline().decode().split()[-1]
    hostile = b"\x1b]0;owned\x07\rAda: yes \xe2\x80\xae \xff \\ \xc2\x9b gr\xc3\xbc\xc3\x9fe\n"
    command = [str(HEARSAY), "node", *QUICK, "--publish", "news", "--connect", address]
    sender = subprocess.run(command, input=hostile, capture_output=True, timeout=60)
    assert sender.returncode == 0, sender.stderr
    line = reader.stdout.readline().decode()
    assert line.partition(": ")[2] == "\\x1b]0;owned\\x07\\rAda: yes \\u202e \\xff \\\\ \\x9b grüße\n"
    reader.terminate()
    assert reader.wait(timeout=30) == 143


def test_each_address_is_reported_with_its_state_and_reason(tmp_path):
    one = Running("--subscribe", "chat")
    key = one.address.rpartition("/")[2]
    bare = one.address.partition("/p2p/")[0]
    someone = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
    seeker = Running("--connect", bare, "--connect", f"{bare}/p2p/{someone}", "--connect", "/ip4/127.0.0.1/tcp/1")
    news = {}
    while len(news) < 3:
        found = seeker.until("address")
        news[found.pop("address")] = found
    assert news[bare]["state"] == "connected"
    assert (news[bare]["peer"], news[bare]["protocol"]) == (key, "/meshsub/1.1.0")
    assert news[f"{bare}/p2p/{someone}"]["reason"] == f"expected {someone}, got {key}"
    refused = news["/ip4/127.0.0.1/tcp/1"]
    assert (refused["state"], refused["reason"]) == ("failed", "Connection refused")
    assert 1 <= refused["retry_s"] <= 1.5
    one.interrupt()
    lost = seeker.until("address", address=bare)
    assert (lost["state"], lost["reason"]) == ("lost", "the connection ended")
    assert seeker.until("address", address=bare)["reason"] == "Connection refused"
    seeker.interrupt()


def test_the_own_address_of_a_node_is_not_dialled_again(tmp_path):
    first = Running("--key", tmp_path / "key")
    first.interrupt()
    bare = first.address.partition("/p2p/")[0]
    again = Running("--key", tmp_path / "key", "--listen", bare, "--connect", first.address, "--connect", bare)
    expected = [again.until("address", state="own") for _ in range(2)]
    assert {news["address"] for news in expected} == {first.address, bare}
    assert {news["reason"] for news in expected} == {"this is the node itself"}
    again.interrupt()


def test_sigterm_ends_a_node_in_good_order(tmp_path):
    one = Running("--subscribe", "chat", "--trace", tmp_path / "trace")
    one.process.terminate()
    _, errors = one.process.communicate(timeout=30)
    assert one.process.returncode == 143
    assert len(errors.splitlines()) == 1
    assert verify(tmp_path / "trace") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_that_is_repeated_at_once_ends_a_node_in_good_order(tmp_path, number):
    """`timeout` sends its signal to the child, and again to the child's group."""
    one = Running("--subscribe", "chat", "--trace", tmp_path / "trace")
    for _ in range(100):
        with suppress(ProcessLookupError):
            one.process.send_signal(number)
        until = time.monotonic() + 0.0003
        while time.monotonic() < until:  # signals arrive one by one, also during the first
            pass
    _, errors = one.process.communicate(timeout=30)
    assert one.process.returncode == 128 + number, errors
    assert len(errors.splitlines()) == 1
    assert verify(tmp_path / "trace") == []


def test_a_second_signal_does_not_wait_for_peers_that_do_not_answer():
    one = Running("--subscribe", "chat")
    other = Running("--subscribe", "chat", "--connect", one.address)
    one.until("status", peers=1)
    other.process.send_signal(signal.SIGSTOP)
    one.process.send_signal(signal.SIGINT)
    while is_listening(one.address):  # the node begins to close, and waits for the stopped peer
        pass
    one.process.terminate()
    _, errors = one.process.communicate(timeout=30)
    assert one.process.returncode == 143
    assert errors == "hearsay: terminated\n"
    other.process.send_signal(signal.SIGCONT)


def test_the_traces_of_several_nodes_are_joined_into_one_run(tmp_path):
    one = Running("--subscribe", "chat", "--trace", tmp_path / "one")
    other = Running("--subscribe", "chat", "--connect", one.address, "--trace", tmp_path / "other")
    one.until("status", peers=1, mesh={"chat": 1})
    other.type("hello")
    one.until("message")
    one.type("hello yourself")
    other.until("message")
    for running in (other, one):
        running.interrupt()
    command = ("trace", "join", tmp_path / "one", tmp_path / "other")
    done = hearsay(*command, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "2 traces of 2 nodes" in done.stdout
    alone = hearsay("trace", "join", tmp_path / "one", "--out", tmp_path / "alone")
    assert "1 trace of 1 node, " in alone.stdout
    assert verify(tmp_path / "run") == []
    rows = read_rows(tmp_path / "run")
    delivered = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER]
    assert sorted(delivered[:, [Column.PEER, Column.MESSAGE]].tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    again = hearsay(*command, "--out", tmp_path / "one")
    assert again.returncode == 1
    assert len(again.stderr.splitlines()) == 1
    assert verify(tmp_path / "one") == []


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


def test_lines_piped_into_the_chat_example_arrive():
    one = subprocess.Popen([sys.executable, str(CHAT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    RUNNING.append(one)
    arguments = ("--name", "Bob", "--connect", one.stdout.readline().split()[-1])
    lines = "".join(f"{number}\n" for number in range(300))
    done = subprocess.run([sys.executable, str(CHAT), *arguments], input=lines, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    received = [one.stdout.readline().split()[-1] for _ in range(300)]
    assert received == lines.split()


def test_the_columns_example():
    """Two nodes have five of eight cells each, and get the missing ones from each other."""
    program = [sys.executable, str(CHAT.with_name("columns.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    one = subprocess.Popen([*program, "--has", "0-4"], **pipes)
    RUNNING.append(one)
    address = one.stdout.readline().split()[-1]
    other = subprocess.Popen([*program, "--has", "3-7", "--connect", address], **pipes)
    RUNNING.append(other)
    other.stdout.readline()
    assert [node.stdout.readline() for node in (one, other)] == ["column 7 is whole: 8201 bytes\n"] * 2
    for node in (other, one):
        node.stdin.close()
        assert node.wait(timeout=30) == 0


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
        (
            ("--subscribe", "chat", "--set", 'allowed_topics=["news"]'),
            "--subscribe chat: not one of the router's allowed_topics",
        ),
        (("--set", "degree=-1"), "degree = -1: must be in 0…"),
        (("--set", "degree=--5"), "degree = '--5': must be an integer"),
        (("--set", "degree"), "write it as key=value"),
        (("--key", __file__), "--key"),
        (("--key", "no-such-folder/key"), "--key no-such-folder/key: No such file or directory"),
        (("--subscribe", ""), "--subscribe '': is empty; the name of a topic must not be"),
        (("--publish", ""), "--publish '': is empty; the name of a topic must not be"),
        (("--set", "degre=8"), "degre = 8: is not a parameter of this router; did you mean degree?"),
        (("--set", "x=8"), "is not a parameter of this router; there are "),
        (("--connect", "/ip4/127.0.0.1/tcp/0"), "port 0 is not a listening port"),
    ],
)
def test_wrong_input_is_one_line(arguments, complaint):
    done = hearsay("node", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(find_spec("libp2p") is not None, reason="py-libp2p is installed")
def test_a_host_whose_extra_is_missing_says_what_to_install():
    done = hearsay("node", "--host", "libp2p")
    assert done.returncode == 1
    assert done.stderr.endswith("pip install 'hearsay-gossip[libp2p]'\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_an_error_without_a_traceback():
    one = Running()
    taken = one.address.partition("/p2p/")[0]
    done = hearsay("node", "--listen", taken)
    assert done.returncode == 1
    assert "cannot start the node" in done.stderr
    one.interrupt()


def test_a_router_that_fails_ends_the_node_with_one_line_and_a_sealed_trace(tmp_path):
    (tmp_path / "half_router.py").write_text(
        "from hearsay.core.flooding import Floodsub, FloodsubParameters\n"
        "from hearsay.core.registry import RouterKind\n"
        "class Half(Floodsub):\n"
        "    def accepted(self, message, received_from):\n"
        "        raise KeyError('boom')\n"
        "HALF = RouterKind('half', FloodsubParameters, Half, {'r1': {}})\n",
        encoding="utf-8",
    )
    sender = Running("--subscribe", "news", "--router", "floodsub", quick=())
    half = started(
        "node", "--router", "half_router:HALF", "--subscribe", "news", "--connect", sender.address,
        "--trace", tmp_path / "trace", env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    RUNNING.append(half)
    sender.type("hello")
    half.wait(timeout=30)
    errors = half.stderr.read()
    assert half.returncode == 1
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("hearsay: router half failed at this node, handling ")
    assert "KeyError: 'boom' (half_router.py:5, in accepted); HEARSAY_DEBUG=1 shows its traceback" in errors
    assert verify(tmp_path / "trace") == []


def test_output_that_cannot_be_written_is_reported_once():
    sender = Running("--subscribe", "news")
    with open("/dev/full", "w") as full:
        command = ("node", *QUICK, "--subscribe", "news", "--connect", sender.address)
        node = started(*command, stdin=subprocess.PIPE, stdout=full, stderr=subprocess.PIPE)
    RUNNING.append(node)
    sender.type("hello")
    node.wait(timeout=30)
    errors = [line for line in node.stderr.read().splitlines() if line.startswith("hearsay:")]
    assert node.returncode == 1
    assert errors == ["hearsay: standard output cannot be written to: No space left on device"]


def test_a_long_topic_is_shortened_when_it_is_shown():
    topic = "long" * 25_000
    done = hearsay("node", "--publish", topic, "--wait", "0.1", input="hello\n")
    assert done.returncode == 1
    assert topic[:60] + "…" in done.stderr
    assert len(done.stderr) < 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ("node", "--trace"),
        ("node", "--key"),
        ("simulate", "--out"),
        ("demo", "--out"),
        ("trace", "join", "x", "--out"),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_folder(tmp_path, arguments):
    done = hearsay(*arguments, "", cwd=tmp_path)
    assert done.returncode == 2
    assert f"'{arguments[-1]}': the path is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []
