"""What both ends of a connection can do beyond their version: the extensions control of gossipsub v1.3.

* EXT-1: Who speaks 1.3 tells a peer that does what it can do, in its first RPC, also if there is nothing else to say,
  and once. Peers of older versions are not told, nor is anybody if there is nothing to tell.
* EXT-2: A peer's extensions control counts in the first RPC of a stream ("MUST be in the first message on the
  stream"). In a later RPC it is ignored, and costs `LATE_PENALTY` points of misbehaviour (go, jvm; rust: nothing).
  When the peer replaces its stream, its extensions are forgotten and the next RPC is the first one (go).
* EXT-3: What both have said is on. Extensions that are not known here are skipped.
* EXT-4: If a first RPC did not leave, the next one says it.
* EXT-5: If both have the test extension, each sends a test message, an RPC of its own, when the other has said so,
  and reports that one came (go).
"""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import Features, PartKind, Rpc, knows_extensions
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import Shell

LATE_PENALTY = 10.0

_NOTHING = Features()


class FeatureBook:
    """What this router can do, and what its peers have said of themselves."""

    __slots__ = ("_of", "_own", "_shell", "_unsaid")

    def __init__(self, own: Features, shell: Shell) -> None:
        self._own = own
        self._shell = shell
        self._of: dict[PeerId, Features] = {}
        """Of all from whom an RPC has come."""
        self._unsaid: set[PeerId] = set()

    def exchanges_parts(self, peer: PeerId) -> bool:
        """Whether partial messages are on between this router and a peer."""
        return self._own.partial_messages and self._of.get(peer, _NOTHING).partial_messages

    def tests(self, peer: PeerId) -> bool:
        """Whether the test extension is on between this router and a peer."""
        return self._own.test_extension and self._of.get(peer, _NOTHING).test_extension

    def said_by(self, peer: PeerId) -> Features | None:
        """A peer's extensions; None when its stream has brought no RPC yet."""
        return self._of.get(peer)

    def stream_opened(self, peer: PeerId) -> None:
        self._of.pop(peer, None)

    def restore(self, peer: PeerId, said: Features) -> None:
        """Learn what a peer said earlier on a stream that is still open."""
        self._of[peer] = said
        if self.tests(peer):
            self._shell.outbox.test(peer)

    def greet(self, peer: ConnectedPeer) -> None:
        if self._own != _NOTHING and knows_extensions(peer.protocol):
            self._shell.outbox.features(peer.id, self._own)

    def did_not_leave(self, peer: PeerId, rpc: Rpc) -> None:
        if rpc.control is not None and rpc.control.features:
            self._unsaid.add(peer)

    def say_again(self, peers: Iterable[PeerId]) -> None:
        """Add what was not said to the RPCs that go out."""
        for peer in peers:
            if peer in self._unsaid:
                self._unsaid.discard(peer)
                self._shell.outbox.features(peer, self._own)

    def hear(self, sender: ConnectedPeer, said: tuple[Features, ...]) -> bool:
        """What an RPC says, mostly nothing; True if that comes too late."""
        is_first = sender.id not in self._of
        if is_first:
            self.restore(sender.id, said[0] if said and knows_extensions(sender.protocol) else _NOTHING)
        if not said:
            return False
        if not knows_extensions(sender.protocol):
            self._shell.drop(sender.id, PartKind.FEATURES, len(said), Reason.UNSUPPORTED)
        elif not is_first:
            self._shell.drop(sender.id, PartKind.FEATURES, len(said), Reason.NOT_FIRST)
            return True
        return False

    def remembers(self, peer: PeerId) -> bool:
        return peer in self._of or peer in self._unsaid

    def remove_peer(self, peer: PeerId) -> None:
        self._of.pop(peer, None)
        self._unsaid.discard(peer)
