"""The HTTP server of a node's metrics, health and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from hearsay.http.server import PATIENCE_S, TEXT, BadRequest, HttpServer, Request, response
from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.node.config import NodeConfig
from hearsay.node.driver import Driver
from hearsay.node.meeting.address_book import AddressBoard, AddressState
from hearsay.node.metrics.families import Observed, families
from hearsay.node.metrics.measurements import ConnectionCounts, Durations, LoopDelay, Traffic
from hearsay.node.metrics.openmetrics import CONTENT_TYPE, exposition

CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


def answering(answers: Mapping[str, Callable[[], Answer]], patience_s: float = PATIENCE_S) -> HttpServer:
    """Return a server that answers GET and HEAD requests for these paths."""

    async def respond(request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.method not in ("GET", "HEAD"):
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", "Allow: GET, HEAD")
        if request.path not in answers:
            raise BadRequest(HTTPStatus.NOT_FOUND, "not found")
        answer = answers[request.path]()
        writer.write(response(request.method, answer.status, answer.content_type, answer.body))

    return HttpServer(respond, CONNECTIONS, patience_s=patience_s)


def _ok(word: str) -> Answer:
    return Answer(f"{word}\n".encode())


def _unavailable(why: str) -> Answer:
    return Answer(f"{why.splitlines()[0]}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


FRESH_S = 0.25
"""Minimum seconds between two computations of the metrics, for any number of requests."""


class MetricsServer:
    """Serves metrics. Counting starts with its creation, so create it before the host has connections."""

    def __init__(self, config: NodeConfig, host: NodeHost, driver: Driver, news: AddressBoard) -> None:
        kind, _ = config.router_parameters()
        self._observed = Observed(
            driver=driver,
            traffic=Traffic(),
            connections=ConnectionCounts(host),
            durations=Durations(),
            loop_delay=LoopDelay(),
            about=(("router", kind.name), ("preset", config.preset_of(kind)), ("host", config.host)),
        )
        driver.observers.traffic = self._observed.traffic
        driver.observers.durations = self._observed.durations
        self._config = config
        self._host = host
        self._driver = driver
        self._news = news
        self._server = answering({"/metrics": self._metrics, "/health": self._health, "/ready": self._ready})
        self._shown = Answer(b"")
        self._stale_s = 0.0
        self.url = ""
        """The URL of the metrics."""

    async def listen(self, host: str, port: int) -> None:
        """Listen at an address. Raises `OSError` if this fails."""
        try:
            name, port = await self._server.listen(host, port)
        except OSError as error:
            raise OSError(error.errno, f"metrics: {error.strerror or error}") from None
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{port}/metrics"

    async def close(self) -> None:
        self._observed.loop_delay.close()
        await self._server.close()

    def _metrics(self) -> Answer:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._stale_s:
            self._stale_s = now_s + FRESH_S
            self._shown = Answer(exposition(families(self._observed)), content_type=CONTENT_TYPE)
        return self._shown

    def _health(self) -> Answer:
        failure = self._driver.failure
        return _ok("ok") if failure is None else _unavailable(str(failure))

    def _ready(self) -> Answer:
        """Return 200 if the node listens and a bootstrap peer is connected; the node's own address does not count."""
        if self._driver.failure is not None:
            return self._health()
        if self._config.listen and not self._host.addresses:
            return _unavailable("the node does not listen")
        states = {news.address: news.state for news in self._news.latest}
        bootstrap = {str(Multiaddr.parse(address)) for address in self._config.bootstrap}
        named = [state for address in bootstrap if (state := states.get(address)) is not AddressState.OWN]
        if named and AddressState.CONNECTED not in named:
            return _unavailable(f"none of {len(named)} bootstrap peers is connected")
        return _ok("ready")
