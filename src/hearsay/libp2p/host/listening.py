"""Limits of a listening host: its number of connections, and the addresses of its interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

from ifaddr import get_adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Upper bounds; fewer files mean fewer of all (`fitted`)."""

    max_connections: int = 1024
    """Proven connections and dials."""
    reserved_for_dials: int = 64
    """Number of connections that inbound ones leave free."""
    max_per_address: int = 256
    """Inbound connections of an address; a quarter, because many honest peers may share one."""
    newcomer_patience_s: float = 2.0
    """An idle inbound connection gives way to a newcomer after this time, when no slot is free."""
    max_handshakes: int = 128
    """Inbound connections that have not proven who they are."""
    max_handshakes_per_address: int = 32
    handshake_patience_s: float = 0.05
    """A connection that has sent nothing gives way to a new one after this time, when no handshake is free."""
    spare_files: int = 64
    """For everything but connections."""


class Places(NamedTuple):
    connections: int
    inbound: int
    per_address: int
    handshakes: int
    handshakes_per_address: int


def fitted(limits: AdmissionLimits, files: int) -> Places:
    """Return the limits for a number of open files; each limit is at least a small number."""
    usable = max(4, files - min(limits.spare_files, files // 2))
    handshakes = max(1, min(limits.max_handshakes, usable // 8))
    connections = max(1, min(limits.max_connections, usable - handshakes))
    inbound = connections - min(limits.reserved_for_dials, connections // 4)
    return Places(
        connections,
        inbound,
        min(limits.max_per_address, max(8, inbound // 2)),
        handshakes,
        min(limits.max_handshakes_per_address, handshakes),
    )


def concrete_addresses(host: str, port: int) -> Iterator[tuple[str, int]]:
    """An address as it is; one that stands for all interfaces (0.0.0.0 or ::) as the address of each.

    Those that other machines can use come first, loopback last. IPv6 addresses of a single link are left out: they
    say nothing without a zone. 0.0.0.0 is never advertised: at the reader it means the reader's own machine.
    """
    address = ip_address(host.partition("%")[0])
    if not address.is_unspecified:
        yield host, port
        return
    known = [each.ip for adapter in get_adapters() for each in adapter.ips]
    own = [ip_address(each if isinstance(each, str) else each[0]) for each in known]
    usable = [
        each for each in own if each.version == address.version and not (each.version == 6 and each.is_link_local)
    ]
    for found in sorted(usable, key=lambda found: found.is_loopback):
        yield str(found), port
