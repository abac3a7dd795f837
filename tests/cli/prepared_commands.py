"""Commands that are forked from a server process with their imports done (`command_server.py`).

Each process of tests has one server, which is started when it is first needed. A fork saves a command the second that
its imports take, and the tests start hundreds of commands.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from select import select
from threading import Thread
from time import monotonic
from typing import IO

from kills import heed_signals

SERVER = Path(__file__).with_name("command_server.py")
READ_AT_IMPORT = ("HEARSAY_CHECKED_KERNELS", "HOME", "LANG", "LC_", "NUMBA_", "PYTHON", "XDG_")
"""Prefixes of environment variables that Python reads when it starts or imports a module."""
READ_LATER = ("PYTHONPATH",)
"""Exceptions: the forked process itself adds the entries of PYTHONPATH."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
MAX_REPORT_BYTES = 32


def can_become(environment: Mapping[str, str]) -> bool:
    """Return True if a forked command behaves like one of a fresh Python with this environment."""
    return sys.platform == "linux" and _read_at_import(environment) == _read_at_import(server().environment)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_IMPORT) and name not in READ_LATER
    }


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    requests: socket.socket
    environment: dict[str, str]


@cache
def server() -> Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"} | ONE_THREAD
    with theirs:
        process = subprocess.Popen(
            [sys.executable, str(SERVER), str(theirs.fileno())], pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, preexec_fn=heed_signals,
        )  # fmt: skip
    return Server(process, ours, environment)


def servers() -> list[int]:
    """Return the pid of this process's server in a list, which is empty without a server."""
    return [server().process.pid] if server.cache_info().currsize else []


def end_server() -> None:
    """End the server; its forked commands continue."""
    for _ in servers():
        server().requests.close()
        server().process.wait()
        server.cache_clear()


class Command:
    """A running command, with the part of `subprocess.Popen` that tests use. Texts are UTF-8."""

    def __init__(
        self,
        arguments: list[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[str] | None = None,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> None:
        self.args = ["hearsay", *arguments]
        self.returncode: int | None = None
        streams = [_stream(number, given) for number, given in enumerate((stdin, stdout, stderr))]
        self.stdin, self.stdout, self.stderr = (ours for _, ours in streams)
        self._reports, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "arguments": arguments,
            "folder": str(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
        }
        given = [*(theirs for theirs, _ in streams), asked.detach()]
        socket.send_fds(server().requests, [json.dumps(request).encode()], given)
        for number in given:
            os.close(number)
        self.pid = int(self._reports.recv(MAX_REPORT_BYTES))

    def poll(self) -> int | None:
        return self._end_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._end_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write `input` to stdin, read stdout and stderr to their end, and wait for the command's end."""
        received = {stream: "" for stream in (self.stdout, self.stderr) if stream is not None}

        def listen(stream: IO[str]) -> None:
            with stream:
                received[stream] = stream.read()

        listeners = [Thread(target=listen, args=(stream,), daemon=True) for stream in received]
        for listener in listeners:
            listener.start()
        if self.stdin is not None:
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(input or "")
        end = None if timeout is None else monotonic() + timeout
        for listener in listeners:
            listener.join(None if end is None else end - monotonic())
            if listener.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if end is None else max(0.0, end - monotonic()))
        return received.get(self.stdout, ""), received.get(self.stderr, "")  # type: ignore[arg-type]

    def _end_within(self, seconds: float | None) -> int | None:
        """Return the exit code, negative for a signal; None if the command still runs after these seconds."""
        if self.returncode is None and select([self._reports], [], [], seconds)[0]:
            self.returncode = int(self._reports.recv(MAX_REPORT_BYTES))
            self._reports.close()
        return self.returncode


def _stream(number: int, given: int | IO[str] | None) -> tuple[int, IO[str] | None]:
    """Return a descriptor for the command, and the test's end of the pipe if the stream is one."""
    match given:
        case None:
            return os.dup(number), None
        case subprocess.DEVNULL:
            return os.open(os.devnull, os.O_RDWR), None
        case subprocess.PIPE:
            reading, writing = os.pipe()
            if number == 0:
                return reading, open(writing, "w", encoding="utf-8")
            return writing, open(reading, encoding="utf-8")
        case int():
            return os.dup(given), None
        case _:
            return os.dup(given.fileno()), None
