"""The end of a command: one line on stderr and an exit code for each failure."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import click

from hearsay.cli.signals import Signalled, Unwound
from hearsay.extras import MissingExtra, how_to_install
from hearsay.user_errors import Failure, InvalidInput


def system_words(error: OSError) -> str:
    """Return the operating system's message with the file's name, without the error number."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"{place}{error.strerror or error}"


def print_json(value: object, *, allow_nan: bool = True) -> None:
    """Print the result of a command as JSON."""
    print(json.dumps(value, indent=2, allow_nan=allow_nan))


class CommandFailed(Failure):
    """A command that could not do its work."""


class WrongInput(InvalidInput):
    """Options or arguments that cannot be used."""


DEBUG = "HEARSAY_DEBUG"


class _Stderr(io.TextIOWrapper):
    """A stream that ignores write errors, so that a command continues when stderr is closed."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def open_streams() -> None:
    """Make stdout and stderr writable, even if they are closed or unbuffered; `sys.__stdout__` stays open."""
    out: TextIO | None = sys.stdout
    stream: TextIO | None = sys.stderr
    if out is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(raw := getattr(out, "buffer", None), io.RawIOBase):
        # PYTHONUNBUFFERED: without a buffer, unwritten output is lost.
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), out.encoding, out.errors, line_buffering=True)
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and sys.stdout.errors == "strict":
        reconfigure(errors="replace")  # a character that the terminal's encoding lacks must not end the command
    if stream is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif (buffer := getattr(stream, "buffer", None)) is not None:
        sys.stderr = _Stderr(buffer, stream.encoding, stream.errors, line_buffering=True)


def ending(error: BaseException) -> int:
    """Print a line with the reason for the end of the command, and return the exit code."""
    if os.environ.get(DEBUG):
        _show_traceback(error)
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            error.show()
            return error.exit_code
        case Unwound():
            return _report(error.signalled.code, str(error.signalled))
        case click.Abort() | KeyboardInterrupt():
            signalled = error if isinstance(error, Signalled) else Signalled()
            return _report(signalled.code, str(signalled))
        case InvalidInput():
            return _report(2, *error.problems)
        case Failure():
            return _report(1, str(error))
        case _:
            return _failed(error)


def _show_traceback(error: BaseException) -> None:
    """Print the traceback with all causes, including those that `from None` hides."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__suppress_context__ = cause.__cause__ is not None
        cause = cause.__cause__ or cause.__context__
    traceback.print_exception(error)


def close_output(code: int) -> int:
    """Flush standard output, and return the exit code: `code`, or an error code if that fails."""
    try:
        sys.stdout.flush()
        return code
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return code or 1
        return _report(1, f"standard output cannot be written to: {error.strerror}")


def _failed(error: BaseException) -> int:
    match error:
        case OSError() if _output_is_at_fault():
            return 1
        case MissingExtra():
            return _report(1, str(error))
        case ModuleNotFoundError() if (how := how_to_install(error.name or "")) is not None:
            return _report(1, how)
        case MemoryError():
            return _report(1, "out of memory; try fewer nodes or messages")
        case OSError():
            return _report(1, system_words(error))
        case _:
            from hearsay.core.shell.contract import RouterFailed, describe_error

            is_routers = isinstance(error, RouterFailed)
            words = str(error) if is_routers else f"a mistake in the program: {describe_error(error)}"
            return _report(1, f"{words}; {DEBUG}=1 shows its traceback")


def _output_is_at_fault() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _discard_output() -> None:
    """Redirect standard output to the null device, so that the interpreter's flush at exit cannot fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _report(code: int, *lines: str) -> int:
    """Print lines on stderr, and return the exit code `code`."""
    for line in lines:
        print(f"hearsay: {line}", file=sys.stderr)
    return code
