"""A node's answers over HTTP: `/metrics`, `/health` and `/ready`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hearsay.core.shell.contract import RouterFailed
from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.node.config import NodeConfig
from hearsay.node.driver import Driver
from hearsay.node.meeting.address_news import AddressBoard
from hearsay.node.metrics.connection_counts import ConnectionCounts
from hearsay.node.metrics.durations import Durations
from hearsay.node.metrics.families import Observed, families
from hearsay.node.metrics.http_answers import Answer, answering
from hearsay.node.metrics.loop_delay import LoopDelay
from hearsay.node.metrics.openmetrics import CONTENT_TYPE, exposition
from hearsay.node.metrics.readiness import Readiness
from hearsay.node.metrics.traffic import Traffic

FRESH_S = 0.25
"""Metrics are not read from the node more often, however many ask for them."""


class MetricsServer:
    """Counts from its making on; make it before the host has connections."""

    def __init__(
        self,
        config: NodeConfig,
        host: NodeHost,
        driver: Driver,
        news: AddressBoard,
        failure: Callable[[], RouterFailed | None],
    ) -> None:
        kind, _ = config.router_parameters()
        self._observed = Observed(
            driver=driver,
            traffic=Traffic(),
            connections=ConnectionCounts(host),
            durations=Durations(),
            loop_delay=LoopDelay(),
            about=(("router", kind.name), ("preset", config.preset_of(kind)), ("host", config.host)),
        )
        driver.count_in(self._observed.traffic, self._observed.durations)
        readiness = Readiness(
            failure=failure,
            listens=lambda: bool(host.addresses) or not config.listen,
            bootstrap={str(Multiaddr.parse(address)) for address in config.bootstrap},
            news=lambda: news.latest,
        )
        self._server = answering({"/metrics": self._metrics, "/health": readiness.health, "/ready": readiness.ready})
        self._shown = Answer(b"")
        self._stale_s = 0.0
        self.url = ""
        """Where metrics are."""

    async def listen(self, host: str, port: int) -> None:
        """`OSError` says why that cannot be."""
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
