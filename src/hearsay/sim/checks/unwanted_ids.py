"""The messages that peers of a node do not want (IDONTWANT), as recorded by the checker.

A message may be sent if its id was beyond a limit or is forgotten. A router that remembers the maximum number of ids
may send all messages.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hearsay.core.language.events import RpcReceived
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten
from hearsay.core.shell.parameters import RouterParameters


class UnwantedIds:
    """The ids that peers of one node do not want."""

    def __init__(self, parameters: RouterParameters) -> None:
        self._parameters: GossipsubParameters | None = None
        """None if the router ignores IDONTWANT."""
        if isinstance(parameters, GossipsubParameters) and parameters.heeds_idontwant:
            self._parameters = parameters if parameters.idontwant_threshold_bytes else None
        self._received: dict[tuple[Any, Any], int] = {}
        """The number of the last heartbeat before each IDONTWANT, by peer and message."""
        self._rpcs: Counter[Any] = Counter()
        self._accepted: Counter[Any] = Counter()

    def add(self, event: RpcReceived, beat: int) -> None:
        """Record the IDONTWANTs of an RPC, up to the limits."""
        control = event.rpc.control
        parameters = self._parameters
        if parameters is None or control is None or not control.idontwant:
            return
        ids = [message_id for part in control.idontwant for message_id in part.ids]
        before = self._rpcs[event.peer]
        self._rpcs[event.peer] += bool(ids)
        accepted = accepted_ids(
            before,
            parameters.max_idontwants,
            len(ids),
            parameters.max_ids_per_idontwant,
            self._accepted[event.peer],
            parameters.max_idontwant_ids,
        )
        self._accepted[event.peer] += accepted
        self._received |= {(event.peer, message_id): beat for message_id in ids[:accepted]}

    def forbids(self, peer: Any, message_id: Any, beat: int) -> bool:
        """Return whether a copy must not be sent to a peer."""
        received_beat = self._received.get((peer, message_id))
        if received_beat is None or self._parameters is None or len(self._received) > self._parameters.max_unwanted:
            return False
        return not is_forgotten(received_beat, beat, self._parameters.idontwant_ttl_heartbeats)

    def remove_peer(self, peer: Any) -> None:
        for key in [key for key in self._received if key[0] == peer]:
            del self._received[key]
        del self._rpcs[peer], self._accepted[peer]

    def heartbeat(self, beat: int) -> None:
        self._rpcs.clear()
        self._accepted.clear()
        ttl = 0 if self._parameters is None else self._parameters.idontwant_ttl_heartbeats
        for key in [key for key, received_beat in self._received.items() if is_forgotten(received_beat, beat, ttl)]:
            del self._received[key]
