"""The files of a scenario as text: TOML, edge lists, and CSV files with latencies between regions.

The reader of TOML returns exact decimals, and the line of every key and of an error, which tomllib omits. In edge
lists and CSV files all bad lines are reported at once, because a file that a program wrote is usually wrong in many
lines. `ScenarioError` is the error of a scenario, or of such a file, that cannot be used.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from io import StringIO
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TypeAlias

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import MAX_TIME_MS
from hearsay.foreign_files import MAX_TOML_BYTES, parse_toml, read_bytes
from hearsay.sim.scenario.values import scaled
from hearsay.user_errors import InvalidInput

MAX_TABLE_BYTES = 1 << 30
"""Maximum size in bytes of an edge list or a file of regions. It has room for about 60 million edges."""
_HEADER = ["from", "to", "latency_ms", "jitter_ms"]
Document: TypeAlias = dict[str, object]
KeyPath: TypeAlias = tuple[str | int, ...]
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_TOKEN = re.compile(
    r'''
    (?P<skipped> \s+ | \#[^\n]* )
    | """ (?: \\. | (?!""")[^\\] )*+ "{3,5}
    | \'\'\' (?: (?!\'\'\'). )*+ '{3,5}
    | " (?: \\. | [^"\\] )*+ "
    | ' [^']*+ '
    | [][{}=,.]
    | [^][{}=,.\s"'\#]++
    ''',
    re.VERBOSE | re.DOTALL,
)


class ScenarioError(InvalidInput, ValueError):
    """The error that a scenario, or a file that it names, is invalid or cannot be run.

    `problems` has one line for each mistake.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a file, with the latency and the jitter between regions."""

    names: tuple[str, ...]
    """The names of the regions in the order in which the file names them. The number of a region is its index."""
    latency_us: tuple[tuple[Micros, ...], ...]
    """The latency between two regions, by the numbers of both: `latency_us[a][b]` and `latency_us[b][a]` are equal.
    `jitter_us` has the same form."""
    jitter_us: tuple[tuple[Micros, ...], ...]


def shown_path(path: Path) -> Path:
    """Return a path as messages show it: relative if the file is below the working directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def read_text(path: Path, max_bytes: int = MAX_TOML_BYTES) -> str:
    """Return the text of a scenario, or of a file that a scenario names.

    Raise `ScenarioError` if the file cannot be read, is larger than `max_bytes`, or is not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes).decode("utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError([f"{shown_path(path)}: no such file"]) from None
    except IsADirectoryError:
        raise ScenarioError([f"{shown_path(path)}: is a directory, not a file"]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{shown_path(path)}: is not UTF-8 (byte {error.start})"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ScenarioError([f"{shown_path(path)}: cannot be read: {reason}"]) from None


def read_edges(path: Path, nodes: int) -> list[tuple[int, int]]:
    """Return the pairs of an edge list in the order of its lines. A line is `a b`, and # begins a comment.

    Numbers of nodes must be below `nodes`, and no node may be linked to itself. Raise `ScenarioError` with every bad
    line.
    """
    edges: list[tuple[int, int]] = []
    problems: list[str] = []
    for number, line in enumerate(read_text(path, MAX_TABLE_BYTES).splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            a, b = map(int, words)
        except ValueError:
            problems.append(f"{shown_path(path)}:{number}: {line.strip()[:60]!r} is not two node numbers")
            continue
        outside = [node for node in (a, b) if not 0 <= node < nodes]
        if outside:
            problems.append(f"{shown_path(path)}:{number}: node {outside[0]}: must be in 0…{nodes - 1}")
        elif a == b:
            problems.append(f"{shown_path(path)}:{number}: node {a} is linked to itself")
        else:
            edges.append((a, b))
    if problems:
        raise ScenarioError(problems)
    return edges


def read_regions(path: Path) -> Regions:
    """Return the regions of a CSV file. Raise `ScenarioError` with all bad lines and all missing pairs of regions."""
    pairs: dict[tuple[str, str], tuple[Micros, Micros]] = {}
    names: dict[str, None] = {}
    problems: list[str] = []
    for line, row in _rows(path, problems):
        try:
            if len(row) != len(_HEADER):
                raise ValueError(f"must have {len(_HEADER)} fields, not {len(row)}")
            source, destination, *times = row
            latency_us, jitter_us = map(_milliseconds, times)
        except ValueError as error:
            problems.append(f"{shown_path(path)}:{line}: {error}")
            continue
        if (source, destination) in pairs:
            problems.append(f"{shown_path(path)}:{line}: an earlier line is from {source!r} to {destination!r}")
        pairs[source, destination] = (latency_us, jitter_us)
        names |= {source: None, destination: None}
    matrix: dict[tuple[str, str], tuple[Micros, Micros]] = {}
    for a, b in combinations_with_replacement(names, 2):
        given = [pairs[pair] for pair in ((a, b), (b, a)) if pair in pairs]
        if not given:
            problems.append(f"{shown_path(path)}: no latency from {a!r} to {b!r}")
            continue
        mean = (sum(base for base, _ in given) // len(given), sum(jitter for _, jitter in given) // len(given))
        matrix[a, b] = matrix[b, a] = mean
    if not names and not problems:
        problems.append(f"{shown_path(path)}: names no regions; it needs a line {','.join(_HEADER)} for each pair")
    if problems:
        raise ScenarioError(problems)
    latencies_us, jitters_us = (tuple(tuple(matrix[a, b][place] for b in names) for a in names) for place in range(2))
    return Regions(tuple(names), latencies_us, jitters_us)


def _rows(path: Path, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row below the header, except blank rows.

    If the text is not valid CSV, append a message to `problems`, and end. Raise `ScenarioError` for a wrong header.
    """
    reader = csv.reader(StringIO(read_text(path, MAX_TABLE_BYTES), newline=""), strict=True)
    rows = filter(any, ([cell.strip() for cell in cells] for cells in reader))
    try:
        if next(rows, _HEADER) != _HEADER:
            raise ScenarioError([f"{shown_path(path)}:{reader.line_num}: the header must be {','.join(_HEADER)}"])
        for row in rows:
            yield reader.line_num, row
    except csv.Error as error:
        problems.append(f"{shown_path(path)}:{reader.line_num}: {error}")


def _milliseconds(text: str) -> Micros:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not number.is_finite() or not 0 <= number <= MAX_TIME_MS:
        raise ValueError(f"{text}: must be in 0…{MAX_TIME_MS} ms")
    return scaled(number, 1000)


def parse(text: str, label: str) -> Document:
    """Return the document of a TOML text. Raise `ScenarioError` with a message `LABEL:LINE: …` if it is invalid."""
    try:
        return parse_toml(text, _decimal)
    except ValueError as error:
        message = str(error)
        place = _PLACE.search(message)
        if place is None:
            raise ScenarioError([f"{label}: {message}"]) from None
        line = place.group(1) or str(text.rstrip().count("\n") + 1)
        raise ScenarioError([f"{label}:{line}: {message[: place.start()]}"]) from None


def parse_file(path: Path) -> tuple[Document, dict[KeyPath, int]]:
    """Return the document of a TOML file, and the line of each of its keys. Raise `ScenarioError` as `read_text` and
    `parse` do."""
    text = read_text(path)
    return parse(text, str(path)), locate_lines(text)


def parse_value(text: object) -> object:
    """Return the value of an override: a string that is a TOML value is parsed, other values are returned as is."""
    if not isinstance(text, str) or "\n" in text:
        return text
    try:
        return parse(f"value = {text}", "")["value"]
    except ScenarioError:
        return text


def locate_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key, table and array element of a valid TOML text, by path.

    The path of an array element ends with the index of the element.
    """
    return _Locator(text).run()


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")  # the exponent is too large even for a decimal


class _Locator:
    """One pass over the tokens of a valid TOML text, which finds the lines of its keys."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tokens = [*_tokens(text), ("", 0)]
        self._at = 0
        self._tables_in: Counter[KeyPath] = Counter()

    def run(self) -> dict[KeyPath, int]:
        """Read all tokens, and return the lines by path."""
        table: KeyPath = ()
        while self._token:
            if self._token == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.lines

    @property
    def _token(self) -> str:
        return self._tokens[self._at][0]

    def _mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self._tokens[self._at][1])

    def _header(self) -> KeyPath:
        """Return the path of the header `[a.b]` or `[[a.b]]`, and step over it.

        In a header, the name of an array of tables stands for the last element of that array.
        """
        brackets = 2 if self._tokens[self._at + 1][0] == "[" else 1
        self._at += brackets
        key = self._key()
        path: KeyPath = ()
        for place, part in enumerate(key, start=1):
            path += (part,)
            self._mark(path)
            if place == len(key) and brackets == 2:
                self._tables_in[path] += 1
            if path in self._tables_in:
                path += (self._tables_in[path] - 1,)
                self._mark(path)
        self._at += brackets
        return path

    def _pair(self, table: KeyPath) -> None:
        path = table
        for part in self._key():
            path = (*path, part)
            self._mark(path)
        self._at += 1
        self._value(path)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            part = self._token
            parts.append(tomllib.loads(f"key = {part}")["key"] if part[0] in "\"'" else part)
            self._at += 1
            if self._token != ".":
                return parts
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        line = self._tokens[self._at][1]
        match self._token:
            case "[":
                for index in self._elements("]"):
                    self._mark((*path, index))
                    self._value((*path, index))
            case "{":
                for _ in self._elements("}"):
                    self._pair(path)
            case text if text[0] in "\"'":
                self._at += 1
            case _:
                while self._tokens[self._at][1] == line and self._token not in (",", "]", "}"):
                    self._at += 1

    def _elements(self, closing: str) -> Iterator[int]:
        """Yield the index of each element of an array or inline table. The caller must then read the element.

        At the end, step over `closing`.
        """
        self._at += 1
        number = 0
        while self._token != closing:
            yield number
            number += 1
            if self._token == ",":
                self._at += 1
        self._at += 1


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield each token with its line."""
    line = 1
    for found in _TOKEN.finditer(text):
        if found["skipped"] is None:
            yield found[0], line
        line += found[0].count("\n")
