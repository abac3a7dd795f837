"""Where in a TOML text every key stands.

tomllib does not tell. `locate_lines` walks over a text that tomllib has accepted and notes the line of every key,
array element and table, so it need not find mistakes itself.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from typing import TypeAlias

from hearsay.text.toml import BARE_KEY

KeyPath: TypeAlias = tuple[str | int, ...]


def locate_lines(text: str) -> dict[KeyPath, int]:
    """The line of every key, array element and table of a valid TOML text; array elements by their index."""
    return _Locator(text).run()


class _Locator:
    """One pass over a valid TOML text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._tables_in: dict[KeyPath, int] = {}

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip_blank()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()
        return self._lines

    def _mark(self, path: KeyPath) -> None:
        self._lines.setdefault(path, bisect_left(self._newlines, self._at) + 1)

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; a step through an array of tables means its last element."""
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        key = self._key()
        path: KeyPath = ()
        for place, part in enumerate(key, start=1):
            path += (part,)
            self._mark(path)
            if place == len(key) and brackets == 2:
                self._tables_in[path] = self._tables_in.get(path, 0) + 1
            if path in self._tables_in:
                path += (self._tables_in[path] - 1,)
                self._mark(path)
        self._at = self._text.index("]", self._at) + brackets
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        key = self._key()
        after_key, self._at = self._at, start
        path = table
        for part in key:
            path = (*path, part)
            self._mark(path)
        self._at = self._text.index("=", after_key) + 1
        self._skip_blank()
        self._value(path)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip_blank()
            start = self._at
            if self._text[start] in "\"'":
                self._string()
                parts.append(tomllib.loads(f"key = {self._text[start : self._at]}")["key"])
            else:
                bare = BARE_KEY.match(self._text, start)
                self._at = bare.end() if bare else start + 1
                parts.append(self._text[start : self._at])
            while self._text[self._at] in " \t":
                self._at += 1
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at]:
            case '"' | "'":
                self._string()
            case "[":
                self._at += 1
                index = 0
                while self._inside("]"):
                    self._mark((*path, index))
                    self._value((*path, index))
                    index += 1
            case "{":
                self._at += 1
                while self._inside("}"):
                    self._pair(path)
            case _:
                while self._at < len(self._text) and self._text[self._at] not in ",]}#\n":
                    self._at += 1

    def _inside(self, closing: str) -> bool:
        """Step to the next element; False behind the closing bracket."""
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_blank()
        if self._text[self._at] == closing:
            self._at += 1
            return False
        return True

    def _string(self) -> None:
        quote = self._text[self._at]
        end = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        self._at += len(end)
        while not self._text.startswith(end, self._at):
            self._at += 2 if quote == '"' and self._text[self._at] == "\\" else 1
        self._at += len(end)
        # A long string may end in one or two quotes of its own.
        while len(end) == 3 and self._text.startswith(quote, self._at):
            self._at += 1

    def _skip_blank(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                newline = self._text.find("\n", self._at)
                self._at = len(self._text) if newline < 0 else newline
            elif self._text[self._at] in " \t\r\n":
                self._at += 1
            else:
                return
