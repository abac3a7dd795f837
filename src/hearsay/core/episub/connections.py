"""Connections on demand: peers that the router wants to meet are dialled, and unused connections are closed.

An errand is a request to meet a peer in a topic, with the functions to call afterwards.

Rules (episub spec, "Joining the Overlay", "Passive View Management"):

* DIAL-1: `meet` calls `ready` when the peer is connected and known to be in the topic. It calls `failed` when the
  dial fails, the connection breaks, or the peer is not in the topic in time.
* DIAL-2: At most `max_dials` dials are under way. Beyond that `meet` returns False and calls neither `ready` nor
  `failed`, since the peer may well be reachable.
* DIAL-3: A connection is kept while a caller of `hold` or an errand needs it, and closed `idle_ms` after the last of
  these has ended.
* DIAL-4: A ping without an answer in time is reported to the memberships (the spec: their timers "also serve as
  failure detectors").
* DIAL-5: Only connections to peers that speak episub are managed; connections to peers that speak only floodsub are
  not closed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hearsay.core.episub.agenda import Agenda, Task
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.language.actions import Dial, Disconnect, Ping
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import Shell


@dataclass(frozen=True, slots=True)
class _Errand:
    topic: TopicId
    ready: Callable[[], object]
    failed: Callable[[], object]
    due: Micros


class Connections:
    def __init__(
        self, shell: Shell, parameters: EpisubParameters, agenda: Agenda, on_silence: Callable[[PeerId], None]
    ) -> None:
        self._shell = shell
        self._parameters = parameters
        self._agenda = agenda
        self._on_silence = on_silence
        self._errands: dict[PeerId, list[_Errand]] = {}
        self._dialling: set[PeerId] = set()
        self._held: dict[PeerId, set[object]] = {}
        self._idle: dict[PeerId, Micros] = {}
        self._pinging: dict[PeerId, Micros] = {}
        """The end of the wait for the answer to a ping, by peer."""
        self._going: PeerId | None = None
        """The peer that counts as disconnected while its loss is handled (`losing`)."""

    def meet(self, peer: PeerId, topic: TopicId, ready: Callable[[], object], failed: Callable[[], object]) -> bool:
        """Meet a peer (DIAL-1); return False if too many dials are under way."""
        shell = self._shell
        connected = shell.connected.get(peer) if peer != self._going else None
        if peer == shell.node or (connected is not None and not connected.native):
            failed()
            return True
        if connected is not None and topic in connected.topics:
            self._idle.pop(peer, None)
            ready()
            self._review(peer)
            return True
        if connected is None and peer not in self._dialling:
            if len(self._dialling) >= self._parameters.max_dials:
                return False
            self._dialling.add(peer)
            shell.actions.append(Dial(peer))
        self._errands.setdefault(peer, []).append(_Errand(topic, ready, failed, self._reply_due()))
        return True

    def ping(self, peer: PeerId) -> None:
        """Measure the round-trip time to a connected peer."""
        if peer in self._shell.connected and peer not in self._pinging and peer != self._going:
            self._pinging[peer] = self._reply_due()
            self._shell.actions.append(Ping(peer))

    def measured(self, peer: PeerId) -> None:
        self._pinging.pop(peer, None)

    def hold(self, peer: PeerId, why: object) -> None:
        """Keep a connection until `release` is called with the same `why`."""
        self._held.setdefault(peer, set()).add(why)
        self._idle.pop(peer, None)

    def release(self, peer: PeerId, why: object) -> None:
        reasons = self._held.get(peer)
        if reasons is not None:
            reasons.discard(why)
            if not reasons:
                del self._held[peer]
        self._review(peer)

    def connected(self, peer: ConnectedPeer) -> None:
        self._dialling.discard(peer.id)
        for topic in sorted(peer.topics):
            self.subscribed(peer.id, topic)
        if not peer.native:
            self._fail(peer.id)
        self._review(peer.id)

    def subscribed(self, peer: PeerId, topic: TopicId) -> None:
        """Call `ready` of the errands that waited for a connected peer to be in this topic."""
        waiting = self._errands.pop(peer, None)
        if waiting is None:
            return
        later = [errand for errand in waiting if errand.topic != topic]
        if later:
            self._errands[peer] = later
        for errand in waiting:
            if errand.topic == topic:
                errand.ready()
        self._review(peer)

    def dial_failed(self, peer: PeerId) -> None:
        self._dialling.discard(peer)
        if peer not in self._shell.connected:
            self._fail(peer)

    def losing(self, peer: PeerId | None) -> None:
        """Treat this peer as disconnected until the next call. A caller passes None after it has handled the loss."""
        self._going = peer

    def lost(self, peer: PeerId) -> None:
        """Handle a broken connection. The caller informs the memberships that held it."""
        self._held.pop(peer, None)
        self._idle.pop(peer, None)
        self._pinging.pop(peer, None)
        self._fail(peer)

    def forget_topic(self, topic: TopicId) -> None:
        """Drop the errands of a topic that was left."""
        for peer in list(self._errands):
            self._keep(peer, [errand for errand in self._errands[peer] if errand.topic != topic])

    def sweep(self) -> None:
        """Give up overdue errands, report peers that left a ping unanswered, and close idle connections."""
        now = self._shell.now
        for peer in list(self._errands):
            waiting = self._errands.get(peer, [])
            overdue = [errand for errand in waiting if errand.due <= now]
            if overdue:
                self._keep(peer, [errand for errand in waiting if errand.due > now])
                for errand in overdue:
                    errand.failed()
        for peer in sorted(peer for peer, due in self._pinging.items() if due <= now):
            del self._pinging[peer]
            self._on_silence(peer)
        for peer in [peer for peer, due in self._idle.items() if due <= now]:
            del self._idle[peer]
            if peer in self._shell.connected:
                self._shell.actions.append(Disconnect(peer))
        self._arm()

    def mentions(self, peer: PeerId) -> bool:
        """Return whether a peer has an idle connection, or a ping without an answer."""
        return peer in self._idle or peer in self._pinging

    def _reply_due(self) -> Micros:
        due = self._shell.now + self._parameters.reply_timeout_ms * 1000
        self._agenda.set_earliest(Task.SWEEP, None, due)
        return due

    def _fail(self, peer: PeerId) -> None:
        for errand in self._errands.pop(peer, ()):
            errand.failed()

    def _keep(self, peer: PeerId, errands: list[_Errand]) -> None:
        if errands:
            self._errands[peer] = errands
        else:
            del self._errands[peer]
            self._review(peer)

    def _review(self, peer: PeerId) -> None:
        connected = self._shell.connected.get(peer)
        if connected is None or not connected.native or peer == self._going:
            return
        if peer in self._held or peer in self._errands:
            self._idle.pop(peer, None)
        elif peer not in self._idle:
            self._idle[peer] = due = self._shell.now + self._parameters.idle_ms * 1000
            self._agenda.set_earliest(Task.SWEEP, None, due)

    def _arm(self) -> None:
        due = [errand.due for errands in self._errands.values() for errand in errands]
        due += self._idle.values()
        due += self._pinging.values()
        if due:
            self._agenda.set_earliest(Task.SWEEP, None, min(due))
