"""What is planned to happen, each thing with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hearsay.core.language.identifiers import Micros


@dataclass(frozen=True, slots=True)
class Publication:
    """A message and where it enters: `publisher` is a node, or `nodes` for the script, which sends it to `inject`."""

    time_us: Micros
    message: int
    topic: int
    publisher: int
    inject: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedAction:
    """A node joins or leaves a topic."""

    time_us: Micros
    node: int
    join: bool
    topic: int


@dataclass(frozen=True, slots=True)
class NodeDown:
    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """A partition names one side, and all links across are cut; a cut names the links."""

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed
