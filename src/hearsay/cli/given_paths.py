"""Files and folders as they are named on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hearsay.cli.failures import WrongInput


class GivenPath(click.Path):
    """A path that is there: an empty one would mean the current folder, and mostly comes of a variable not set."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("empty; give a path (a variable that is not set?)", param, ctx)
        return super().convert(value, param, ctx)


def require_distinct(paths: Sequence[Path]) -> None:
    """Refuse what is named twice, by whatever paths."""
    first: dict[Path, Path] = {}
    problems: list[str] = []
    for path in paths:
        before = first.setdefault(path.resolve(), path)
        if before is not path:
            problems.append(f"{path}: given twice" + (f", as {before} before" if before != path else ""))
    if problems:
        raise WrongInput(*dict.fromkeys(problems))
