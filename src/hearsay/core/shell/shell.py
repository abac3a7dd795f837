"""What a strategy sees of the shell around it: `Shell`.

A strategy reads peers, topics and the time, sends by putting parts into the outbox, reports by appending actions, and
sets `due` when it wants a timer. `Router` is the shell; a strategy knows only this much of it, so that neither file
needs the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hearsay.core.language.actions import Action, Reason
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Message, PartKind
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.peers import ConnectedPeer, PeerBook
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.core.shell.seen import SeenCache


class Shell(Protocol):
    node: PeerId
    key: int
    """The node's, for draws."""
    randomness: Randomness
    now: Micros
    peers: PeerBook
    connected: dict[PeerId, ConnectedPeer]
    joined: set[TopicId]
    pending: dict[MessageId, tuple[Message, PeerId]]
    """Messages that the application is asked about, with their senders."""
    outbox: Outbox
    actions: list[Action]
    seen: SeenCache
    known: set[MessageId]

    @property
    def due(self) -> Micros | None:
        """When the next timer is wanted."""
        ...

    @due.setter
    def due(self, time: Micros | None) -> None: ...

    def allows(self, topic: TopicId) -> bool:
        """Whether a topic may be joined and published in."""
        ...

    def draw(self, purpose: Purpose, topic: TopicId, *words: int) -> int:
        """This node's draw for a topic."""
        ...

    def unknown(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those of `ids` that the seen cache does not know."""
        ...

    def drop(self, peer: PeerId, kind: PartKind, count: int, reason: Reason, topic: TopicId | None = None) -> None:
        """Report parts of a received RPC that are not acted on."""
        ...
