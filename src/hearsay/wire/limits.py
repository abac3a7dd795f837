"""What an RPC may be made of, and what is said of one that is not."""

from __future__ import annotations

from dataclasses import dataclass


class WireError(Exception):
    """An RPC of a peer that cannot be read, or is larger than its limits. All of it is dropped."""


class TooLarge(ValueError):
    """A message of our own that no RPC to a peer could hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcLimits:
    """Bounds on one RPC. Counts are checked before anything is built, so that a frame full of small parts is cheap.

    `max_rpc_bytes` is go-libp2p-pubsub's default, one mebibyte; peers drop what is larger. A part with a longer topic
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
