"""The extensions control of gossipsub v1.3: routers announce which extensions they support. In code, the extensions
of a router are its `Features`.

* EXT-1: A router that speaks 1.3 announces its extensions once to each peer that speaks 1.3, in the first RPC, even
  if this RPC has nothing else. Peers of older versions get no announcement. A router without extensions sends none.
* EXT-2: A peer's extensions control has an effect only in the first RPC of a stream ("MUST be in the first message on
  the stream"). In a later RPC it is ignored, and adds `LATE_PENALTY` to the peer's misbehaviour (go, jvm; rust: no
  penalty). When the peer replaces its stream, its extensions are forgotten, and its next RPC is the first one (go).
* EXT-3: An extension is on if both sides have announced it. Unknown extensions are skipped.
* EXT-4: If the RPC with the announcement was not sent, the next RPC has the announcement.
* EXT-5: A router that supports the test extension sends a test message, in an RPC of its own, to each peer that
  announces this extension. It reports the test messages that it receives from such peers (go).
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.actions import ExtensionTestReceived, Reason
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import Features, PartKind, Rpc, knows_extensions
from hearsay.core.mesh.parameters import GossipsubParameters, LateExtensions
from hearsay.core.mesh.standing import Standing
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import Shell

LATE_PENALTY = 10.0

_NOTHING = Features()


class FeatureBook:
    """The extensions of this router, and the extensions that its peers have announced."""

    def __init__(self, parameters: GossipsubParameters, shell: Shell, standing: Standing) -> None:
        self._own = Features(parameters.partial_messages, parameters.test_extension)
        self._penalises = parameters.late_extensions is LateExtensions.PENALISE
        self._shell = shell
        self._standing = standing
        self._of: dict[PeerId, Features] = {}
        """The features of each connected peer that has sent an RPC on its present stream."""
        self._unsent: set[PeerId] = set()
        """Peers to which the features of this router could not be sent."""

    def exchanges_parts(self, peer: PeerId) -> bool:
        """Return whether this router and a peer have both announced partial messages (EXT-3)."""
        return self._own.partial_messages and self._of.get(peer, _NOTHING).partial_messages

    def features_of(self, peer: PeerId) -> Features | None:
        return self._of.get(peer)

    def stream_opened(self, peer: PeerId) -> None:
        self._of.pop(peer, None)

    def restore(self, peer: PeerId, features: Features) -> None:
        self._of[peer] = features
        if self._own.test_extension and features.test_extension:
            self._shell.outbox.test(peer)

    def test_received(self, peer: PeerId) -> None:
        if self._own.test_extension and self._of.get(peer, _NOTHING).test_extension:
            self._shell.actions.append(ExtensionTestReceived(peer))
        else:
            self._shell.drop(peer, PartKind.EXTENSION, 1, Reason.UNSUPPORTED)

    def greet(self, peer: ConnectedPeer) -> None:
        if self._own != _NOTHING and knows_extensions(peer.protocol):
            self._shell.outbox.features(peer.id, self._own)

    def not_sent(self, peer: PeerId, rpc: Rpc) -> None:
        if rpc.control is not None and rpc.control.features:
            self._unsent.add(peer)

    def repeat_unsent(self, peers: Iterable[PeerId]) -> None:
        """Add the features of this router to the RPCs that these peers get now, for each peer to which the features
        could not be sent before."""
        for peer in peers:
            if peer in self._unsent:
                self._unsent.discard(peer)
                self._shell.outbox.features(peer, self._own)

    def receive(self, sender: ConnectedPeer, announced: tuple[Features, ...]) -> None:
        knows = knows_extensions(sender.protocol)
        is_first = sender.id not in self._of
        if is_first:
            self.restore(sender.id, announced[0] if announced and knows else _NOTHING)
        if announced and not knows:
            self._shell.drop(sender.id, PartKind.FEATURES, len(announced), Reason.UNSUPPORTED)
        elif announced and not is_first:
            self._shell.drop(sender.id, PartKind.FEATURES, len(announced), Reason.NOT_FIRST)
            if self._penalises:
                self._standing.penalise(sender.id, LATE_PENALTY)

    def remembers(self, peer: PeerId) -> bool:
        return peer in self._of or peer in self._unsent

    def remove_peer(self, peer: PeerId) -> None:
        self._of.pop(peer, None)
        self._unsent.discard(peer)
