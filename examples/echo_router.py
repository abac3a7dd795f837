"""A router written outside the package: gossipsub that also gossips how many messages it has.

It plugs into the simulator by its import path:

    PYTHONPATH=examples hearsay simulate --preset r1 --router echo_router:ECHO

and shows the two doors that an outside router has: a control message of its own (an `Extension`, a field of the
control message that peers which do not know it skip), and gossip metadata that changes what it does: who hears
from a peer that it holds more recent messages asks to be taken into that peer's mesh.
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
"""The field number of our control message: how many messages the sender's cache holds, 4 bytes big-endian."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoParameters(GossipsubParameters):
    """gossipsub's, and how many messages a peer must be ahead before we graft it."""

    ahead: int = integer(3, low=1)


class Echo(Gossipsub):
    def __init__(self, parameters: EchoParameters | None = None) -> None:
        parameters = parameters or EchoParameters()
        super().__init__(parameters)
        self.ahead = parameters.ahead
        self.heard: dict[PeerId, int] = {}

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
        self.heard[sender.id] = int.from_bytes(extension.payload, "big")
        if self.heard[sender.id] >= len(self.cache) + self.ahead:
            for topic in sorted(sender.topics & self.mesh.topics.keys()):
                self.mesh.graft(topic, sender.id)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        super().peer_removed(peer)
        self.heard.pop(peer.id, None)


PRESETS: Mapping[str, Mapping[str, object]] = ROUTERS["gossipsub"].presets
ECHO = RouterKind("echo", EchoParameters, Echo, PRESETS)
