"""Numbers on the command line: finite, in their range, and told of with that range when they are not; and counts."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click


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
    """So many of something: "1 peer", "1,200 peers"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" up to {high}"
    return f" from {low} on" if high is None else f" in {low}…{high}"
