"""News of the addresses that a node keeps connected to, one for each change, for its operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from hearsay.libp2p.names.peer_id import PeerId, to_text


class AddressState(StrEnum):
    CONNECTED = "connected"
    LOST = "lost"
    """The connection has ended; it is tried again."""
    FAILED = "failed"
    """The dial failed, or reached another peer than expected; the address is tried again."""
    KEPT_OUT = "kept_out"
    """The peer at this address is banned; the address is tried again when the ban expires."""
    OWN = "own"
    """The address leads back to this node; it is not tried again."""


@dataclass(frozen=True, slots=True)
class AddressNews:
    """`reason` says why it is not connected, or what is remarkable about the connection."""

    address: str
    state: AddressState
    reason: str = ""
    peer: PeerId | None = None
    protocol: str = ""
    retry_s: float | None = None
    """Time until the next try; it doubles each time, up to a minute."""

    def __str__(self) -> str:
        again = "" if self.retry_s is None else f"; next try in {self.retry_s:.1f} s, then ever later, up to a minute"
        match self.state:
            case AddressState.CONNECTED:
                peer = "" if self.peer is None else to_text(self.peer)
                suffix = "" if peer in self.address else f"/p2p/{peer}"
                return f"connected to {self.address}{suffix}: {', '.join(filter(None, (self.protocol, self.reason)))}"
            case AddressState.OWN:
                return f"{self.address}: {self.reason}; it is not tried again"
            case AddressState.KEPT_OUT:
                return f"{self.address}: {self.reason}"
            case AddressState.LOST | AddressState.FAILED:
                return f"{self.address}: {self.reason}{again}"


class AddressBoard:
    """The latest news of every address; repeated news are reported once."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[AddressNews], None]] = []
        self._latest: dict[str, AddressNews] = {}

    @property
    def latest(self) -> tuple[AddressNews, ...]:
        return tuple(self._latest.values())

    def tell(self, news: AddressNews) -> None:
        before = self._latest.get(news.address)
        self._latest[news.address] = news
        if before is None or replace(before, retry_s=None) != replace(news, retry_s=None):
            for callback in self.callbacks:
                callback(news)
