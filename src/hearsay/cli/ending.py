"""The end of a command: an exit code and, for a failure, one line or more on stderr."""

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
from hearsay.user_errors import Failure, InvalidInput, MissingExtra, how_to_install


def system_words(error: OSError) -> str:
    """Return the operating system's message for an error, after the name of the file if known, without the error
    number.
    """
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"{place}{error.strerror or error}"


def print_json(value: object, *, allow_nan: bool = True) -> None:
    """Print the result of a command as JSON."""
    print(json.dumps(value, indent=2, allow_nan=allow_nan))


class CommandFailed(Failure):
    """The failure of a command with usable options, such as a file that cannot be written. The exit code is 1."""


class WrongInput(InvalidInput):
    """The error for options or arguments that a command cannot use. The exit code is 2."""


DEBUG = "HEARSAY_DEBUG"
"""The environment variable with which an error also prints its traceback."""


class _Stderr(io.TextIOWrapper):
    """Standard error that ignores write errors, so that a command continues after the other end of stderr is
    closed.
    """

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def open_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` if a write to them could end the command.

    A stream that was closed at the start becomes the null device. An unbuffered stdout gets a buffer. stdout replaces
    characters that its encoding does not have, and stderr ignores write errors.
    """
    out: TextIO | None = sys.stdout
    stream: TextIO | None = sys.stderr
    if out is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(raw := getattr(out, "buffer", None), io.RawIOBase):
        # PYTHONUNBUFFERED is set: without a buffer, a write that the system accepts only in part loses the rest.
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), out.encoding, out.errors, line_buffering=True)
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and sys.stdout.errors == "strict":
        reconfigure(errors="replace")
    if stream is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif (buffer := getattr(stream, "buffer", None)) is not None:
        sys.stderr = _Stderr(buffer, stream.encoding, stream.errors, line_buffering=True)


def ending(error: BaseException) -> int:
    """Print the reason why an exception ends the command, and return the exit code."""
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
        case OSError() if _output_is_at_fault():
            return 1
        case Failure() | MissingExtra():
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


def _show_traceback(error: BaseException) -> None:
    """Print the traceback of an error and of all its causes, even of those that `from None` hides."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__suppress_context__ = cause.__cause__ is not None
        cause = cause.__cause__ or cause.__context__
    traceback.print_exception(error)


def close_output(code: int) -> int:
    """Flush standard output, and return the exit code: `code`, or 1 if the flush fails. After a broken pipe, a `code`
    other than 0 stays.
    """
    try:
        sys.stdout.flush()
        return code
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return code or 1
        return _report(1, f"standard output cannot be written to: {error.strerror}")


def _output_is_at_fault() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at the exit of the interpreter cannot fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _report(code: int, *lines: str) -> int:
    for line in lines:
        print(f"hearsay: {line}", file=sys.stderr)
    return code
