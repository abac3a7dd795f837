"""Connections of a node's host that came, went and could not be had."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.metrics.openmetrics import Family, Kind


class ConnectionCounts:
    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._dialled = self._accepted = self._closed = 0
        host.on_peer_up.append(self._up)
        host.on_peer_down.append(self._down)

    def families(self) -> Iterator[Family]:
        yield Family("libp2p_peers", Kind.GAUGE, "Connected peers, whatever they speak").add(
            len(self._host.connections)
        )
        opened = Family(
            "libp2p_swarm_connections_opened", Kind.COUNTER, "Peers that became connected, by who dialled"
        )
        yield opened.add(self._dialled, (("dir", "outbound"),)).add(self._accepted, (("dir", "inbound"),))
        yield Family("libp2p_swarm_connections_closed", Kind.COUNTER, "Peers that were connected and are gone").add(
            self._closed
        )
        yield Family("libp2p_swarm_dial_errors", Kind.COUNTER, "Dials that reached nobody, or somebody else").add(
            self._host.failed_dials
        )

    def _up(self, peer: PeerId) -> None:
        if self._host.has_dialled(peer):
            self._dialled += 1
        else:
            self._accepted += 1

    def _down(self, peer: PeerId) -> None:
        self._closed += 1
