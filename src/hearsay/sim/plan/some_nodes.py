"""Who is meant where a scenario says some nodes."""

from __future__ import annotations

from collections.abc import Container, Sequence

from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.shares import node_numbers, part_of, smallest
from hearsay.sim.plan.topology import draw_array
from hearsay.sim.scenario.values import SomeNodes


def chosen(
    some: SomeNodes, router_of: Sequence[int], randomness: Randomness, purpose: Purpose, entry: int
) -> Container[int]:
    """The nodes of an entry; shares of different entries are drawn apart. `router_of` says what each node runs."""
    if some.listed is not None:
        return frozenset(some.listed)
    if some.population is not None:
        return frozenset(node for node, router in enumerate(router_of) if router == some.population + 1)
    if some.share_millionths is not None:
        draws = draw_array(randomness, purpose, (entry,), node_numbers(len(router_of)))
        return frozenset(smallest(draws, part_of(len(router_of), some.share_millionths)))
    return range(len(router_of))
