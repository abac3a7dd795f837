"""Slots of the HTTP server: addresses share them, and a connection that has sent nothing is closed first."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from http_client import ask, connect, read
from waiting import run, until

from hearsay.http_server import TEXT, HttpServer, response

SLOTS = 8
BEGUN = b"GET / HTTP/1.1\r\n"
ASK = BEGUN + b"\r\n"
WAIT = b"GET /wait HTTP/1.1\r\n\r\n"


class Listening:
    """A server that answers at once, except requests for `/wait`: those it answers after `released` is set."""

    def __init__(self):
        self.server = HttpServer(self.respond, SLOTS, patience_s=60)
        self.released = asyncio.Event()
        self.waiting = 0
        self.writers = []

    async def respond(self, request, reader, writer):
        if request.path == "/wait":
            self.waiting += 1
            await self.released.wait()
        writer.write(response(request.method, HTTPStatus.OK, TEXT, b"hello\n"))

    async def __aenter__(self):
        self.place = await self.server.listen("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        for writer in self.writers:
            writer.close()
        await self.server.close()

    async def connect(self, source):
        reader, writer = await connect(self.place, source)
        self.writers.append(writer)
        return reader, writer

    async def begin(self, source):
        """Return a connection that has sent a part of a request, which the server has read."""
        reader, writer = await self.connect(source)
        writer.write(BEGUN)
        held = self.server.connections
        assert read(await ask(self.place, ASK, source="127.0.0.9"))[0] == 200
        await until(lambda: self.server.connections == held)
        return reader, writer


async def finish(connection):
    """Send the rest of a request; return the status of its answer."""
    reader, writer = connection
    writer.write(b"\r\n")
    return read(await reader.read())[0]


@run
async def test_silent_connections_of_an_address_leave_half_of_the_slots_to_others():
    async with Listening() as listening:
        silent = [await listening.connect("127.0.0.2") for _ in range(3 * SLOTS)]
        for reader, _ in silent[: -SLOTS // 2]:
            assert await reader.read() == b""
        await until(lambda: listening.server.connections == SLOTS // 2)
        assert read(await ask(listening.place, ASK, source="127.0.0.3"))[0] == 200
        assert read(await ask(listening.place, ASK, source="127.0.0.2"))[0] == 200


@run
async def test_a_connection_that_has_sent_nothing_is_closed_before_one_that_has():
    async with Listening() as listening:
        begun = [await listening.begin(f"127.0.1.{number}") for number in range(1, SLOTS)]
        silent, _ = await listening.connect("127.0.2.1")
        await until(lambda: listening.server.connections == SLOTS)
        newcomer = await listening.connect("127.0.3.1")
        assert await silent.read() == b""
        newcomer[1].write(BEGUN)
        assert [await finish(connection) for connection in [*begun, newcomer]] == [200] * SLOTS


@run
async def test_a_connection_with_a_complete_request_is_closed_last():
    async with Listening() as listening:
        asked = [asyncio.ensure_future(ask(listening.place, WAIT, source="127.0.1.1")) for _ in range(SLOTS // 2)]
        await until(lambda: listening.waiting == SLOTS // 2)
        begun, _ = await listening.begin("127.0.2.1")
        for number in range(3, 2 + SLOTS // 2):
            asked.append(asyncio.ensure_future(ask(listening.place, WAIT, source=f"127.0.{number}.1")))
        await until(lambda: listening.waiting == SLOTS - 1)
        assert read(await ask(listening.place, ASK, source="127.0.9.1"))[0] == 200
        assert await begun.read() == b""
        listening.released.set()
        assert [read(answer)[0] for answer in await asyncio.gather(*asked)] == [200] * (SLOTS - 1)
