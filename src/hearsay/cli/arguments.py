"""Values of options: paths, KEY=VALUE settings, and numbers within a range."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import click

from hearsay.cli.ending import WrongInput
from hearsay.trace.folder.exact_paths import place_of


class GivenPath(click.Path):
    """A path that is not empty: an empty one usually comes from an unset variable, and means the current folder."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("empty; give a path (a variable that is not set?)", param, ctx)
        place = place_of(os.fspath(value))
        if isinstance(place, str):
            return self.store(place, param, ctx)
        return super().convert(place, param, ctx)

    def store(self, uri: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raise `WrongInput` for the URI of a store; subclasses may return the URI instead."""
        raise WrongInput(f"{uri}: only analyze, report and trace import reach a store; give a folder and copy it")


class PathOrUri(GivenPath):
    """A path, or the URI of a store. The URI is returned as text."""

    def store(self, uri: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return uri


def require_distinct(places: Sequence[Path | str]) -> None:
    """Raise `WrongInput` if two of these paths and URIs mean the same place."""
    first: dict[Path | str, Path | str] = {}
    problems: list[str] = []
    for path in places:
        before = first.setdefault(path.resolve() if isinstance(path, Path) else path.rstrip("/"), path)
        if before is not path:
            problems.append(f"{path}: given twice" + (f", as {before} before" if before != path else ""))
    if problems:
        raise WrongInput(*dict.fromkeys(problems))


def settings_of(
    given: Sequence[str], option: str = "--set", form: str = "section.key=value"
) -> list[tuple[str, str]]:
    """Return the keys and values of an option that may be repeated."""
    pairs: list[tuple[str, str]] = []
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise WrongInput(f"{option} {text}: write it as {form}")
        pairs.append((key, value))
    return pairs


class Whole(click.IntRange):
    """A whole number from `min` to `max`, both included."""

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value} is not a whole number{_range(self.min, self.max)}", param, ctx)


class Real(click.FloatRange):
    """A number from `min` to `max`, both included."""

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = None
        if number is None or not isfinite(number):
            self.fail(f"{value} is not a number{_range(self.min, self.max)}", param, ctx)
        return number


def counted(number: int, what: str) -> str:
    """Return a counted noun: "1 peer", "1,200 peers"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" up to {high}"
    return f" from {low} on" if high is None else f" in {low}…{high}"
