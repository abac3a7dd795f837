"""A router outside the package: gossipsub that also sends the number of its cached messages to its peers.

The simulator loads it by its import path:

    PYTHONPATH=examples hearsay simulate --preset r1 --router echo_router:ECHO

The router has its own control part, an `Extension`. This is a field of the control message, which peers skip if they
do not know it. A node that receives a number much larger than its own grafts the sender.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hearsay.routers import (
    FIRST_EXTENSION_FIELD,
    ROUTERS,
    ConnectedPeer,
    Extension,
    Gossipsub,
    GossipsubParameters,
    PartKind,
    PeerId,
    Reason,
    RouterKind,
    integer,
)

HOLDINGS = FIRST_EXTENSION_FIELD + 1000
"""Number of the field, whose value is the number of messages in the sender's cache: 4 bytes, big-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoParameters(GossipsubParameters):
    """Parameters of gossipsub, and `ahead`: a peer is grafted if it has at least this number of messages more."""

    ahead: int = integer(3, low=1)


class Echo(Gossipsub):
    def __init__(self, parameters: EchoParameters | None = None) -> None:
        parameters = parameters or EchoParameters()
        super().__init__(parameters)
        self.ahead = parameters.ahead
        self.holdings: dict[PeerId, int] = {}

    def timer_fired(self) -> None:
        super().timer_fired()
        held = Extension(HOLDINGS, len(self.cache).to_bytes(4, "big"))
        for topic in sorted(self.mesh.topics):
            for peer in self.shell.peers.in_topic(topic).native:
                if peer not in self.mesh.topics[topic]:
                    self.shell.outbox.extension(peer, held)

    def on_extension(self, sender: ConnectedPeer, extension: Extension) -> None:
        if extension.field != HOLDINGS or len(extension.payload) != 4:
            self.shell.drop(sender.id, PartKind.EXTENSION, 1, Reason.UNSUPPORTED)
            return
        self.holdings[sender.id] = int.from_bytes(extension.payload, "big")
        if self.holdings[sender.id] >= len(self.cache) + self.ahead:
            for topic in sorted(sender.topics & self.mesh.topics.keys()):
                self.mesh.graft(topic, sender.id)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        super().peer_removed(peer)
        self.holdings.pop(peer.id, None)


PRESETS: Mapping[str, Mapping[str, object]] = ROUTERS["gossipsub"].presets
ECHO = RouterKind("echo", EchoParameters, Echo, PRESETS)
