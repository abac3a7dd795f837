"""The files that a scenario names: edge lists, and latencies between regions.

All bad lines are reported at once, because a table made by a program is usually wrong in many lines.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from io import StringIO
from itertools import combinations_with_replacement
from pathlib import Path

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import MAX_TIME_MS
from hearsay.foreign_files import MAX_TOML_BYTES, read_bytes
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.values import scaled

MAX_TABLE_BYTES = 1 << 30
"""The largest table that is read; the edges of ten million nodes need less."""
_HEADER = ["from", "to", "latency_ms", "jitter_ms"]


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a file, and latency and jitter between them."""

    names: tuple[str, ...]
    """In the order of the file; the number of a region is its index."""
    latency_us: tuple[tuple[Micros, ...], ...]
    """By the numbers of both regions, in any order; so is `jitter_us`."""
    jitter_us: tuple[tuple[Micros, ...], ...]


def shown(path: Path) -> Path:
    """Return a path for messages: relative if it is below the working directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def read_text(path: Path, max_bytes: int = MAX_TOML_BYTES) -> str:
    """Return the text of a scenario or a file that it names; raise `ScenarioError` with one line if it cannot be
    read."""
    try:
        return read_bytes(path, max_bytes).decode("utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError([f"{shown(path)}: no such file"]) from None
    except IsADirectoryError:
        raise ScenarioError([f"{shown(path)}: is a directory, not a file"]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{shown(path)}: is not UTF-8 (byte {error.start})"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ScenarioError([f"{shown(path)}: cannot be read: {reason}"]) from None


def read_edges(path: Path, nodes: int) -> list[tuple[int, int]]:
    """Return the pairs of an edge list (`a b` per line, # starts a comment); raise `ScenarioError` with every bad
    line."""
    edges: list[tuple[int, int]] = []
    problems: list[str] = []
    for number, line in enumerate(read_text(path, MAX_TABLE_BYTES).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            a, b = map(int, words)
        except ValueError:
            problems.append(f"{shown(path)}:{number}: {line.strip()[:60]!r} is not two node numbers")
            continue
        outside = [node for node in (a, b) if not 0 <= node < nodes]
        if outside:
            problems.append(f"{shown(path)}:{number}: node {outside[0]}: must be in 0…{nodes - 1}")
        elif a == b:
            problems.append(f"{shown(path)}:{number}: node {a} is linked to itself")
        else:
            edges.append((a, b))
    if problems:
        raise ScenarioError(problems)
    return edges


def read_regions(path: Path) -> Regions:
    """Return the regions of a CSV file; raise `ScenarioError` with every bad line and every missing pair."""
    pairs: dict[tuple[str, str], tuple[Micros, Micros]] = {}
    names: dict[str, None] = {}
    problems: list[str] = []
    for line, row in _rows(path, problems):
        try:
            source, destination, *times = row
            latency_us, jitter_us = (_milliseconds(text) for text in times)
        except ValueError as error:
            problems.append(f"{shown(path)}:{line}: {error}")
            continue
        if (source, destination) in pairs:
            problems.append(f"{shown(path)}:{line}: from {source!r} to {destination!r} exists already")
        pairs[source, destination] = (latency_us, jitter_us)
        names |= {source: None, destination: None}
    matrix: dict[tuple[str, str], tuple[Micros, Micros]] = {}
    for a, b in combinations_with_replacement(names, 2):
        given = [pairs[pair] for pair in ((a, b), (b, a)) if pair in pairs]
        if not given:
            problems.append(f"{shown(path)}: no latency from {a!r} to {b!r}")
            continue
        mean = (sum(base for base, _ in given) // len(given), sum(jitter for _, jitter in given) // len(given))
        matrix[a, b] = matrix[b, a] = mean
    if not names and not problems:
        problems.append(f"{shown(path)}: names no regions")
    if problems:
        raise ScenarioError(problems)
    return Regions(
        tuple(names),
        tuple(tuple(matrix[a, b][0] for b in names) for a in names),
        tuple(tuple(matrix[a, b][1] for b in names) for a in names),
    )


def _rows(path: Path, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of each row below the header that is not blank; append malformed rows to
    `problems`."""
    reader = csv.reader(StringIO(read_text(path, MAX_TABLE_BYTES), newline=""), strict=True)
    header_seen = False
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if not any(row):
                continue
            if not header_seen:
                header_seen = True
                if row != _HEADER:
                    raise ScenarioError([f"{shown(path)}:{reader.line_num}: the header must be {','.join(_HEADER)}"])
            elif len(row) != len(_HEADER):
                problems.append(f"{shown(path)}:{reader.line_num}: must have {len(_HEADER)} fields, not {len(row)}")
            else:
                yield reader.line_num, row
    except csv.Error as error:
        problems.append(f"{shown(path)}:{reader.line_num}: {error}")


def _milliseconds(text: str) -> Micros:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not number.is_finite() or not 0 <= number <= MAX_TIME_MS:
        raise ValueError(f"{text}: must be in 0…{MAX_TIME_MS}")
    return scaled(number, 1000)
