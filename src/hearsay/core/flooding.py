"""The two routers without a mesh: floodsub and randomsub.

Floodsub (r1, "flooding"; tech report 3.1) forwards a new message once to every peer in the topic. Randomsub forwards
it to a few random peers of the topic. Neither has control messages or upkeep.

* FLOOD-1: A message goes to every peer in the topic, except the peer it came from and its author.
* RANDOM-1: A message goes to at most D peers, drawn again for every message (r1; tech report 3.2.1).
* RANDOM-2: With `network_size`, as in the Go router, a message goes to max(6, ceil(sqrt(size))) of the randomsub
  peers, and to all of them when there are no more than 6."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from hearsay.core.language.actions import Via
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import FLOODSUB, RANDOMSUB, Message
from hearsay.core.shell.parameters import RouterParameters, integer
from hearsay.core.shell.randomness import Purpose, key_of, sample
from hearsay.core.shell.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubParameters(RouterParameters):
    """Parameters of floodsub, which has none of its own."""


class Floodsub(Strategy):
    protocols = (FLOODSUB,)
    native_protocols = ()

    def __init__(self, parameters: FloodsubParameters | None = None) -> None:
        super().__init__(parameters or FloodsubParameters())

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self.flood(message, received_from)

    def publish(self, message: Message) -> None:
        self.flood(message, None)


SQUARE_ROOT_FLOOR = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomsubParameters(RouterParameters):
    """Parameters of randomsub."""

    degree: int = integer(6, low=0)
    """D, the number of random peers that get a message."""
    network_size: int = integer(0, low=0)
    """Size of the network for the square-root rule, which then replaces `degree`; 0 is off."""

    @property
    def reach(self) -> int:
        """Return the number of randomsub peers that get a message."""
        if not self.network_size:
            return self.degree
        return max(SQUARE_ROOT_FLOOR, 1 + isqrt(self.network_size - 1))


class Randomsub(Strategy):
    protocols = (RANDOMSUB, FLOODSUB)
    native_protocols = (RANDOMSUB,)
    parameters: RandomsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: RandomsubParameters | None = None) -> None:
        super().__init__(parameters or RandomsubParameters())

    def accepted(self, message: Message, received_from: PeerId) -> None:
        self._spread(message, received_from)

    def publish(self, message: Message) -> None:
        self._spread(message, None)

    def _spread(self, message: Message, received_from: PeerId | None) -> None:
        shell = self.shell
        excluded = (received_from, message.source)
        candidates = [peer for peer in shell.peers.in_topic(message.topic).native if peer not in excluded]
        state = shell.draw(Purpose.RANDOMSUB, message.topic, key_of(message.id))
        chosen = sample(state, candidates, self.parameters.reach)
        shell.outbox.forward(chosen, message, Via.RANDOM, received_from)
        self.flood(message, received_from)
