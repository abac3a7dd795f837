"""When the JVM dies or a call is interrupted, PySpark's gateway logs tracebacks; what it means is said in a line."""

from __future__ import annotations

import logging


def quiet_the_gateway() -> None:
    """It logs with the root logger in some places, which then gets a handler, and with its own in others."""
    logging.root.addFilter(_not_of_the_gateway)
    logging.getLogger("py4j").propagate = False


def say_nothing(_request: object, _client: object) -> None: ...


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
