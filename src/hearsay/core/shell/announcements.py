"""What peers are told of the topics one is in: hello, changes, and again what did not leave (SHELL-1, SHELL-5)."""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import PartialUse, Subscription
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.shell import Shell
from hearsay.core.shell.strategy import Strategy


class Announcements:
    __slots__ = ("_shell", "_strategy", "_unsaid", "due")

    def __init__(self, shell: Shell, strategy: Strategy) -> None:
        self._shell = shell
        self._strategy = strategy
        self._unsaid: dict[PeerId, set[TopicId]] = {}
        """Topics whose SUBSCRIBE or UNSUBSCRIBE did not leave for a peer."""
        self.due: Micros | None = None
        """When these are said again without a heartbeat."""

    def greet(self, peer: ConnectedPeer) -> None:
        """Hello: the topics that one is in."""
        if self._strategy.parameters.hello:
            for topic in sorted(self._shell.joined):
                self._say(peer, topic, True)

    def tell(self, topic: TopicId, subscribe: bool) -> None:
        """Tell all peers of a topic that one enters or leaves."""
        if self._strategy.parameters.hello:
            connected = self._shell.connected
            for peer in sorted(connected):
                self._say(connected[peer], topic, subscribe)

    def did_not_leave(self, peer: PeerId, changes: Iterable[Subscription]) -> None:
        self._unsaid.setdefault(peer, set()).update(change.topic for change in changes)
        if self.due is None and not self._strategy.has_heartbeat:
            self.due = self._shell.now + self._strategy.parameters.announce_again_ms * 1000

    def timer_fired(self) -> None:
        if self._unsaid:
            self.say_again(sorted(self._unsaid))
        if self.due is not None and self._shell.now >= self.due:
            self.due = None

    def say_again(self, peers: Iterable[PeerId]) -> None:
        """Tell these peers where one stands now in the topics that they were not told about."""
        joined = self._shell.joined
        for peer in peers:
            for topic in sorted(self._unsaid.pop(peer, ())):
                self._say(self._shell.connected[peer], topic, topic in joined)

    def forget(self, peer: PeerId) -> None:
        self._unsaid.pop(peer, None)

    def _say(self, peer: ConnectedPeer, topic: TopicId, subscribe: bool) -> None:
        use = self._strategy.partial_use(peer, topic) if subscribe else PartialUse.NONE
        self._shell.outbox.subscription(peer.id, topic, subscribe, use)
