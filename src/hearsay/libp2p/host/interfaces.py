"""Where a socket that listens on every interface can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from ifaddr import get_adapters


def concrete_addresses(host: str, port: int) -> Iterator[tuple[str, int]]:
    """An address as it is; one that stands for all interfaces (0.0.0.0 or ::) as the address of each.

    Those that other machines can use come first, loopback last. IPv6 addresses of a single link are left out: they
    say nothing without a zone. Nobody is told 0.0.0.0, which at the reader would be the reader's own machine.
    """
    address = ip_address(host.partition("%")[0])
    if not address.is_unspecified:
        yield host, port
        return
    own = [found for found in _interface_addresses() if found.version == address.version and not _needs_zone(found)]
    for found in sorted(own, key=lambda found: found.is_loopback):
        yield str(found), port


def _interface_addresses() -> Iterator[IPv4Address | IPv6Address]:
    for adapter in get_adapters():
        for known in adapter.ips:
            yield ip_address(known.ip if isinstance(known.ip, str) else known.ip[0])


def _needs_zone(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.is_link_local
