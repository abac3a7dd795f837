"""The order of test files, and the files that run on one worker.

A worker runs whole files, so that the fixtures of a file are created once. Files that share more, such as a session
of Spark or compiled kernels, run on the same worker. Long files come first; short files fill the end.

xdist's own groups (`--dist loadgroup`) do not work with this version of pytest, which ignores the test names into
which xdist writes the groups.
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
    """Return a sort key of a test's name: long files first. Other files are in a mixed order, because files of one
    folder tend to wait for the same resource.
    """
    file = file_of(name)
    return RANKS.get(file, len(RANKS)), 0 if file in RANKS else crc32(file.encode())


class WholeFiles(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return UNITS.get(file, file)
