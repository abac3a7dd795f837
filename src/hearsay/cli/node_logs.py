"""The output of a node on stderr: lines for people or, with `--log-json`, a JSON object per line.

This output consists of records of Python's `logging`. News about the node (its addresses, peers and errors) are
records of the logger `hearsay.news`; each has an event, a mapping whose items are added to the JSON object. The other
records come from the modules of `hearsay`, with at least the level of `--log-level`, and from other libraries, with
at least the level of a warning.

Records contain names and reasons from peers. In a line for people, escapes replace unprintable characters, and the
lines of a traceback begin with a bar. So no text from a peer can look like a separate line. In JSON, line breaks are
escapes.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from io import StringIO
from typing import Any, TextIO

import click

from hearsay.cli.ending import ending
from hearsay.text import escape

NEWS = logging.getLogger("hearsay.news")
SIGNALLED = 128
"""An exit code above this means that a signal ended the command, which is no error."""
_FIELDS = "event_fields"


def begin_logging(level: str, *, as_json: bool) -> None:
    """Show log records on stderr from now on: all news, records of `hearsay` with at least `level`, and warnings of
    Python and of other libraries.
    """
    handler = _Stderr()
    handler.setFormatter(formatter(as_json=as_json))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    logging.getLogger("hearsay").setLevel(level.upper())
    NEWS.setLevel(logging.INFO)


def formatter(*, as_json: bool) -> logging.Formatter:
    return _JsonLines() if as_json else _Lines()


@contextmanager
def ending_as_json() -> Generator[None]:
    """If an exception ends the block, log the lines of its message as records with the exit code, and exit with this
    code.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        captured = StringIO()
        with redirect_stderr(captured):
            code = ending(error)
        for line in captured.getvalue().splitlines():
            level = logging.INFO if code > SIGNALLED else logging.ERROR
            log_news({"event": "ended", "code": code}, line.removeprefix("hearsay: "), level)
        raise click.exceptions.Exit(code) from None


def log_news(event: Mapping[str, Any], text: str, level: int = logging.INFO) -> None:
    """Log news about the node. They are shown at every `--log-level`. `text` is the line for people."""
    NEWS.log(level, "%s", text, extra={_FIELDS: event})


class _Stderr(logging.StreamHandler[Any]):
    """A log handler that writes to the present `sys.stderr`, even if that was replaced after the creation of the
    handler.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = escape(record.getMessage())
        if record.name == NEWS.name:
            return encodable(text, sys.stderr)
        when = _time(record).strftime("%Y-%m-%dT%H:%M:%SZ")
        lines = [f"{when} {record.levelname.lower()} {record.name}: {text}"]
        if record.exc_info:
            lines += [f"  | {escape(line)}" for line in self.formatException(record.exc_info).split("\n")]
        return encodable("\n".join(lines), sys.stderr)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        return json.dumps({**said, **fields})


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def encodable(text: str, stream: TextIO) -> str:
    """Return the text with an escape in place of each character that the encoding of the stream does not have."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
