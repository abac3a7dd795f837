"""Who nodes are to others: [addresses] and [[ratings]]."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from hearsay.sim.scenario.sections.section import Section
from hearsay.sim.scenario.sections.some_nodes import SomeNodes
from hearsay.sim.scenario.sections.values import MAX_NODES, NodeNumber, integer_in, number_in, one_of


class AddressForm(StrEnum):
    """What an address looks like. With `ipv6_prefix` nodes share no address, only its first 64 bits."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    IPV6_PREFIX = "ipv6_prefix"


class Addresses(Section):
    """[addresses] – which nodes share an address; those of no group have none that anybody knows."""

    nodes_per_address: Annotated[int, integer_in(0, MAX_NODES)] = 0
    shared: tuple[tuple[NodeNumber, ...], ...] = ()
    form: Annotated[AddressForm, one_of(AddressForm)] = AddressForm.IPV4


class Rating(SomeNodes):
    """[[ratings]] – what the applications of some nodes (`by`, without it all) think of these."""

    rating: Annotated[Decimal, number_in("-1000000000", 1_000_000_000)]
    by: tuple[NodeNumber, ...] | None = None
