"""The events of a plan, each with its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hearsay.core.language.identifiers import Micros


@dataclass(frozen=True, slots=True)
class Publication:
    """A message and its publisher: a node, or the script (number `nodes`), which sends it to the nodes `inject`."""

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
    """A node stops; with `goodbye` it leaves its topics first."""

    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A node starts again."""

    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """Links are cut: all between one side and the other nodes (a partition), or the given ones."""

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    """The ends of the links that a fault cut can connect again."""

    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed
