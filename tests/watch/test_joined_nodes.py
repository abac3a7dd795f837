"""Several real nodes on one page: joined by their names, they publish and stop; what they send is bounded."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import contextmanager, suppress
from queue import Queue
from socket import create_server
from subprocess import DEVNULL, PIPE
from threading import Thread
from time import time_ns
from urllib.error import HTTPError
from urllib.parse import urlsplit

import numpy as np
import pytest
from commands import hearsay, started
from hypothesis import given
from hypothesis import strategies as st
from waiting import run
from watched import Watched, next_event

from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.language.event_rows import node_up_row, reject_row
from hearsay.trace.language.rows import no_rows
from hearsay.trace.language.schema import NONE, WIDTH, Column
from hearsay.watch.broadcast import MOST_WAITING as MOST_FRAMES
from hearsay.watch.broadcast import Broadcast, Refused
from hearsay.watch.joined_nodes import MOST_WAITING, JoinedNodesSource
from hearsay.watch.links import DrawnNodes
from hearsay.watch.node import (
    ANSWER_S,
    MOST_FOLLOWERS,
    MOST_LETTERS,
    MOST_LINE,
    MOST_NAMES,
    MOST_ROWS,
    MalformedLine,
    Numbers,
    Piece,
    RemoteNode,
    RowStream,
    SharedNames,
    parse_line,
)
from hearsay.watch.picture import Picture
from hearsay.watch.server import KEEP_ALIVE_S, WatchServer

WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.lists(st.text(max_size=9), max_size=4).map(tuple)
ROWS = st.lists(st.lists(WHOLE, min_size=13, max_size=13), max_size=5).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 13)
)


@contextmanager
def running():
    """Yield a list for processes; interrupt those that still run at the end."""
    processes = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.communicate()


def start_node(processes, *arguments):
    """Start a watched node; return its process, the address of its page, and the address on which it listens."""
    process = started("node", "--json", "--subscribe", "news", "--watch", *arguments, stdin=PIPE, stdout=PIPE)
    processes.append(process)
    page = next_event(process, "watch")["address"]
    return process, page, next_event(process, "listening")["address"]


def test_three_nodes_on_one_page(tmp_path):
    with running() as processes:
        first, page, address = start_node(processes)
        last, *others = [start_node(processes, "--connect", address, *more) for more in (
            ("--watch-stop", "--trace", tmp_path / "trace"), ())]  # fmt: skip
        pages = [page, last[1], others[0][1]]
        joined = started("watch", *pages, stdout=PIPE, stderr=DEVNULL)
        processes.append(joined)
        watched = Watched(re.search(r"http://\S+", joined.stdout.readline())[0], None, [])
        frames = watched.frames()
        about = next(frames)["about"]
        assert about["source"] == "3 nodes"
        numbers, links, can, alive = [], set(), about["can"], 0
        for frame in frames:
            numbers += frame.get("nodes", [])
            if "about" in frame:
                numbers, links = frame["nodes"], set()
            links |= set(zip(*[iter(frame.get("linked", []))] * 3, strict=True))
            can, alive = frame.get("can", can), frame.get("alive", alive)
            if alive == 3 and can == ["publish", "stop"] and len({link for link in links if link[0] >= 0}) >= 4:
                break
        assert len(numbers) == 3
        stoppable = [place for place in range(3) if "stop" in watched.ask(do="node", place=place)["can"]]
        assert len(stoppable) == 1
        (place,) = stoppable
        other = (place + 1) % 3
        watched.ask(do="publish", place=other, topic=0)
        assert next_event(last[0], "message")["data"] == "published from the page"
        spread = {}
        for frame in frames:
            spread |= {progress[0]: progress[1] for progress in frame.get("spread", ())}
            if 2 in spread.values():
                break
        with pytest.raises(HTTPError):
            watched.ask(do="stop", place=other)
        watched.ask(do="stop", place=place)
        assert last[0].wait() == 128 + signal.SIGTERM
        assert load_manifest(tmp_path / "trace").trace.files
        for frame in frames:
            if frame["state"]["gone"] == 1 and frame.get("alive", alive) == 2:
                break
        assert first.poll() is None


def test_silent_nodes_stay_joined():
    """A page may be silent for longer than `ANSWER_S`, the time for an answer to a request."""
    with running() as processes:
        _, page, address = start_node(processes)
        pages = [page, start_node(processes, "--connect", address)[1]]
        joined = started("watch", *pages, stdout=PIPE, stderr=DEVNULL)
        processes.append(joined)
        frames = Watched(re.search(r"http://\S+", joined.stdout.readline())[0], None, []).frames()
        linked_us = next(frame["now"] for frame in frames if frame.get("alive") == 2)
        for frame in frames:
            assert frame["state"]["gone"] == 0
            if frame["now"] > linked_us + 1.5 * ANSWER_S * 1e6:
                break


class ObservedRowStream(RowStream):
    """A stream that queues the viewers that leave."""

    def __init__(self):
        super().__init__(Picture(DrawnNodes()), [])
        self.left = asyncio.Queue()

    def leave(self, viewer):
        super().leave(viewer)
        self.left.put_nowait(viewer)


def test_a_follower_that_disconnects_before_any_row_makes_room():
    async def follow(address):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(f"GET {address.path}rows HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        return writer

    async def followed():
        stream = ObservedRowStream()
        server = WatchServer(Broadcast(Picture(DrawnNodes()), {}, asyncio.get_running_loop()), rows=stream)
        await server.listen("127.0.0.1", 0)
        for _ in range(2):
            for follower in [await follow(urlsplit(server.url)) for _ in range(MOST_FOLLOWERS)]:
                follower.close()
            async with asyncio.timeout(KEEP_ALIVE_S / 2):
                for _ in range(MOST_FOLLOWERS):
                    await stream.left.get()
        await server.close()

    asyncio.run(followed())


def test_a_page_stops_no_node_that_does_not_allow_it():
    with running() as processes:
        process, page, _ = start_node(processes)
        watched = Watched(page, None, [])
        assert next(watched.frames())["about"]["can"] == ["publish"]
        with pytest.raises(HTTPError) as refused:
            watched.ask(do="stop", place=0)
        assert b"may not stop this node" in refused.value.read()
        assert process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("http://127.0.0.1:1/token/",), 1, "cannot be reached"),
        (("http://127.0.0.1/",), 2, "write the address that `hearsay node --watch` prints"),
        (("https://127.0.0.1:5/token/",), 2, "write the address that `hearsay node --watch` prints"),
        (("http://127.0.0.1:99999/token/",), 2, "write the address that `hearsay node --watch` prints"),
        (("http://[/token/",), 2, "write the address that `hearsay node --watch` prints"),
        (("http://h:1/t/", "http://h:1/t/"), 2, "given twice"),
        (("http://h:1/t/", "run"), 2, "several sources"),
        (("http://h:1/t/", "--nodes", "5"), 2, "--nodes needs a simulation"),
        (("http://h:1/t/", "--paused"), 2, "real nodes run in real time; leave out both"),
        (tuple(f"http://h:1/{number}/" for number in range(65)), 2, "at most 64"),
    ],
)
def test_wrong_addresses_are_one_line(arguments, code, words, tmp_path):
    ended = hearsay("watch", *arguments, cwd=tmp_path)
    assert (ended.returncode, words in ended.stderr) == (code, True), ended.stderr


@given(TEXTS, TEXTS, ROWS, TEXTS)
def test_a_piece_is_read_as_it_was_written(peers, topics, rows, can):
    line = Piece(peers, topics, rows, can).line()
    assert line.count(b"\n") == 2
    found = parse_line(line.removeprefix(b"data: "))
    assert (found.peers, found.topics, found.can) == (peers, topics, can)
    assert np.array_equal(found.rows, rows)


@given(st.binary(max_size=60) | st.recursive(st.none() | st.text(max_size=3) | st.integers(), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["peers", "topics", "rows", "can"]), inner)
)).map(lambda found: json.dumps(found).encode()))  # fmt: skip
def test_any_line_is_a_piece_or_refused(line):
    try:
        found = parse_line(line)
    except MalformedLine:
        return
    assert isinstance(found, Piece)
    assert found.rows.shape[1] == 13


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (Piece((), (), np.zeros((MOST_ROWS, WIDTH))), Piece((), (), np.zeros((MOST_ROWS + 1, WIDTH)))),
        (Piece(("x",) * MOST_NAMES, (), no_rows()), Piece(("x",) * (MOST_NAMES + 1), (), no_rows())),
        (Piece((), ("x" * MOST_LETTERS,), no_rows()), Piece((), ("x" * (MOST_LETTERS + 1),), no_rows())),
    ],
    ids=["rows", "names", "letters"],
)
def test_the_rows_and_names_of_a_piece_are_bounded(most, more):
    parse_line(most.line().removeprefix(b"data: "))
    with pytest.raises(MalformedLine):
        parse_line(more.line().removeprefix(b"data: "))


def first_received(body):
    """Return the first object that a follower receives from a page whose answer has this body."""

    def answer():
        stream, _ = server.accept()
        with stream, suppress(ConnectionError):
            stream.recv(1 << 16)
            stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)

    received = Queue()
    with create_server(("127.0.0.1", 0)) as server:
        answering = Thread(target=answer)
        answering.start()
        remote = RemoteNode(f"http://127.0.0.1:{server.getsockname()[1]}/token/")
        remote.connect()
        remote.follow(received.put)
        first = received.get()
        remote.close()
        answering.join()
    return first


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_length_of_a_line_is_bounded(beyond):
    begin, end = b'data: {"peers":[],"topics":["news"],"rows":""', b"}\n"
    line = begin + b" " * (MOST_LINE - len(begin) - len(end) + beyond) + end
    assert isinstance(first_received(line), Piece) == (not beyond)


class ImmediateNode(RemoteNode):
    """A node that delivers all its pieces at once when it is followed."""

    def __init__(self, *pieces):
        super().__init__("http://127.0.0.1:1/token/")
        self.pieces = pieces

    def follow(self, deliver):
        for piece in self.pieces:
            deliver(piece)


def test_rows_that_wait_to_be_shown_are_bounded():
    row = reject_row(time_ns() // 1000, 0, 0, NONE, 0, 0, 1, 0)
    rows = np.tile(np.array(row, dtype=np.int64), (MOST_ROWS, 1))
    source = JoinedNodesSource([ImmediateNode(Piece(("a",), ("news",), rows), *[Piece((), (), rows)] * 10)])
    assert (10 + 1) * MOST_ROWS == MOST_WAITING + MOST_ROWS

    async def watched():
        broadcast = Broadcast(source.picture, source.about(), asyncio.get_running_loop())
        viewer = broadcast.join()
        running = asyncio.create_task(asyncio.to_thread(source.run, broadcast, until_complete=False))
        shown, unseen = 0, set()
        while not shown:
            frame = json.loads((await viewer.next()).removeprefix(b"data: "))
            unseen.add(frame["state"]["unseen"])
            if source.picture.drawn.numbers:
                shown = (await broadcast.ask({"do": "node", "place": 0}))["traffic"]["refused"]
        source.close()
        await running
        return shown, unseen

    assert asyncio.run(watched()) == (MOST_WAITING, {MOST_ROWS})


def test_a_node_that_is_gone_is_down_however_many_rows_wait():
    node = ImmediateNode()
    source = JoinedNodesSource([node])
    now_us = time_ns() // 1000 + 1
    up = np.array([node_up_row(now_us, 0)], dtype=np.int64)
    rows = np.tile(np.array(reject_row(now_us, 0, NONE, NONE, 0, 0, 1, 0), dtype=np.int64), (MOST_ROWS, 1))
    node.pieces = Piece(("a",), ("news",), up), *[Piece((), (), rows)] * 11, None

    async def watched():
        broadcast = Broadcast(source.picture, source.about(), asyncio.get_running_loop())
        await asyncio.to_thread(source.run, broadcast, until_complete=True)
        return source.picture.node(0)["up"]

    assert not asyncio.run(watched())


@given(TEXTS, ROWS)
def test_numbers_without_a_name_are_none(peers, rows):
    names = SharedNames(Numbers(), Numbers())
    found = names.translated(Piece(peers, (), rows))
    assert set(found[:, Column.PEER]) <= {NONE, *range(len(set(peers)))}
    assert set(found[:, Column.TOPIC]) <= {NONE}
    assert np.array_equal(found[:, Column.MESSAGE], rows[:, Column.MESSAGE])


def test_names_of_all_nodes_are_bounded():
    numbers = Numbers()
    assert [numbers.of(str(number)) for number in range(MOST_NAMES)] == [*range(MOST_NAMES)]
    assert (numbers.of("more"), numbers.of("7")) == (NONE, 7)


def test_names_of_a_node_are_bounded():
    names = SharedNames(Numbers(), Numbers())
    names.translated(Piece(("x",) * MOST_NAMES, (), no_rows()))
    with pytest.raises(MalformedLine):
        names.translated(Piece(("x",), (), no_rows()))


@run
async def test_a_follower_that_takes_lines_too_slowly_is_let_go():
    stream = RowStream(Picture(DrawnNodes()), ["publish"])
    slow, other = stream.join(), stream.join()
    topics = []
    for number in range(MOST_FRAMES + 1):
        topics.append(f"topic {number}")
        stream.send_rows(no_rows(), (("me",), topics), 0)
        assert await other.next() is not None
    assert await slow.next() is None


def test_the_number_of_followers_is_bounded():
    stream = RowStream(Picture(DrawnNodes()), ["publish"])
    viewers = [stream.join() for _ in range(MOST_FOLLOWERS)]
    with pytest.raises(Refused):
        stream.join()
    stream.leave(viewers[0])
    stream.join()
