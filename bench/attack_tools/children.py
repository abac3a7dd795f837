"""Child processes: the lines of JSON that they print, and their memory and CPU time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic

TICKS = os.sysconf("SC_CLK_TCK")
HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "src"


def print_event(event: dict[str, object]) -> None:
    """Print an event of a child process as a line of JSON."""
    print(json.dumps(event), flush=True)


class Child:
    """A child process. `async with` starts it and kills it. `events` are its printed lines, each with its time."""

    def __init__(self, *command: str, path: Iterable[Path] = (SOURCES,)) -> None:
        self._command = command
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        self.events: list[tuple[float, dict]] = []
        self.errors = bytearray()
        self.error_bytes = 0
        self._news = asyncio.Event()

    @classmethod
    def python(cls, script: str, *flags: str, path: Iterable[Path] = (SOURCES,), niceness: int = 0) -> Child:
        """Return the process of a script in this folder, with `path` as its PYTHONPATH."""
        return cls("nice", "-n", str(niceness), sys.executable, str(HERE / script), *flags, path=path)

    async def __aenter__(self) -> Child:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 22, env=self._environment
        )
        self._readers = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._read_errors())]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(*self._readers, return_exceptions=True)

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    def send_command(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(line.encode() + b"\n")

    async def next_event(self, event: str, within_s: float, since: float = 0.0) -> dict | None:
        """Return the first event of this kind since a time of `monotonic`, or None.

        None is returned after `within_s` seconds, or when the process ends.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    for at, said in self.events:
                        if said["event"] == event and at >= since:
                            return said
                    if self._readers[0].done():
                        return None
                    self._news.clear()
                    waiting = asyncio.ensure_future(self._news.wait())
                    await asyncio.wait([waiting, self._readers[0]], return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
        return None

    @property
    def cpu_s(self) -> float:
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def resident_mb(self) -> float:
        return self._status("VmRSS")

    @property
    def peak_mb(self) -> float:
        """The highest resident memory since `reset_peak`, in MB."""
        return self._status("VmHWM")

    def reset_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> float:
        with suppress(OSError):
            for row in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
                if row.startswith(name):
                    return int(row.split()[1]) * 1024 / 1e6
        return 0.0

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for row in self._process.stdout:
            self.events.append((monotonic(), json.loads(row)))
            self._news.set()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(1 << 16):
            self.error_bytes += len(piece)
            if len(self.errors) < 1 << 16:
                self.errors += piece
