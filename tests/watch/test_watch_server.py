"""Access to the watch page: token, host, origin, bounds; and the page while the engine is compiled."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
from contextlib import ExitStack
from subprocess import PIPE
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from commands import started
from hypothesis import given, settings
from hypothesis import strategies as st
from watched import watched

from hearsay.http_server import Request, port_in
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.links import DrawnNodes
from hearsay.watch.picture import Picture
from hearsay.watch.server import CONNECTIONS, WatchServer


@pytest.fixture(scope="module")
def page():
    scenario = load_scenario(None, "r1", [("network.nodes", "10")])
    with watched(scenario, 1.0, paused=True) as page:
        yield page


def request(page, path, method="GET", body=None, **headers):
    at = urlsplit(page.url)
    connection = http.client.HTTPConnection(at.hostname, at.port)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, response.read(), response.headers


def status_for(page, raw):
    """Send bytes; return the status of the answer, or 0 if the connection ends without one."""
    at = urlsplit(page.url)
    with socket.create_connection((at.hostname, at.port)) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            answered = connection.makefile("rb").readline()
        except OSError:
            return 0
    return int(answered.split(b" ")[1]) if answered else 0


@pytest.mark.parametrize("turns", range(10))
def test_a_connection_that_is_accepted_while_the_server_closes_leaves_no_task(turns):
    """The server's task for a connection starts some turns of the event loop after the connection."""

    async def left():
        server = WatchServer(Broadcast(Picture(DrawnNodes()), {}, asyncio.get_running_loop()))
        await server.listen("127.0.0.1", 0)
        at = urlsplit(server.url)
        with socket.create_connection((at.hostname, at.port)) as connection:
            connection.sendall(f"GET {at.path}frames HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode())
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            for _ in range(20):
                await asyncio.sleep(0)
            return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(left()) == set()


def test_the_page_needs_its_token(page):
    path = urlsplit(page.url).path
    status, body, headers = request(page, path)
    assert (status, body[:15]) == (200, b"<!DOCTYPE html>")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "Access-Control-Allow-Origin" not in headers
    for other in ("/", "/frames", "//", f"{path[:-2]}/", f"{path[:-1]}", f"/x{path[1:]}"):
        status, body, _ = request(page, other)
        assert (status, body) == (403, b"the address must contain the page's token\n")
    assert request(page, f"{path}../cli/node.py")[0] == 404


def test_another_name_is_not_served(page):
    path = urlsplit(page.url).path
    port = urlsplit(page.url).port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", "", "127.0.0.1"):
        assert request(page, path, Host=host)[0] == 421
    assert request(page, path, Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", "80"), ("[::1]", "80"), ("localhost:80", "80"), ("[::1]:8080", "8080"), ("", None), (":80", None)],
)
def test_a_host_without_a_port_has_port_80(host, port):
    assert port_in(Request("GET", "/", {"host": host})) == port


def test_a_page_on_port_80_is_served_to_clients_that_leave_the_port_out():
    async def status():
        server = WatchServer(Broadcast(Picture(DrawnNodes()), {}, asyncio.get_running_loop()))
        try:
            await server.listen("127.0.0.80", 80)
        except OSError:
            pytest.skip("this user may not listen at port 80")
        reader, writer = await asyncio.open_connection("127.0.0.80", 80)
        writer.write(f"GET {urlsplit(server.url).path} HTTP/1.1\r\nHost: 127.0.0.80\r\n\r\n".encode())
        answered = await reader.readline()
        writer.close()
        await server.close()
        return answered

    assert asyncio.run(status()) == b"HTTP/1.1 200 OK\r\n"


def test_actions_are_accepted_from_our_page_only(page):
    path, origin = f"{urlsplit(page.url).path}do", page.origin
    good = {"Origin": origin, "Content_Type": "application/json"}
    body = b'{"do": "pause", "paused": true}'
    assert request(page, path, "POST", body, **good)[0] == 200
    assert request(page, path, "POST", body, Content_Type="application/json")[0] == 403
    assert request(page, path, "POST", body, **{**good, "Origin": "http://evil.example"})[0] == 403
    assert request(page, path, "POST", body, **{**good, "Origin": origin.replace("://", "://evil-")})[0] == 403
    assert request(page, path, "POST", body, **{**good, "Content_Type": "text/plain"})[0] == 415
    assert request(page, path, "GET", **good)[0] == 405
    assert request(page, path, "POST", b"[" * 5000, **good)[0] == 400
    assert request(page, path, "POST", b"[1]", **good)[0] == 400
    assert request(page, path, "POST", b"x" * 20_000, **good)[0] == 413
    assert request(page, path, "PUT", body, **good)[0] == 405


def test_the_scenario_can_be_downloaded(page):
    status, body, headers = request(page, f"{urlsplit(page.url).path}scenario")
    assert status == 200
    assert b"[network]" in body
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET /?a=1 HTTP/1.1\r\n\r\n", 421),
    ],
)
def test_malformed_requests_get_their_status(page, raw, status):
    assert status_for(page, raw) == status


@given(raw=st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_refused(page, raw):
    assert status_for(page, raw) in (0, 400, 403, 411, 413, 421)
    assert status_for(page, raw + b"\r\n\r\n") in (0, 400, 403, 411, 413, 421)


def test_silent_connections_of_an_address_deny_the_page_to_no_other(page):
    at = urlsplit(page.url)
    with ExitStack() as silent:
        for _ in range(CONNECTIONS):
            silent.enter_context(socket.create_connection((at.hostname, at.port), source_address=("127.0.0.2", 0)))
        assert request(page, at.path)[0] == 200


def test_the_number_of_viewers_is_bounded(page):
    streams = []
    for _ in range(16):
        frames = page.frames()
        assert next(frames)["about"]["source"] == "simulation"
        streams.append(frames)
    assert request(page, f"{urlsplit(page.url).path}frames")[:2] == (409, b"the page has its maximum of 16 viewers\n")


def test_while_the_engine_is_compiled_the_page_says_so_and_a_signal_ends_it(tmp_path):
    """The process ends at once: if it ended after the compilation, a compiled file would be in the cache."""
    process = started(
        *("watch", "--preset", "r1", "--nodes", "20", "--engine", "array"),
        **{"stdout": PIPE, "stderr": PIPE, "env": {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}},
    )
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        with urlopen(f"{url}frames") as frames:
            assert frames.readline() == b"event: awaited\n"
            assert frames.readline().startswith(b'data: "compiling the array engine, ')
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    finally:
        process.kill()
    assert (process.wait(), errors.splitlines()[-1]) == (143, "hearsay: terminated")
    assert [*tmp_path.rglob("*.nbc")] == []
