"""A file of score parameters in which no check finds anything, and checks of changed copies of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from hearsay.score_check.check import Checked, check_subject
from hearsay.score_check.subjects import read_subject

CLEAN = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with changed keys, by paths such as `score.topics.0.topic_weight`; None removes a key."""
    document = tomllib.loads(CLEAN)
    for path, value in changes.items():
        *way, last = path.split(".")
        here: Any = document
        for part in way:
            here = here[int(part)] if part.isdigit() else here[part]
        if isinstance(here, list):
            here.pop(int(last)) if value is None else here.insert(int(last), value)
        elif value is None:
            del here[last]
        else:
            here[last] = value
    return document


def checked(folder: Path, changes: Mapping[str, Any]) -> Checked:
    path = folder / "score.toml"
    path.write_text(tomli_w.dumps(changed(changes)), encoding="utf-8")
    return check_subject(read_subject(path))
