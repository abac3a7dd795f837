"""TOML text: values with exact decimals, errors with their line, and the line of every key, which tomllib omits."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

from hearsay.foreign_files import parse_toml
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.tables import read_text

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


def parse(text: str, label: str) -> Document:
    """Return the document; raise `ScenarioError` with the message `LABEL:LINE: …` if the text is invalid."""
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
    """Return the document of a file and the lines of its keys."""
    text = read_text(path)
    document = parse(text, str(path))
    return document, locate_lines(text)


def parse_value(text: object) -> object:
    """Return an override's value: parsed if it is valid TOML, otherwise unchanged."""
    if not isinstance(text, str) or "\n" in text:
        return text
    try:
        return parse(f"value = {text}", "")["value"]
    except ScenarioError:
        return text


def locate_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key, array element and table of a valid TOML text; array elements by their index."""
    locator = _Locator(text)
    locator.run()
    return locator.lines


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")  # the exponent is too large even for a decimal


class _Locator:
    """One pass over the tokens of a valid TOML text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tokens = [*_tokens(text), ("", 0)]
        self._at = 0
        self._tables_in: Counter[KeyPath] = Counter()

    def run(self) -> None:
        table: KeyPath = ()
        while self._token:
            if self._token == "[":
                table = self._header()
            else:
                self._pair(table)

    @property
    def _token(self) -> str:
        return self._tokens[self._at][0]

    def _mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self._tokens[self._at][1])

    def _header(self) -> KeyPath:
        """Return the path of `[a.b]` or `[[a.b]]`; the name of an array of tables means its last element."""
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
        """Yield the index of each element of an array or inline table before it is read; then step over `closing`."""
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
