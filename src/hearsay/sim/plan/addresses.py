"""The addresses of nodes that peers see."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hearsay.sim.scenario.network import Addresses, AddressForm

_FIRST_IPV4 = int(IPv4Address("10.0.0.1"))
_FIRST_IPV6 = int(IPv6Address("2001:db8::1"))
_PREFIX_BITS = 64


class AddressBook:
    """The address of each node.

    With `nodes_per_address` = n the first n nodes share an address, the next n another one, and so on. The nodes of a
    list in `shared` share another address instead. If n is 0, nodes in no list have no known address.
    """

    def __init__(self, section: Addresses) -> None:
        self._form = section.form
        self._nodes_each = section.nodes_per_address
        self._lists = len(section.shared)
        self._listed = {node: place for place, nodes in enumerate(section.shared) for node in nodes}

    def of(self, node: int) -> str:
        """Return the address that peers see, empty if there is none."""
        if node in self._listed:
            return self._text(self._listed[node], node)
        if self._nodes_each:
            return self._text(self._lists + node // self._nodes_each, node)
        return ""

    def _text(self, number: int, node: int) -> str:
        match self._form:
            case AddressForm.IPV4:
                return str(IPv4Address(_FIRST_IPV4 + number))
            case AddressForm.IPV6:
                return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS)))
            case AddressForm.IPV6_PREFIX:
                return str(IPv6Address(_FIRST_IPV6 + (number << _PREFIX_BITS) + node))
