"""Alarms, and connections on demand: the objects that all topics of one router share.

Alarms share the shell's single timer. A task and a topic name an alarm. There is at most one alarm of each name; a
second `set` changes its time. Alarms that are due at the same time ring in the order of tasks, then in the order of
the topics' keys (`key_of`).

The router dials the peers that it needs, and closes unused connections. An errand is something to do with a peer once
the peer is connected and known to be in a topic: a function `ready`. It also has a function `failed`, for a peer that
cannot be met.

Rules (episub spec, "Joining the Overlay", "Passive View Management"):

* DIAL-1: `meet` begins an errand. `ready` is called when the peer is connected and known to be in the topic. `failed`
  is called when the peer does not speak episub, the dial fails, the connection breaks, or the peer is not in the
  topic in time. Each may be called before `meet` returns.
* DIAL-2: At most `max_dials` dials are under way. If one more is needed, `meet` returns False and calls neither
  `ready` nor `failed`, since the peer may be reachable later.
* DIAL-3: A connection is kept as long as it has a use: an errand with its peer, or a caller of `hold` that has not
  called `release`. Without a use it is idle, and is closed after `idle_ms`.
* DIAL-4: If a peer does not answer a ping in time, the memberships of all topics are informed (the spec: their timers
  "also serve as failure detectors").
* DIAL-5: Only connections to peers that speak episub are managed. Connections to peers that speak only floodsub are
  not closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from typing import TypeAlias

from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.language.actions import Dial, Disconnect, Ping
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.randomness import key_of
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import Shell


class Task(IntEnum):
    """The task that an alarm starts. Alarms that are due at the same time ring in this order."""

    EXPIRE = 0
    """End the waits of a topic that have lasted too long."""
    STABILISE = 1
    """Do a round of stabilisation (UPKEEP-1 to UPKEEP-5)."""
    SHUFFLE = 2
    """Send a SHUFFLE (SHUFFLE-1)."""
    PROBE = 3
    """Probe passive peers (PROBE-1)."""
    CONTACTS = 4
    """Ask discovery for contacts (JOIN-2)."""
    MISSING = 5
    """Touch the missing messages of all topics (TREE-3, REPAIR-1)."""
    FLUSH = 6
    """Send the IHAVEs of all topics (TREE-1)."""
    SWEEP = 7
    """Close idle connections, and end the waits for connections and for answers to pings that have lasted too
    long."""


Alarm: TypeAlias = tuple[Task, TopicId | None]
"""The name of an alarm. The topic is None for a task that is about all topics."""


class Agenda:
    """The alarms of one router."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._due: dict[Alarm, Micros] = {}
        self._heap: list[tuple[Micros, int, int, Alarm]] = []

    def set(self, task: Task, topic: TopicId | None, due: Micros) -> None:
        alarm = (task, topic)
        if self._due.get(alarm) == due:
            return
        self._due[alarm] = due
        heappush(self._heap, (due, task, 0 if topic is None else key_of(topic), alarm))
        self._set_timer()

    def set_earliest(self, task: Task, topic: TopicId | None, due: Micros) -> None:
        """Set an alarm, unless it is set for an earlier time or for this time already."""
        current = self._due.get((task, topic))
        if current is None or due < current:
            self.set(task, topic, due)

    def is_set(self, task: Task, topic: TopicId | None) -> bool:
        return (task, topic) in self._due

    def clear_topic(self, topic: TopicId) -> None:
        for task in Task:
            self._due.pop((task, topic), None)
        self._set_timer()

    def ringing(self, now: Micros) -> Iterator[Alarm]:
        """Remove the alarms that are due at `now` or earlier, and yield them in their order."""
        while self._heap and self._heap[0][0] <= now:
            due, _, _, alarm = heappop(self._heap)
            if self._due.get(alarm) == due:
                del self._due[alarm]
                yield alarm
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the shell's timer to the next alarm. First remove the heap's first entries as long as their alarms were
        cleared or have another time now."""
        heap = self._heap
        while heap and self._due.get(heap[0][3]) != heap[0][0]:
            heappop(heap)
        self._shell.due = heap[0][0] if heap else None


@dataclass(frozen=True, slots=True)
class _Errand:
    """An errand that waits until its peer is connected and in the topic (DIAL-1). `due` is the end of the wait."""

    topic: TopicId
    ready: Callable[[], object]
    failed: Callable[[], object]
    due: Micros


class Connections:
    """The connections of one router to peers that speak episub."""

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
        """The values `why` of all calls of `hold` without a `release`, by peer."""
        self._idle: dict[PeerId, Micros] = {}
        """The times at which idle connections will be closed, by peer."""
        self._pinging: dict[PeerId, Micros] = {}
        """The end of the wait for the answer to a ping, by peer."""
        self._disconnecting: PeerId | None = None
        """The peer whose disconnection is being handled; None if there is none. All methods treat this peer as
        disconnected, although the shell still has it."""

    def meet(self, peer: PeerId, topic: TopicId, ready: Callable[[], object], failed: Callable[[], object]) -> bool:
        """Begin an errand with a peer in a topic, and dial the peer if necessary (DIAL-1).

        Return False, without an errand, if too many dials are under way (DIAL-2).
        """
        shell = self._shell
        connected = shell.connected.get(peer) if peer != self._disconnecting else None
        if peer == shell.node or (connected is not None and not connected.native):
            failed()
            return True
        if connected is not None and topic in connected.topics:
            self._idle.pop(peer, None)
            ready()
            self._update_idle(peer)
            return True
        if connected is None and peer not in self._dialling:
            if len(self._dialling) >= self._parameters.max_dials:
                return False
            self._dialling.add(peer)
            shell.actions.append(Dial(peer))
        self._errands.setdefault(peer, []).append(_Errand(topic, ready, failed, self._reply_due()))
        return True

    def ping(self, peer: PeerId) -> None:
        """Ping a peer to measure its RTT, unless it is not connected or a ping to it is unanswered."""
        if peer in self._shell.connected and peer not in self._pinging and peer != self._disconnecting:
            self._pinging[peer] = self._reply_due()
            self._shell.actions.append(Ping(peer))

    def measured(self, peer: PeerId) -> None:
        """Note that a peer has answered a ping."""
        self._pinging.pop(peer, None)

    def hold(self, peer: PeerId, why: object) -> None:
        """Keep the connection to a peer until `release` is called with the same `why`."""
        self._held.setdefault(peer, set()).add(why)
        self._idle.pop(peer, None)

    def release(self, peer: PeerId, why: object) -> None:
        """End one use of a connection. Does nothing for a use that has ended before."""
        reasons = self._held.get(peer)
        if reasons is not None:
            reasons.discard(why)
            if not reasons:
                del self._held[peer]
        self._update_idle(peer)

    def connected(self, peer: ConnectedPeer) -> None:
        self._dialling.discard(peer.id)
        for topic in sorted(peer.topics):
            self.subscribed(peer.id, topic)
        if not peer.native:
            self._fail(peer.id)
        self._update_idle(peer.id)

    def subscribed(self, peer: PeerId, topic: TopicId) -> None:
        """Call `ready` of all errands with a peer that is in their topic now."""
        waiting = self._errands.pop(peer, None)
        if waiting is None:
            return
        later = [errand for errand in waiting if errand.topic != topic]
        if later:
            self._errands[peer] = later
        for errand in waiting:
            if errand.topic == topic:
                errand.ready()
        self._update_idle(peer)

    def dial_failed(self, peer: PeerId) -> None:
        self._dialling.discard(peer)
        if peer not in self._shell.connected:
            self._fail(peer)

    def losing(self, peer: PeerId | None) -> None:
        """Treat a peer as disconnected from now on, although the shell still has it. None ends that: the
        disconnection has been handled."""
        self._disconnecting = peer

    def lost(self, peer: PeerId) -> None:
        """Handle the end of a connection. The caller informs the memberships."""
        self._held.pop(peer, None)
        self._idle.pop(peer, None)
        self._pinging.pop(peer, None)
        self._fail(peer)

    def forget_topic(self, topic: TopicId) -> None:
        """Drop the errands of a topic that this node has left, without a call of `failed`."""
        for peer in list(self._errands):
            self._set_errands(peer, [errand for errand in self._errands[peer] if errand.topic != topic])

    def sweep(self) -> None:
        """Call `failed` of the errands whose wait is over, report peers that did not answer a ping in time, and close
        connections that have been idle for `idle_ms`."""
        now = self._shell.now
        for peer in list(self._errands):
            waiting = self._errands.get(peer, [])
            overdue = [errand for errand in waiting if errand.due <= now]
            if overdue:
                self._set_errands(peer, [errand for errand in waiting if errand.due > now])
                for errand in overdue:
                    errand.failed()
        for peer in sorted(peer for peer, due in self._pinging.items() if due <= now):
            del self._pinging[peer]
            self._on_silence(peer)
        for peer in [peer for peer, due in self._idle.items() if due <= now]:
            del self._idle[peer]
            if peer in self._shell.connected:
                self._shell.actions.append(Disconnect(peer))
        due = [errand.due for errands in self._errands.values() for errand in errands]
        due += [*self._idle.values(), *self._pinging.values()]
        if due:
            self._agenda.set_earliest(Task.SWEEP, None, min(due))

    def mentions(self, peer: PeerId) -> bool:
        """Return whether this object has an idle connection to a peer, or a ping that the peer has not answered."""
        return peer in self._idle or peer in self._pinging

    def _reply_due(self) -> Micros:
        due = self._shell.now + self._parameters.reply_timeout_ms * 1000
        self._agenda.set_earliest(Task.SWEEP, None, due)
        return due

    def _fail(self, peer: PeerId) -> None:
        """End all errands with a peer, and call their `failed`."""
        for errand in self._errands.pop(peer, ()):
            errand.failed()

    def _set_errands(self, peer: PeerId, errands: list[_Errand]) -> None:
        if errands:
            self._errands[peer] = errands
        else:
            del self._errands[peer]
            self._update_idle(peer)

    def _update_idle(self, peer: PeerId) -> None:
        """If the connection to a peer has become idle, note when to close it. If it has a use again, forget that
        time (DIAL-3)."""
        connected = self._shell.connected.get(peer)
        if connected is None or not connected.native or peer == self._disconnecting:
            return
        if peer in self._held or peer in self._errands:
            self._idle.pop(peer, None)
        elif peer not in self._idle:
            self._idle[peer] = due = self._shell.now + self._parameters.idle_ms * 1000
            self._agenda.set_earliest(Task.SWEEP, None, due)
