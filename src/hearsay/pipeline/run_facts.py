"""What the analysis must know of a run before it reads a row: from manifest, summary, scenario and dictionaries."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay.trace.arrow import read_table
from hearsay.trace.errors import RunFolderError
from hearsay.trace.manifest import Manifest, TraceFile, load_manifest
from hearsay.trace.names import load_names
from hearsay.trace.run_folder import DICTIONARIES

DEFAULT_WINDOW_US = 30_000_000
SCRIPT_ROLE = "script"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. `name` is unique among the runs of an analysis."""

    name: str
    path: Path
    manifest: Manifest
    router: str
    topics: dict[int, str]
    nodes: tuple[int, ...]
    """All peers that are nodes of the network; a script that hands messages in is none."""
    end_us: int
    window_us: int

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.manifest.trace.files)

    def files(self, trace_class: str) -> list[TraceFile]:
        return [file for file in self.manifest.trace.files if file.trace_class == trace_class]


def load_runs(paths: list[Path], window_us: int | None = None) -> list[RunFacts]:
    """The facts of these run folders, in order; names that occur twice get a number."""
    facts: list[RunFacts] = []
    taken: Counter[str] = Counter()
    for path in paths:
        base = path.resolve().name
        taken[base] += 1
        name = base if taken[base] == 1 else f"{base}-{taken[base]}"
        facts.append(facts_of(name, path, load_manifest(path), window_us))
    return facts


def facts_of(name: str, path: Path, manifest: Manifest, window_us: int | None) -> RunFacts:
    """The facts of one run with this manifest."""
    if not manifest.trace.files:
        raise RunFolderError(f"{path}: holds no trace; simulate with --trace full")
    summary = _summary(path)
    peers = _peers(path)
    roles = Counter(role for _, role in peers if role and role != SCRIPT_ROLE)
    last = max(file.max_time_us for file in manifest.trace.files)
    seconds = summary.get("simulated_seconds")
    return RunFacts(
        name=name,
        path=path.resolve(),
        manifest=manifest,
        router=str(summary.get("router") or (roles.most_common(1)[0][0] if roles else "unknown")),
        topics=dict(load_names(path).topics),
        nodes=tuple(sorted(peer for peer, role in peers if role != SCRIPT_ROLE)),
        end_us=round(seconds * 1_000_000) if isinstance(seconds, int | float) else last,
        window_us=window_of(path, window_us),
    )


def window_of(path: Path, given: int | None) -> int:
    """How long a node must stay to be eligible: as given, or the scenario's `linger_s`, or `DEFAULT_WINDOW_US`."""
    if given is not None:
        return given
    linger_s = _scenario(path).get("linger_s")
    return round(linger_s * 1_000_000) if isinstance(linger_s, int | float) else DEFAULT_WINDOW_US


def _summary(path: Path) -> dict[str, Any]:
    file = path / "summary.json"
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file}: not readable as JSON ({error})") from None


def _scenario(path: Path) -> dict[str, Any]:
    file = path / "scenario.toml"
    if not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file}: not readable as TOML ({error})") from None


def _peers(path: Path) -> list[tuple[int, str | None]]:
    file = path / DICTIONARIES / "peers.parquet"
    if not file.exists():
        return []
    table = read_table(file)
    if "peer" not in table:
        raise RunFolderError(f"{file}: has no column peer")
    numbers: list[int] = table["peer"]
    roles: list[str | None] = table.get("role") or [None] * len(numbers)
    return list(zip(numbers, roles, strict=True))
