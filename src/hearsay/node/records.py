"""Records of a node: used sequence numbers, the trace, and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.libp2p.node_host import NodeHost
from hearsay.node.config import NodeConfig, endpoint_of
from hearsay.node.driver import Driver
from hearsay.node.meeting.address_book import AddressBoard
from hearsay.node.sequence_numbers import SequenceFile, SequenceNumbers
from hearsay.node.trace_rows import TraceRows
from hearsay.trace.language.event_rows import Codes
from hearsay.user_errors import require_extra

if TYPE_CHECKING:
    from hearsay.node.metrics_server import MetricsServer


class Records:
    """The records of a node that its configuration requests.

    The trace is written to `folder`, its rows are passed to `watcher`, or both; with None for both there is no trace.
    """

    def __init__(self, config: NodeConfig, folder: Path | None, watcher: Callable[[Codes], None] | None) -> None:
        if folder is not None:
            require_extra("sim")
        self.rows: TraceRows | None = None
        self._config = config
        self._folder = folder
        self._watcher = watcher
        self._sequence_file: SequenceFile | None = None
        self.metrics: MetricsServer | None = None

    def begin(self, driver: Driver, host: NodeHost, board: AddressBoard) -> None:
        """Start the records. Call this before the host has connections.

        Raises `SequenceFileError`, `RunFolderError` or `OSError` if a file or the folder of the trace cannot be used.
        """
        refuse, authors = self._config.refuse_replays, self._config.limits.remembered_authors
        if isinstance(refuse, Path):
            self._sequence_file = SequenceFile(refuse, authors)
            self._sequence_file.start()
            driver.validation.numbers = self._sequence_file.numbers
        elif refuse:
            driver.validation.numbers = SequenceNumbers(authors)
        self.rows = driver.observers.trace = self._trace(driver, host)
        if self._config.metrics is not None:
            from hearsay.node.metrics_server import MetricsServer

            self.metrics = MetricsServer(self._config, host, driver, board)

    async def serve_metrics(self) -> None:
        """Serve the metrics if they are configured. Raises `OSError` if the address cannot be used."""
        if self.metrics is not None and self._config.metrics is not None:
            await self.metrics.listen(*endpoint_of(self._config.metrics))

    async def stop_metrics(self) -> None:
        """Stop serving the metrics, if they are served."""
        if self.metrics is not None:
            await self.metrics.close()

    async def close(self) -> None:
        """Close the file of sequence numbers. The driver has already closed the trace."""
        if self._sequence_file is not None:
            await self._sequence_file.close()

    def _trace(self, driver: Driver, host: NodeHost) -> TraceRows | None:
        if self._folder is None:
            if self._watcher is None:
                return None
            rows = TraceRows(host.peer, driver.clock, self._watcher)
            rows.begin()
            return rows
        if self._config.return_memory:
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when pyarrow is loaded
        from hearsay.node.live_trace import LiveTrace

        return LiveTrace(
            self._folder,
            host.peer,
            driver.clock,
            self._config.agent,
            self._config.router_parameters()[0].name,
            return_memory=self._config.return_memory,
            watcher=self._watcher,
        )
