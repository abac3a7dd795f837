"""The HTTP server of metrics: any request has one answer, and connections are bounded in size, time and number."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from http_client import ask, connect, read
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import run, until

from hearsay.http_server import HEAD_BYTES
from hearsay.node.metrics_server import CONNECTIONS, Answer, answering

ASK = b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"x" * (16 << 20)
ANSWERS = {"/here": lambda: Answer(b"hello\n"), "/large": lambda: Answer(LARGE)}


class Listening:
    def __init__(self, patience_s=60.0):
        self.server = answering(ANSWERS, patience_s)

    async def __aenter__(self):
        self.place = await self.server.listen("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        await self.server.close()

    async def ask(self, *pieces):
        return await ask(self.place, *pieces)


@run
async def test_a_request_in_one_piece_or_a_byte_at_a_time_has_the_same_answer():
    async with Listening() as server:
        whole = await server.ask(ASK)
        assert read(whole)[:2] == (200, b"hello\n")
        assert await server.ask(*(ASK[place : place + 1] for place in range(len(ASK)))) == whole
        assert read(await server.ask(b"GET /here?a=b HTTP/1.0\r\n\r\n"))[:2] == (200, b"hello\n")


@run
async def test_a_request_for_another_name_is_refused():
    """DNS rebinding: the name of another site resolves to the address of the server."""
    async with Listening() as server:
        for host, status in (
            ("evil.example", 421), ("evil.example:9100", 421), ("127.0.0.1.evil.example", 421), ("", 421),
            ("localhost:9100", 200), ("127.0.0.1", 200), ("[::1]:80", 200),
        ):  # fmt: skip
            assert read(await server.ask(f"GET /here HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()))[0] == status


@run
async def test_head_has_the_length_and_no_body():
    async with Listening() as server:
        response = await server.ask(b"HEAD /here HTTP/1.1\r\n\r\n")
        status, body, headers = read(response, "HEAD")
        assert (status, body, headers["Content-Length"], headers["Connection"]) == (200, b"", "6", "close")
        assert response.endswith(b"\r\n\r\n")
        for refused in (b"HEAD /elsewhere HTTP/1.1\r\n\r\n", b"HEAD /here HTTP/1.1\r\nHost: evil.example\r\n\r\n"):
            assert (await server.ask(refused)).endswith(b"\r\n\r\n")


@run
async def test_what_is_not_served_is_said_by_its_status():
    async with Listening() as server:
        for first, status in (
            (b"GET /elsewhere", 404), (b"GET /here/", 404), (b"POST /here", 405), (b"get /here", 405),
        ):  # fmt: skip
            assert read(await server.ask(first + b" HTTP/1.1\r\n\r\n"))[0] == status, first
        assert read(await server.ask(b"POST /here HTTP/1.1\r\n\r\n"))[2]["Allow"] == "GET, HEAD"


@run
async def test_what_is_no_request_is_refused():
    async with Listening() as server:
        assert read(await server.ask(b"\x16\x03\x01\x02\r\n\r\n"))[0] == 400
        assert read(await server.ask(b"GET /here HTTP/2\r\n\r\n"))[0] == 400


@given(st.text(max_size=20), st.text(max_size=20))
@settings(deadline=None)
def test_any_request_has_one_well_formed_answer(method, path):
    @run
    async def asked():
        async with Listening() as server:
            response = await server.ask(f"{method} {path} HTTP/1.1\r\n\r\n".encode())
            status, body, headers = read(response, method)
            assert HTTPStatus(status)
            assert method == "HEAD" or len(body) == int(headers["Content-Length"])

    asked()


@run
async def test_a_head_that_is_too_long_is_refused_whether_it_ends_or_not():
    async with Listening() as server:
        endless = b"GET /here HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES
        assert read(await server.ask(endless))[0] == 431
        assert read(await server.ask(endless + b"\r\n\r\n"))[0] == 431
        just = b"GET /here HTTP/1.1\r\nX: "
        fits = just + b"x" * (HEAD_BYTES - len(just)) + b"\r\n\r\n"
        assert read(await server.ask(fits))[0] == 200


@run
async def test_who_does_not_finish_a_request_is_answered_and_disconnected():
    async with Listening(patience_s=0.05) as server:
        assert read(await server.ask(b"GET /here HTTP/1.1\r\nX: "))[0] == 408
        assert read(await server.ask())[0] == 408


@run
async def test_who_does_not_read_the_answer_is_cut_off():
    async with Listening(patience_s=0.05) as server:
        reader, writer = await asyncio.open_connection(*server.place, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\n\r\n")
        await until(lambda: server.server.connections == 1)
        await until(lambda: server.server.connections == 0)
        received = 0
        with suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                received += len(piece)
        assert received < len(LARGE)
        writer.close()


@run
async def test_places_are_few_and_come_back():
    async with Listening() as server:
        held = [await connect(server.place, f"127.0.0.{2 + number % 4}") for number in range(2 * CONNECTIONS)]
        await until(lambda: sum(reader.at_eof() for reader, _ in held) == CONNECTIONS)
        assert server.server.connections == CONNECTIONS
        for _, holding in held:
            holding.close()
        await until(lambda: server.server.connections == 0)
        assert read(await server.ask(ASK))[0] == 200


@run
async def test_closing_ends_all_connections():
    async with Listening() as server:
        reader, writer = await asyncio.open_connection(*server.place)
        await until(lambda: server.server.connections == 1)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
