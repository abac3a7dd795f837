"""How many bytes things take on the wire, as numbers: protobuf (proto2) without encoding it.

Field numbers are those of the pubsub RPC (r1, "The protobuf is as follows"), all below 16, so a tag takes one byte.
Strings and bytes have their own length. The simulator names peers and messages by integers: those are given the
length that the real thing has by default, so that byte counts mean something (`SIMULATED_*`).
"""

from __future__ import annotations

SIMULATED_PEER_BYTES = 38
"""An Ed25519 peer id: an identity multihash of the 36-byte public key."""
SIMULATED_MESSAGE_ID_BYTES = SIMULATED_PEER_BYTES + 8
"""The usual message id: peer id, then the 8-byte sequence number."""
SIMULATED_SEQNO_BYTES = 8
SIMULATED_SIGNATURE_BYTES = 64


def varint_size(value: int) -> int:
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


def field_size(length: int) -> int:
    """A length-delimited field with a one-byte tag."""
    return 1 + varint_size(length) + length


def number_size(value: int) -> int:
    """A varint field with a one-byte tag."""
    return 1 + varint_size(value)


SIMULATED_PEER_INFO = field_size(field_size(SIMULATED_PEER_BYTES))
"""A peer that a PRUNE names."""
SIMULATED_ID_FIELD = field_size(SIMULATED_MESSAGE_ID_BYTES)


# Parts of an RPC, each as an element of the RPC or of its control message. `topic` is the size of the topic's field.


def subscription_size(topic: int) -> int:
    """SUBSCRIBE or UNSUBSCRIBE: a flag and the topic."""
    return field_size(2 + topic)


def ihave_size(topic: int, ids: int) -> int:
    return field_size(topic + ids)


def iwant_size(ids: int) -> int:
    return field_size(ids)


def graft_size(topic: int) -> int:
    return field_size(topic)


def prune_size(topic: int, names_backoff: bool, seconds: int, peers: int) -> int:
    """`peers` is the size of all fields that name others."""
    return field_size(topic + peers + (number_size(seconds) if names_backoff else 0))


def rpc_size_of_parts(outside: int, has_control: bool, control: int) -> int:
    """Subscriptions and messages lie in the RPC itself, parts of control in a field of it."""
    return outside + field_size(control) if has_control else outside


def framed_size(rpc: int) -> int:
    """An RPC on a stream, its length in front."""
    return rpc + varint_size(rpc)
