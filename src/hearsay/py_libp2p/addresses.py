"""Addresses and peers in py-libp2p's form and in ours."""

from __future__ import annotations

from typing import Any

from hearsay.libp2p.host.interfaces import concrete_addresses
from hearsay.libp2p.limits.resources import address_group
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.py_libp2p.library import library


def remote_address_of(connection: Any) -> Multiaddr | None:
    for address in connection.get_transport_addresses():
        try:
            return without_peer(Multiaddr.decode(address.to_bytes()))
        except EncodingError:
            continue
    return None


def group_of(address: Multiaddr | None) -> str:
    return address_group(address.parts[0][1]) if address is not None else ""


def their_id(peer: PeerId) -> Any:
    return library("libp2p.peer.id").ID(peer)


def their_address(address: Multiaddr) -> Any:
    return library("multiaddr").Multiaddr(str(address))


def without_peer(address: Multiaddr) -> Multiaddr:
    return Multiaddr(address.parts[:-1]) if address.peer is not None else address


def each_interface(address: Multiaddr) -> list[Multiaddr]:
    """An address that listens everywhere, as one for each interface."""
    (_, host), (_, port) = address.parts[:2]
    return [
        Multiaddr((("ip6" if ":" in found else "ip4", found), *address.parts[1:]))
        for found, _ in concrete_addresses(host, int(port))
    ]
