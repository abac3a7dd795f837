"""The order of test files, and the files that run on one worker.

A worker takes whole files, so that what the tests of a file share is made once. Files that share more than that, such
as a session of Spark or compiled kernels, are taken together. Long files come first; short files fill the end.

xdist's own groups (`--dist loadgroup`) do not work with this pytest: they are written into names that it no longer
reads, and every test goes anywhere.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from zlib import crc32

from xdist.scheduler import LoadScopeScheduling

_FILES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TOGETHER: dict[str, list[str]] = _FILES["together"]
ALONE: list[str] = _FILES["alone"]
UNITS = {file: name for name, files in TOGETHER.items() for file in files}
RANKS = {file: rank for rank, file in enumerate((*UNITS, *ALONE))}


def file_of(name: str) -> str:
    return name.partition("::")[0]


def rank(name: str) -> tuple[int, int]:
    """Return a test's place by its name: longest first. Other files are mixed: a folder's files wait for the same."""
    file = file_of(name)
    return RANKS.get(file, len(RANKS)), 0 if file in RANKS else crc32(file.encode())


class WholeFiles(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return UNITS.get(file, file)
