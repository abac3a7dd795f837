"""What an application that uses partial messages (v1.3) is asked by its router: `PartialApplication`.

A message is named by its *group* before it is known. What its parts are, and how a peer says which it has and wants
(*metadata*), is the application's alone; the router says whom to tell, and keeps per topic, group and peer what the
application needs to decide, as long as it may be needed.

An application is plain and deterministic: the same question gets the same answer, and nothing else happens.
What peers sent is handed to it in `DeliverPartial`; when that changes what others should hear it says
`PublishPartial`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hearsay.core.language.identifiers import PeerId, TopicId


@dataclass(frozen=True, slots=True)
class PartialPeer:
    """A peer that is asked about, and what is remembered of it for one group."""

    peer: PeerId
    requests: bool
    """It wants parts; else it is told metadata alone, and gets whole messages."""
    gossip: bool
    """It is not among those to whom messages of the topic go; it is told what there is, and may ask."""
    heard: bytes | None = None
    """The last metadata it sent; None if it has said nothing."""
    told: bytes | None = None
    """The last metadata it was sent."""
    note: object = None
    """What the application wanted to remember of it the last time."""


class PartsFor(NamedTuple):
    """What a peer is sent; with neither parts nor metadata it is sent nothing."""

    parts: bytes | None = None
    """Not sent to a peer that does not request them."""
    metadata: bytes | None = None
    """None if nothing changed since the peer was `told`."""
    note: object = None
    """Given back with the next question about this peer and group."""


class PartialApplication(Protocol):
    def parts_for(self, topic: TopicId, group: bytes, peer: PartialPeer) -> PartsFor:
        """What one peer is sent of a group now."""
        ...
