"""Observers of a node's RPCs: the trace, and the counts and durations for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hearsay.core.language.actions import Deliver, TraceAction
from hearsay.core.language.rpc import Rpc
from hearsay.libp2p.names.peer_id import PeerId

if TYPE_CHECKING:
    from hearsay.node.metrics.measurements import Durations, Traffic
    from hearsay.node.trace_rows import TraceRows


@dataclass(slots=True)
class Observers:
    """The observers of a node. Each is None unless the configuration requests it."""

    trace: TraceRows | None = None
    traffic: Traffic | None = None
    durations: Durations | None = None

    def received(self, peer: PeerId, rpc: Rpc) -> None:
        if self.trace is not None:
            self.trace.received(peer, rpc)
        if self.traffic is not None:
            self.traffic.received(rpc)
        if self.durations is not None:
            self.durations.copies_received(rpc.messages)

    def delivered(self, action: Deliver) -> None:
        if self.trace is not None:
            self.trace.delivered(action)
        if self.traffic is not None:
            self.traffic.delivered(action.message.topic)

    def happened(self, action: TraceAction) -> None:
        if self.trace is not None:
            self.trace.happened(action)
        if self.traffic is not None:
            self.traffic.happened(action)
