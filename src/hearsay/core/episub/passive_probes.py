"""Passive probes: now and then, is a passive node there, in the topic, and how far away (episub spec, "Passive View
Management")?

* PROBE-1: Some random passive nodes are met (a connection is opened if there is none) and asked for their topics and
  pinged. Who cannot be met, does not answer the ping, or is not in the topic, is removed. If too many dials are under
  way, others are probed the next time.
"""

from __future__ import annotations

from hearsay.core.episub.context import Context
from hearsay.core.language.episub_parts import GetTopics, Topics
from hearsay.core.language.identifiers import PeerId
from hearsay.core.shell.randomness import Purpose


class PassiveProbes:
    __slots__ = ("_connections", "_shell", "_views")

    def __init__(self, context: Context) -> None:
        self._shell = context.shell
        self._views = context.views
        self._connections = context.connections

    def round(self, count: int) -> None:
        views = self._views
        for peer in views.some(Purpose.PROBE, sorted(views.passive), count):
            self._connections.meet(
                peer, views.topic, lambda peer=peer: self._examine(peer), lambda peer=peer: self._gone(peer)
            )

    def on_topics(self, sender: PeerId, part: Topics) -> None:
        if self._views.topic not in part.topics:
            self._views.remove_passive(sender)

    def _examine(self, peer: PeerId) -> None:
        self._shell.outbox.episub(peer, GetTopics())
        self._connections.ping(peer)

    def _gone(self, peer: PeerId) -> None:
        self._views.remove_passive(peer)
