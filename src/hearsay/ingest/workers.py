"""The execution of an import's tasks, and the bytes that tasks return."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from zipfile import BadZipFile

import numpy as np

from hearsay.ingest.message_facts import MessageFacts, PairDelays
from hearsay.ingest.numbering import NumberedPart, numbered_rows
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace
from hearsay.trace.write.writer import TraceWriter

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (MessageFacts, PairDelays, TraceFile, WrittenTrace)}


class BadResult(Exception):
    """A task sent something that is no result."""


def to_bytes(value: object) -> bytes:
    arrays: list[Any] = []
    plan = _plan(value, arrays)
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(plan).encode(), dtype=np.uint8)
    np.savez(file, plan=text, **{f"a{place}": array for place, array in enumerate(arrays)})
    return file.getvalue()


def from_bytes(data: bytes) -> Any:
    """BadResult if these are not the bytes of a result."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _made(json.loads(arrays["plan"].tobytes()), arrays)
    except (ValueError, LookupError, TypeError, OSError, EOFError, RecursionError, BadZipFile) as error:
        raise BadResult(f"a task sent what is no result ({str(error)[:80]})") from None


def _plan(value: Any, arrays: list[Any]) -> Any:
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Counter):
        pairs = cast("Counter[int]", value).items()
        return {"counter": [list(pair) for pair in pairs]}
    name = type(value).__name__
    if name in _KINDS:
        parts = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else list(value)
        return {name: [_plan(part, arrays) for part in parts]}
    return {"tuple": [_plan(part, arrays) for part in value]}


def _made(plan: Any, arrays: Any) -> Any:
    if not isinstance(plan, dict):
        return plan
    ((kind, content),) = cast("dict[str, Any]", plan).items()
    match kind:
        case "array":
            return arrays[f"a{int(content)}"]
        case "counter":
            return Counter({int(key): int(count) for key, count in content})
        case "tuple":
            return tuple(_made(part, arrays) for part in content)
        case _:
            return _KINDS[kind](*(_made(part, arrays) for part in content))


Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The function's results in the order of the tasks; anything may be done anywhere, and twice."""
        ...

    def write(self, run: Path, parts: Sequence[NumberedPart]) -> WrittenTrace:
        """Write the rows of the parts as the trace of a run."""
        ...


class ThisProcess:
    """Everything one after the other."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [function(task) for task in tasks]

    def write(self, run: Path, parts: Sequence[NumberedPart]) -> WrittenTrace:
        with TraceWriter(run) as writer:
            for part in parts:
                for rows in numbered_rows(part):
                    writer.add(rows)
            return writer.close()
