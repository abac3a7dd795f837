"""What the peers of a node do not want, as the checker has heard it; a book of the checker.

What is over a cap, or was forgotten, may be sent; and nothing is said of a router whose memory for it is full.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hearsay.core.language.events import RpcReceived
from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.rules.idontwant import ids_heard, is_forgotten, left_of
from hearsay.core.shell.parameters import RouterParameters


class UnwantedBook:
    def __init__(self, parameters: RouterParameters) -> None:
        self._parameters: GossipsubParameters | None = None
        """None if the router does not know IDONTWANT, or does not care."""
        if isinstance(parameters, GossipsubParameters) and parameters.heeds_idontwant:
            self._parameters = parameters if parameters.idontwant_threshold_bytes else None
        self._said: dict[tuple[Any, Any], int] = {}
        """By peer and message the heartbeat before which it was said."""
        self._rpcs: Counter[Any] = Counter()
        self._heard: Counter[Any] = Counter()

    def hear(self, event: RpcReceived, beat: int) -> None:
        control = event.rpc.control
        parameters = self._parameters
        if parameters is None or control is None or not control.idontwant:
            return
        ids = [message_id for part in control.idontwant for message_id in part.ids]
        before = self._rpcs[event.peer]
        self._rpcs[event.peer] += bool(ids)
        left = left_of(self._heard[event.peer], parameters.max_idontwant_ids)
        heard = ids_heard(before, parameters.max_idontwants, len(ids), parameters.max_ids_per_idontwant, left)
        self._heard[event.peer] += heard
        self._said |= {(event.peer, message_id): beat for message_id in ids[:heard]}

    def forbids(self, peer: Any, message_id: Any, beat: int) -> bool:
        """Whether a copy may not go to a peer now."""
        said = self._said.get((peer, message_id))
        if said is None or self._parameters is None or len(self._said) > self._parameters.max_unwanted:
            return False
        return not is_forgotten(said, beat, self._parameters.idontwant_ttl_heartbeats)

    def remove_peer(self, peer: Any) -> None:
        for key in [key for key in self._said if key[0] == peer]:
            del self._said[key]
        del self._rpcs[peer], self._heard[peer]

    def heartbeat(self, beat: int) -> None:
        self._rpcs.clear()
        self._heard.clear()
        ttl = 0 if self._parameters is None else self._parameters.idontwant_ttl_heartbeats
        for key in [key for key, said in self._said.items() if is_forgotten(said, beat, ttl)]:
            del self._said[key]
