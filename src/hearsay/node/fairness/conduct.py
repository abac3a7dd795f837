"""What peers are held to: offences make demerits, demerits fade, and who has too many is slowed, then kept out.

Demerits halve every `half_life_s`. From `slow_at` on, reading from the peer pauses after each further offence; at
`out_at` its connection ends, and it is not let in, nor dialled, for `out_s`. An address answers for all of its peers
together, with `address_factor` times as much patience: many honest peers may share one, and no single one of them
brings it more demerits than put out a peer.

An offence is what no honest peer does, of whatever implementation and version, however it is set up. None are:

* what peers pass on before they could know better, or know otherwise: messages whose verdict is IGNORE, sequence
  numbers that come out of order, duplicates, messages and control of topics just left, our own messages;
* ids asked for that are kept no more, more ids than a heartbeat's share (heartbeats of two nodes are not in step),
  GRAFTs that find a full mesh or no subscription;
* a GRAFT in backoff by a peer that knows no backoff (protocol v1.0), or that cannot know of this one: on each
  connection the first is forgiven, and so is what comes within `backoff_grace_s` of it: it crossed the PRUNE on its
  way, or the peer has been started anew.

A verdict REJECT says that whoever passed a message on is to blame, as in gossipsub 1.1: validators that honest peers
may lack answer IGNORE. Gossipsub's scores (1.1) take over from here for what they count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.node.fairness.demerits import Demerits


class Offence(Enum):
    """In words, for one and for many; `ConductLimits` has the demerits of each."""

    MALFORMED = ("malformed RPC", "malformed RPCs")
    """Bytes that are no RPC, or no frame."""
    FORGED = ("forged message", "forged messages")
    """A message whose signature is wrong."""
    REJECTED = ("rejected message", "rejected messages")
    """A message that the application says its sender is to blame for."""
    BACKOFF_BROKEN = ("GRAFT in backoff", "GRAFTs in backoff")
    """A GRAFT before the time that was named, again and again."""
    OVER_LIMIT = ("RPC over a limit", "RPCs over a limit")
    """More than a bound of parts, bytes or streams allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductLimits:
    malformed: float = 40.0
    """Demerits of one."""
    forged: float = 20.0
    rejected: float = 4.0
    backoff_broken: float = 10.0
    over_limit: float = 5.0
    slow_at: float = 100.0
    """So many demerits slow a peer."""
    pause_s: float = 1.0
    """So long a slowed peer is not read from after an offence."""
    out_at: float = 200.0
    """So many demerits put it out."""
    out_s: float = 600.0
    half_life_s: float = 60.0
    address_factor: float = 8.0
    backoff_grace_s: float = 10.0
    """GRAFTs in backoff are forgiven for so long after the first one on a connection."""
    remembered: int = 4096
    """Peers with demerits or kept out, and as many addresses; then those with the fewest are forgotten."""

    def demerits(self, offence: Offence) -> float:
        match offence:
            case Offence.MALFORMED:
                return self.malformed
            case Offence.FORGED:
                return self.forged
            case Offence.REJECTED:
                return self.rejected
            case Offence.BACKOFF_BROKEN:
                return self.backoff_broken
            case Offence.OVER_LIMIT:
                return self.over_limit


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A peer, or everybody at an address if `peer` is None, for `for_s` seconds from now."""

    peer: PeerId | None
    address: str
    for_s: float
    why: str

    def __str__(self) -> str:
        who = f"everybody at {self.address}" if self.peer is None else to_text(self.peer)
        return f"{who} is kept out for {self.how_long}: {self.why}"

    @property
    def how_long(self) -> str:
        return f"{self.for_s / 60:.0f} min" if self.for_s >= 90 else f"{self.for_s:.0f} s"


class Conduct:
    """`now_s` is any clock that goes forward; `put_out` hears of who is kept out from now on, to let go of them.

    Addresses are those of `hearsay.libp2p.limits.resources.address_group`; "" is one that is not known, and answers
    for nobody.
    """

    def __init__(
        self, now_s: Callable[[], float], put_out: Callable[[KeptOut], None], limits: ConductLimits | None = None
    ) -> None:
        self._now_s = now_s
        self._put_out = put_out
        self._limits = limits = limits or ConductLimits()
        fixed = limits.out_s, limits.half_life_s, limits.remembered
        self._peers: Demerits[PeerId] = Demerits(limits.out_at, *fixed)
        self._addresses: Demerits[str] = Demerits(limits.out_at * limits.address_factor, *fixed)

    def note(self, peer: PeerId, address: str, offence: Offence, count: int = 1) -> None:
        """A peer at an address did something, `count` times."""
        now_s, limits = self._now_s(), self._limits
        if self.kept_out(peer, address) is not None:
            return
        what, demerits = offence.name, limits.demerits(offence) * count
        at_most = limits.out_at - self._peers.of(peer, now_s)
        if self._peers.add(peer, demerits, what, count, now_s):
            self._put_out(KeptOut(peer, address, limits.out_s, _why(self._peers.counts(peer))))
        if address and self._addresses.add(address, min(demerits, at_most), what, count, now_s):
            self._put_out(KeptOut(None, address, limits.out_s, _why(self._addresses.counts(address))))

    def slowed(self, peer: PeerId, address: str) -> bool:
        """Whether the peer, or the address it is at, should be read from less."""
        now_s, slow_at = self._now_s(), self._limits.slow_at
        return (
            self._peers.of(peer, now_s) >= slow_at
            or self._addresses.of(address, now_s) >= slow_at * self._limits.address_factor
        )

    def kept_out(self, peer: PeerId | None, address: str) -> KeptOut | None:
        """Why and how much longer a peer, or everybody at its address, is not let in."""
        now_s = self._now_s()
        if peer is not None and (left_s := self._peers.out_s(peer, now_s)):
            return KeptOut(peer, address, left_s, _why(self._peers.counts(peer)))
        if left_s := self._addresses.out_s(address, now_s):
            return KeptOut(None, address, left_s, _why(self._addresses.counts(address)))
        return None


def _why(counts: dict[str, int]) -> str:
    """The offences in words, the most frequent first."""
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {Offence[name].value[count != 1]}" for name, count in ranked)
