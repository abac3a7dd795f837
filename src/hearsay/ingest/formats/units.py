"""Decoding one unit of work: the function that runs in this process or in Spark's."""

from __future__ import annotations

from pathlib import Path

from hearsay.ingest.decoding.errors import BadSource
from hearsay.ingest.decoding.parts import PartWriter
from hearsay.ingest.formats.hermes import decode_hermes
from hearsay.ingest.formats.json_events import protobuf_of_lines
from hearsay.ingest.formats.live_runs import LIVE, decode_live_run
from hearsay.ingest.formats.protobuf import decode_pieces
from hearsay.ingest.formats.sources import Unit, gathered, lines, opened, pieces, reading


def decode_unit(unit: Unit, folder: Path) -> None:
    """Leave the unit's rows and names in the folder; BadSource if the unit is not wholly good."""
    with PartWriter(folder) as part:
        if unit.source.format == LIVE:
            with reading():
                decode_live_run(unit.source.path, part)
        elif unit.source.format == "hermes":
            with reading():
                decode_hermes(unit.source.path, part)
        else:
            with opened(unit) as file:
                if unit.source.format == "go-json":
                    stream, batched = gathered(protobuf_of_lines(lines(file, unit))), False
                else:
                    stream, batched = pieces(file, unit), unit.source.batched
                offset = 0 if unit.source.format == "go-json" else unit.start
                decode_pieces(stream, part.identifiers, part.add, batched, offset)
        if not part.identifiers.events:
            raise BadSource("empty: no events")
