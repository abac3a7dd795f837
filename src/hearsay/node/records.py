"""Records of a node: used sequence numbers, the trace, and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.extras import require_extra
from hearsay.libp2p.host.node_host import NodeHost
from hearsay.node.config import NodeConfig, endpoint_of
from hearsay.node.driver import Driver
from hearsay.node.incoming.sequence_numbers import SequenceFile, SequenceNumbers
from hearsay.node.meeting.address_book import AddressBoard
from hearsay.node.trace_rows import TraceRows
from hearsay.trace.language.event_rows import Codes

if TYPE_CHECKING:
    from hearsay.node.metrics.server import MetricsServer


class Records:
    """The records of a node. The trace is written to a folder, or its rows are passed to a watcher, or both."""

    def __init__(self, config: NodeConfig, folder: Path | None, watcher: Callable[[Codes], None] | None) -> None:
        if folder is not None:
            require_extra("sim")
        self.rows: TraceRows | None = None
        self._config = config
        self._folder = folder
        self._watcher = watcher
        self._sequence_file: SequenceFile | None = None
        self.metrics: MetricsServer | None = None

    def begin(self, driver: Driver, host: NodeHost, news: AddressBoard) -> None:
        """Start the records. Call this before the host has connections."""
        self._refuse_replays(driver)
        self._begin_trace(driver, host)
        if self._config.metrics is not None:
            from hearsay.node.metrics.server import MetricsServer

            self.metrics = MetricsServer(self._config, host, driver, news)

    async def show(self) -> None:
        """Serve the metrics. Raises `OSError` if the address cannot be used."""
        if self.metrics is not None and self._config.metrics is not None:
            await self.metrics.listen(*endpoint_of(self._config.metrics))

    async def hide(self) -> None:
        """Stop serving the metrics."""
        if self.metrics is not None:
            await self.metrics.close()

    async def close(self) -> None:
        """Close the file of sequence numbers. The driver has already closed the trace."""
        if self._sequence_file is not None:
            await self._sequence_file.close()

    def _refuse_replays(self, driver: Driver) -> None:
        refuse, authors = self._config.refuse_replays, self._config.limits.remembered_authors
        if isinstance(refuse, Path):
            self._sequence_file = SequenceFile(refuse, authors)
            self._sequence_file.start()
            driver.validation.numbers = self._sequence_file.numbers
        elif refuse:
            driver.validation.numbers = SequenceNumbers(authors)

    def _begin_trace(self, driver: Driver, host: NodeHost) -> None:
        if self._folder is not None:
            if self._config.return_memory:
                os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when pyarrow is loaded
            from hearsay.node.live_trace import LiveTrace

            router, _ = self._config.router_parameters()
            trace = LiveTrace(
                self._folder,
                host.peer,
                driver.clock,
                self._config.agent,
                router.name,
                return_memory=self._config.return_memory,
                watcher=self._watcher,
            )
            driver.observers.trace = trace
            self.rows = trace
        elif self._watcher is not None:
            self.rows = TraceRows(host.peer, driver.clock, self._watcher)
            self.rows.begin()
            driver.observers.trace = self.rows
