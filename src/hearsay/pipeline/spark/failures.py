"""Errors of Spark in one line each, without tracebacks of PySpark's gateway (its connection to the JVM)."""

from __future__ import annotations

import logging
import re
from socketserver import BaseServer

_PYTHON_CAUSE = re.compile(r"^(?:[\w.]*\.)?(Unreadable|MemoryError|OSError|ModuleNotFoundError): (.+)$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^(?:Caused by)?: [\w.$]+(?:Exception|Error): (.+)", re.MULTILINE)
_LONGEST = 300
_SECRET = re.compile(r"(?i)((?:token|password|secret)=|bearer\s+)[^;&\s'\"]+")


def in_one_line(error: BaseException) -> str:
    """Return the most informative line of an error, without secrets and with at most `_LONGEST` characters.

    If a task failed, that is the cause in the task.
    """
    text = without_secrets(str(error))
    cause = _PYTHON_CAUSE.search(text)
    if cause is not None:
        return cause.group(2)[:_LONGEST]
    if "Python worker exited unexpectedly" in text:
        return "its process was killed (out of memory?)"
    if "No space left on device" in text:
        return "no space left on the device"
    causes = _JAVA_CAUSE.findall(text)
    line = causes[-1] if causes else text.strip().partition("\n")[0]
    return line[:_LONGEST] or type(error).__name__


def without_secrets(text: str) -> str:
    """Return the text with tokens and passwords removed. An address of a Spark Connect server may contain these."""
    return _SECRET.sub(r"\1…", text)


def first_line(error: BaseException) -> str:
    return without_secrets(str(error)).strip().partition("\n")[0][:_LONGEST]


def quiet_the_gateway() -> None:
    """Suppress PySpark's tracebacks about a JVM that has ended, because an exception also reports that end.

    PySpark's gateway writes tracebacks to the root logger (and so gives it a handler), to the logger `py4j`, and to
    stderr.
    """
    from pyspark import accumulators

    logging.root.addFilter(_not_of_the_gateway)
    logging.getLogger("py4j").propagate = False
    for server in vars(accumulators).values():  # the name of the server differs between versions
        if isinstance(server, type) and issubclass(server, BaseServer) and server is not BaseServer:
            server.handle_error = _say_nothing


def _say_nothing(self: object, request: object, client_address: object) -> None: ...


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
