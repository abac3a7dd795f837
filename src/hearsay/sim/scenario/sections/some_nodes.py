"""Some of the nodes: those that are listed, a random share, or those of a population."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.values import MILLION, NodeNumber, Share, integer_in, scaled


class SomeNodes(Section):
    """Whom an entry is about: all nodes unless one of the three keys says who."""

    listed: tuple[NodeNumber, ...] | None = None
    share: Share | None = None
    population: Annotated[int, integer_in(0, 65_534)] | None = None

    def cross_rules(self) -> Iterator[Violation]:
        ways = ("listed", "share", "population")
        given = [way for way in ways if getattr(self, way) is not None]
        for way in given[1:]:
            yield Violation(way, getattr(self, way), f"not together with {given[0]}")

    @property
    def share_millionths(self) -> int | None:
        return None if self.share is None else scaled(self.share, MILLION)
