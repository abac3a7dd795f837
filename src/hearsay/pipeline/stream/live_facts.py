"""What is known of a run before its manifest says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hearsay.pipeline.input.run_facts import RunFacts, facts_of
from hearsay.pipeline.stream.ledger import Ledger
from hearsay.trace.folder.manifest import Manifest, WrittenTrace, this_program


def live_facts(path: Path, ledger: Ledger, window_us: int | None) -> RunFacts:
    """The facts of a run of which only the files in the ledger are there.

    The run ends with the latest row so far. Topics and nodes are those of the dictionaries, or those seen.
    """
    files = tuple(notes.trace_file() for notes in ledger.files)
    rows = sum(file.rows for file in files)
    manifest = Manifest(False, None, this_program(), WrittenTrace(files, rows, "", (), 0), ())
    facts = replace(facts_of(path.resolve().name, path, manifest, window_us), still_written=True)
    if not facts.topics:
        facts = replace(facts, topics={topic: str(topic) for topic in ledger.found("topics")})
    if not facts.nodes:
        facts = replace(facts, nodes=tuple(ledger.found("nodes")))
    return facts
