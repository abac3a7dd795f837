"""Field numbers outside the specification, identifiers as bytes, and the limits of an RPC.

Experimental fields have numbers above 0x200000 (gossipsub v1.3). Ours had small ones before: these are still read, as
the same number above 0x200000."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, FIRST_EXTENSION_FIELD

TEST_EXTENSION = 6_492_434
"""The number of go's test extension: as a field of the extensions control, and of the RPC with its message."""
HOPS = EXPERIMENTAL_FIELDS + 7
"""The hop count: a field of a message."""
EPISUB = EXPERIMENTAL_FIELDS + 7
"""The field of the control message for episub's parts."""


def is_hops(number: int) -> bool:
    return number in (HOPS, HOPS - EXPERIMENTAL_FIELDS)


def is_episub(number: int) -> bool:
    return number in (EPISUB, EPISUB - EXPERIMENTAL_FIELDS)


def extension_number(number: int) -> int | None:
    """Return the number by which an external router knows a control field; None if no such router can use it."""
    if FIRST_EXTENSION_FIELD - EXPERIMENTAL_FIELDS <= number <= EXPERIMENTAL_FIELDS:
        number += EXPERIMENTAL_FIELDS
    return number if number >= FIRST_EXTENSION_FIELD else None


def raw(identifier: Identifier) -> bytes:
    """Return the bytes of an identifier."""
    if isinstance(identifier, bytes):
        return identifier
    if isinstance(identifier, str):
        return identifier.encode()
    raise TypeError(f"{identifier!r} cannot be sent: numbers name things in simulations only")


class WireError(Exception):
    """An RPC of a peer that cannot be read, or exceeds its limits. It is dropped as a whole."""


class TooLarge(ValueError):
    """A message of this node that fits into no RPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Bounds on one RPC. Counts are checked before objects are built, so that a frame full of small parts is cheap.

    `max_rpc_bytes` is go-libp2p-pubsub's default, one mebibyte; peers drop larger RPCs. A part with a longer topic
    or message id than these is left out.
    """

    max_rpc_bytes: int = 1 << 20
    max_subscriptions: int = 20_000
    max_messages: int = 10_000
    max_control: int = 20_000
    max_ids: int = 50_000
    max_exchanged_peers: int = 1_000
    max_topic_bytes: int = 1_024
    max_id_bytes: int = 256
