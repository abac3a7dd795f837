"""Peers that wait for room at the validators.

A message that finds no room stays with its RPC, and its peer is not read from: nothing is marked as seen that no
validator looks at, and only the peer that sends too much waits. The peer that has waited longest goes on first.
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.rpc import Message
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.incoming.intake import Intake
from hearsay.node.incoming.validation import Validation


class Admission:
    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._waiting: dict[PeerId, Intake] = {}
        self._idle: dict[PeerId, None] = {}
        """Those of them for whom no verdict of their own will make room: other peers take it all."""

    def has_room(self, intake: Intake, message: Message) -> bool:
        """Whether a message can wait for its verdict; if not, its peer waits."""
        peer = intake.peer
        if self._validation.has_room(peer, message):
            self.forget(peer)
            return True
        self._waiting.setdefault(peer, intake)
        if self._validation.pending(peer):
            self._idle.pop(peer, None)
        else:
            self._idle.setdefault(peer)
        intake.set_paused(True)
        return False

    def verdict_came(self, peers: Iterable[PeerId]) -> None:
        """A message of these peers waits no more: they may go on, and so may others."""
        for peer in peers:
            if peer in self._waiting:
                self._waiting[peer].set_paused(False)
        for peer in list(self._idle):
            if self._validation.full:
                return
            if peer in self._idle:
                self._waiting[peer].set_paused(False)

    def forget(self, peer: PeerId) -> None:
        self._waiting.pop(peer, None)
        self._idle.pop(peer, None)
