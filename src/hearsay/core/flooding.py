"""The two routers without a mesh: floodsub and randomsub.

Floodsub (r1, "flooding"; tech report 3.1) forwards a new message once to every peer in the topic. Randomsub forwards
a new message to a few random peers of the topic. Neither router has control messages or upkeep.

* FLOOD-1: A message goes to every peer in the topic, except the peer from which the message came and the author of
  the message.
* RANDOM-1: A message goes to at most D randomsub peers of the topic, which are drawn for each message (r1; tech
  report 3.2.1). It also goes to all peers that only flood (FLOOD-2).
* RANDOM-2: With `network_size`, as in the Go router, max(6, ceil(sqrt(network_size))) replaces D."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from hearsay.core.language.actions import Via
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import FLOODSUB, RANDOMSUB, Message
from hearsay.core.rules.randomness import Purpose, key_of, sample
from hearsay.core.shell.parameters import RouterParameters, integer
from hearsay.core.shell.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubParameters(RouterParameters):
    """Parameters of floodsub: those of every router."""


class Floodsub(Strategy):
    protocols = (FLOODSUB,)
    native_protocols = ()

    def __init__(self, parameters: FloodsubParameters | None = None) -> None:
        super().__init__(parameters or FloodsubParameters())


SQUARE_ROOT_FLOOR = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomsubParameters(RouterParameters):
    """Parameters of randomsub."""

    degree: int = integer(6, low=0)
    """D, the maximum number of random peers that get a message."""
    network_size: int = integer(0, low=0)
    """Number of nodes from which the square-root rule computes D; 0: D is `degree`."""

    @property
    def reach(self) -> int:
        """Return the maximum number of randomsub peers to which a node forwards a message."""
        if not self.network_size:
            return self.degree
        return max(SQUARE_ROOT_FLOOR, 1 + isqrt(self.network_size - 1))


class Randomsub(Strategy):
    protocols = (RANDOMSUB, FLOODSUB)
    native_protocols = (RANDOMSUB,)
    parameters: RandomsubParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: RandomsubParameters | None = None) -> None:
        super().__init__(parameters or RandomsubParameters())

    def forward(self, message: Message, received_from: PeerId | None) -> None:
        shell = self.shell
        excluded = (received_from, message.source)
        candidates = [peer for peer in shell.peers.in_topic(message.topic).native if peer not in excluded]
        state = shell.draw(Purpose.RANDOMSUB, message.topic, key_of(message.id))
        chosen = sample(state, candidates, self.parameters.reach)
        shell.outbox.forward(chosen, message, Via.RANDOM, received_from)
        self.flood(message, received_from)
