"""Types of options: paths, numbers within a range, and settings such as KEY=VALUE."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import click

from hearsay.cli.ending import WrongInput
from hearsay.trace.language.places import place_of


class GivenPath(click.Path):
    """The type of a path that is not empty. An empty path usually comes from an unset variable, and would mean the
    current folder.
    """

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the path is empty; is a variable not set?", param, ctx)
        place = place_of(os.fspath(value))
        if isinstance(place, str):
            return self.store(place, param, ctx)
        return super().convert(place, param, ctx)

    def store(self, uri: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raise `WrongInput`, because the command does not accept the URI of a store."""
        raise WrongInput(f"{uri}: only analyze, report and trace import can use a store; give a local folder")


class PathOrUri(GivenPath):
    """The type of a path, or of the URI of a store. The value of a URI is a str."""

    def store(self, uri: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return uri


def require_distinct(places: Sequence[Path | str]) -> None:
    """Raise `WrongInput` if two of these paths and URIs name the same place."""
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
    """Return pairs of key and value from the values of an option such as `--set`, in the given order. A key that
    occurs several times has several pairs.

    Raise `WrongInput` for a value that does not have the form `form`.
    """
    pairs: list[tuple[str, str]] = []
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise WrongInput(f"{option} {text}: write it as {form}")
        pairs.append((key, value))
    return pairs


class Whole(click.IntRange):
    """The type of a whole number from `min` to `max`, both included; None is no limit."""

    def _describe_range(self) -> str:
        return super()._describe_range() if _range(self.min, self.max) else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value} is not a whole number{_range(self.min, self.max)}", param, ctx)


class Real(click.FloatRange):
    """The type of a finite number from `min` to `max`, both included; None is no limit."""

    def _describe_range(self) -> str:
        return super()._describe_range() if _range(self.min, self.max) else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = None
        if number is None or not isfinite(number):
            self.fail(f"{value} is not a number{_range(self.min, self.max)}", param, ctx)
        return number


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" up to {high}"
    return f" from {low} on" if high is None else f" in {low}…{high}"
