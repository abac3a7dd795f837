"""Floodsub: forward a new message once to every peer in the topic (r1, "flooding"; tech report 3.1).

* FLOOD-1: to every peer in the topic, never back to the peer it came from, never to its author.

No control messages, no upkeep, no state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import FLOODSUB, Message
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubParameters(RouterParameters):
    """Floodsub has none of its own."""


class Floodsub(Strategy):
    protocols = (FLOODSUB,)
    native_protocols = ()

    def __init__(self, parameters: FloodsubParameters | None = None) -> None:
        super().__init__(parameters or FloodsubParameters())

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.flood(message, received_from)

    def publish(self, message: Message) -> None:
        self.flood(message, None)
