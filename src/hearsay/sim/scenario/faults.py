"""Churn, crashes, partitions and cut links: [faults]."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.values import (
    MAX_DEGREE,
    MAX_TIME_S,
    MILLION,
    Flag,
    Link,
    NodeNumber,
    Scaled,
    ScaledIfGiven,
    Seconds,
    Section,
    Share,
    integer_in,
    number_in,
)


class Churn(Section):
    """[faults.churn]: nodes leave and return; sessions and absences have exponential lengths."""

    away_share: Annotated[Decimal, number_in("0", "0.95")] = Decimal("0.3")
    """Share of the nodes that is away at any time."""
    mean_session_s: Annotated[Decimal, number_in("0.001", MAX_TIME_S)] = Decimal(60)
    """Mean time that a node stays."""
    goodbye: Flag = False
    """Nodes leave their topics before they go; otherwise they crash."""
    start_s: Seconds = Decimal(0)
    """Time at which churn begins."""
    away_millionths = Scaled("away_share", MILLION)
    mean_session_us = Scaled("mean_session_s", MILLION)
    start_us = Scaled("start_s", MILLION)

    @property
    def mean_away_us(self) -> Micros:
        """The mean absence, with which `away_share` of the nodes are away in the long run."""
        return self.mean_session_us * self.away_millionths // (MILLION - self.away_millionths)


class Crash(Section):
    """[[faults.crash]]: some of the nodes that are up stop without notice."""

    at_s: Seconds
    """Time of the crash."""
    share: Share | None = None
    """Random share of the nodes that are up."""
    listed: tuple[NodeNumber, ...] | None = None
    """The nodes, by number; in place of `share`."""
    rejoin_after_s: Seconds | None = None
    """Time after which the nodes return; without it, never."""
    at_us = Scaled("at_s", MILLION)
    share_millionths = ScaledIfGiven("share", MILLION)
    rejoin_after_us = ScaledIfGiven("rejoin_after_s", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.share is None and self.listed is None:
            yield Violation("at_s", self.at_s, "needs share or listed")
        yield from self.exclusive("share", "listed")


class Partition(Section):
    """[[faults.partition]]: the network is split in two until it heals."""

    at_s: Seconds
    """Time of the split."""
    heal_s: Seconds
    """Time at which the parts can connect again."""
    share: Share
    """Random share of the nodes on one side."""
    at_us = Scaled("at_s", MILLION)
    heal_us = Scaled("heal_s", MILLION)
    share_millionths = Scaled("share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")


class Cut(Section):
    """[[faults.cut]]: some links are cut."""

    at_s: Seconds
    """Time of the cut."""
    heal_s: Seconds | None = None
    """Time at which the ends can connect again; without it, never."""
    share: Share | None = None
    """Random share of the links."""
    links: tuple[Link, ...] | None = None
    """The links, as pairs of nodes: `[[1, 2], [3, 4]]`; in place of `share`."""
    at_us = Scaled("at_s", MILLION)
    heal_us = ScaledIfGiven("heal_s", MILLION)
    share_millionths = ScaledIfGiven("share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        if self.heal_us is not None and self.heal_us <= self.at_us:
            yield Violation("heal_s", self.heal_s, f"must be above at_s ({self.at_s})")
        if self.share is None and self.links is None:
            yield Violation("at_s", self.at_s, "needs share or links")
        yield from self.exclusive("share", "links")
        for number, (a, b) in enumerate(self.links or ()):
            if a == b:
                yield Violation(f"links.{number}", [a, b], "must be two different nodes")


class Faults(Section):
    """[faults]: what fails, and how soon peers notice."""

    detection_s: Seconds = Decimal(1)
    """Time after a crash or cut until the other end of a connection notices."""
    redial: Annotated[int, integer_in(0, MAX_DEGREE)] = 10
    """Number of live peers that a node dials when it returns or its links heal."""
    churn: Churn | None = None
    """Nodes that leave and return all the time; without the table, none."""
    crash: tuple[Crash, ...] = ()
    """Crashes of some nodes at one time."""
    partition: tuple[Partition, ...] = ()
    """Splits of the network in two."""
    cut: tuple[Cut, ...] = ()
    """Cuts of some links."""
    detection_us = Scaled("detection_s", MILLION)
