"""What goes wrong: [faults]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.values import (
    MAX_DEGREE,
    MAX_TIME_S,
    MILLION,
    Flag,
    Link,
    NodeNumber,
    Seconds,
    Share,
    integer_in,
    number_in,
    scaled,
    share_up_to,
)


class Churn(Section):
    """[faults.churn] – nodes come and go; sessions and absences are exponential."""

    away_share: Annotated[Decimal, share_up_to("0.95")] = Decimal("0.3")
    mean_session_s: Annotated[Decimal, number_in("0.001", MAX_TIME_S)] = Decimal(60)
    goodbye: Flag = False
    start_s: Seconds = Decimal(0)

    @property
    def away_millionths(self) -> int:
        return scaled(self.away_share, MILLION)

    @property
    def mean_session_us(self) -> Micros:
        return scaled(self.mean_session_s, MILLION)

    @property
    def mean_away_us(self) -> Micros:
        """So that in the long run `away_share` of the nodes are away."""
        return self.mean_session_us * self.away_millionths // (MILLION - self.away_millionths)

    @property
    def start_us(self) -> Micros:
        return scaled(self.start_s, MILLION)


class Crash(Section):
    """[[faults.crash]] – a share of the nodes that are up, or those listed, stop without a word."""

    at_s: Seconds
    share: Share | None = None
    listed: tuple[NodeNumber, ...] | None = None
    rejoin_after_s: Seconds | None = None

    def cross_rules(self) -> Iterator[Violation]:
        if self.share is None and self.listed is None:
            yield Violation("at_s", self.at_s, "needs share or listed")
        if self.share is not None and self.listed is not None:
            yield Violation("listed", list(self.listed), "not together with share")

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def share_millionths(self) -> int | None:
        return None if self.share is None else scaled(self.share, MILLION)

    @property
    def rejoin_after_us(self) -> Micros | None:
        return None if self.rejoin_after_s is None else scaled(self.rejoin_after_s, MILLION)


class Partition(Section):
    """[[faults.partition]] – a share of the nodes is cut off from the others until it heals."""

    at_s: Seconds
    heal_s: Seconds
    share: Share

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def heal_us(self) -> Micros:
        return scaled(self.heal_s, MILLION)

    @property
    def share_millionths(self) -> int:
        return scaled(self.share, MILLION)


class Cut(Section):
    """[[faults.cut]] – a share of the links, or given links, are cut, for good unless `heal_s` is given."""

    at_s: Seconds
    heal_s: Seconds | None = None
    share: Share | None = None
    links: tuple[Link, ...] | None = None

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us is not None and self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")
        if self.share is None and self.links is None:
            yield Violation("at_s", self.at_s, "needs share or links")
        if self.share is not None and self.links is not None:
            yield Violation("links", self.links, "not together with share")
        for number, (a, b) in enumerate(self.links or ()):
            if a == b:
                yield Violation(f"links.{number}", [a, b], "must be two different nodes")

    @property
    def at_us(self) -> Micros:
        return scaled(self.at_s, MILLION)

    @property
    def heal_us(self) -> Micros | None:
        return None if self.heal_s is None else scaled(self.heal_s, MILLION)

    @property
    def share_millionths(self) -> int | None:
        return None if self.share is None else scaled(self.share, MILLION)


class Faults(Section):
    """[faults] – what goes wrong, and how soon the others notice."""

    detection_s: Seconds = Decimal(1)
    redial: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    churn: Churn | None = None
    crash: tuple[Crash, ...] = ()
    partition: tuple[Partition, ...] = ()
    cut: tuple[Cut, ...] = ()

    @property
    def detection_us(self) -> Micros:
        return scaled(self.detection_s, MILLION)
