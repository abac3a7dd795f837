"""`source.json` and the tables under `source/`: the origin of an imported run, and facts that rows cannot contain.

* `source.json`: the origin of the clock (nanoseconds since 1970), every given file with its format and number of
  events, quarantined files with the reason, and the number of rejects by reason, in the source's words.
* `source/events.parquet`: events of the source by peer and kind. An RPC counts once here, and has a row for each part
  in the trace; an empty RPC has no row.
* `source/delays.parquet`: number of copies by milliseconds since the first copy of their message, rounded from
  nanoseconds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.manifest import MAX_BYTES
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import TraceEvent, wire_name
from hearsay.trace.write.run_folder import RunFolder

SOURCE = "source.json"
_EVENTS, _DELAYS = "source/events", "source/delays"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A given file. `reason` says why it was quarantined; None if it was read."""

    name: str
    format: str | None
    events: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    origin_unix_ns: int | None
    files: tuple[SourceFile, ...]
    reject_reasons: dict[str, int]

    @property
    def quarantined(self) -> tuple[SourceFile, ...]:
        return tuple(file for file in self.files if file.reason is not None)

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(sorted({file.format for file in self.files if file.format and file.reason is None}))


def write_source(
    run: RunFolder,
    record: SourceRecord,
    events_of_peer: Sequence[tuple[int, int, int]],
    delays: Counter[int],
) -> None:
    """Write the record; `events_of_peer` are (peer, event, number of events)."""
    run.write_text_atomic(SOURCE, json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")
    events = [(peer, wire_name(TraceEvent(event)), count) for peer, event, count in events_of_peer]
    run.write_table(_EVENTS, columns("peer int32, event string, events int64", events))
    run.write_table(_DELAYS, columns("delay_ms int64, copies int64", sorted(delays.items())))


def columns(fields: str, rows: Sequence[Sequence[object]]) -> dict[str, Any]:
    """Return rows as columns with these names and types: "peer int32, event string"."""
    kinds = [field.split() for field in fields.split(", ")]
    return {
        name: pa.array([row[at] for row in rows], pa.type_for_alias(kind)) for at, (name, kind) in enumerate(kinds)
    }


def load_source(run: Path) -> SourceRecord | None:
    """Return the record of an imported run; None for other runs."""
    path = run / SOURCE
    try:
        document: Any = parse_json(read_bytes(path, MAX_BYTES))
        fields = cast("dict[str, Any]", document)
        return SourceRecord(
            fields["origin_unix_ns"],
            tuple(SourceFile(**file) for file in fields["files"]),
            dict(fields["reject_reasons"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path}: not the record of an import ({error})") from error


def load_events(run: Path) -> list[tuple[int, str, int]]:
    """Return (peer, event, number of events) of an imported run."""
    table = read_table(run / f"{_EVENTS}.parquet", ["peer", "events"], ["event"])
    return list(zip(table["peer"], table["event"], table["events"], strict=True))


def load_delays(run: Path) -> list[tuple[int, int]]:
    """Return (milliseconds, copies) of an imported run, in ascending order."""
    table = read_table(run / f"{_DELAYS}.parquet", ["delay_ms", "copies"])
    return list(zip(table["delay_ms"], table["copies"], strict=True))
