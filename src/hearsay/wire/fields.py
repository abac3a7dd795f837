"""Field numbers outside the specification, the bytes of identifiers, and the limits of an RPC.

Experimental fields have numbers above 0x200000 (gossipsub v1.3). Earlier versions of hearsay used numbers that are
lower by 0x200000; these are still read."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, FIRST_EXTENSION_FIELD

TEST_EXTENSION = 6_492_434
"""The number of go's test extension: a field of the control extensions, and the field of an RPC for its message."""
HOPS = EXPERIMENTAL_FIELDS + 7
"""The field of a message for the hop count."""
EPISUB = EXPERIMENTAL_FIELDS + 7
"""The field of the control message for episub's parts."""


def is_hops(number: int) -> bool:
    return number in (HOPS, HOPS - EXPERIMENTAL_FIELDS)


def is_episub(number: int) -> bool:
    return number in (EPISUB, EPISUB - EXPERIMENTAL_FIELDS)


def extension_number(number: int) -> int | None:
    """Return the number of a control field for external routers; None if external routers cannot use the field."""
    if FIRST_EXTENSION_FIELD - EXPERIMENTAL_FIELDS <= number <= EXPERIMENTAL_FIELDS:
        number += EXPERIMENTAL_FIELDS
    return number if number >= FIRST_EXTENSION_FIELD else None


def raw(identifier: Identifier) -> bytes:
    """Return the bytes of an identifier."""
    if isinstance(identifier, bytes):
        return identifier
    if isinstance(identifier, str):
        return identifier.encode()
    raise TypeError(f"{identifier!r} cannot be encoded: numbers are identifiers only in simulations")


class WireError(Exception):
    """An RPC of a peer is malformed or exceeds a limit. The whole RPC is dropped."""


class TooLarge(ValueError):
    """A topic or message of this node exceeds a limit of RPCs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Limits on one RPC. Counts are checked before objects are built, so that many small parts cost little.

    `max_rpc_bytes` is the default of go-libp2p-pubsub, 1 MiB; peers drop larger RPCs. Topics and message ids above
    their limits are left out.
    """

    max_rpc_bytes: int = 1 << 20
    max_subscriptions: int = 20_000
    max_messages: int = 10_000
    max_control: int = 20_000
    max_ids: int = 50_000
    max_exchanged_peers: int = 1_000
    max_topic_bytes: int = 1_024
    max_id_bytes: int = 256
