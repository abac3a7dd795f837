"""Functions that read files of unknown origin, such as run folders, traces, scenarios and vectors.

Rules:

* Only regular files are read, because a device has no end. Files are opened without waiting, because opening a FIFO
  may block.
* A file has a maximum size, which is checked while the file is read: the file system may report a wrong size.
* A JSON text has at most `MAX_JSON_CONTAINERS` opening brackets of objects and lists, and only finite numbers.
* A dotted key of TOML has at most `MAX_KEY_PARTS` parts: the parser's time and memory grow with the square of the
  number of parts.
* The functions raise `OSError` for a file that cannot be opened, is not regular or is too large; its `strerror` is
  the reason. They raise `ValueError` for a text that is malformed or breaks a rule.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tomllib
from collections.abc import Callable
from io import FileIO
from math import isfinite
from pathlib import Path
from stat import S_ISREG
from typing import Any

MAX_JSON_CONTAINERS = 1_000_000
MAX_TOML_BYTES = 4 << 20
MAX_KEY_PARTS = 16

_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


class _RegularFile(FileIO):
    def __del__(self) -> None:
        self.close()


def open_regular(path: Path | str) -> FileIO:
    """Open a regular file for reading. The file is closed when the last reference to the returned object is gone.

    Raises `OSError` if the file cannot be opened or is not regular.
    """
    file = _RegularFile(path, opener=_open_without_waiting)
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file. Raises `OSError` if it cannot be read or has more than `max_bytes`."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
    return data


def parse_json(data: bytes, unique: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text, or raise `ValueError`.

    If `unique` is given, it converts each JSON object, as a list of pairs of key and value, to a Python value.
    """
    if data.count(b"{") + data.count(b"[") > MAX_JSON_CONTAINERS:
        raise ValueError(f"more than {MAX_JSON_CONTAINERS} objects and lists")
    try:
        return json.loads(data, parse_float=_finite, parse_constant=_finite, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the table that a TOML text describes, or raise `ValueError`.

    `parse_float` converts the text of each float to a number. The text has at most `MAX_TOML_BYTES` characters.
    """
    if len(text) > MAX_TOML_BYTES:
        raise ValueError(f"larger than {MAX_TOML_BYTES} characters")
    if long_key := _LONG_KEY.search(text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:80]} is not a finite number")
    return number
