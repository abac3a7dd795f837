"""The events that `PeerInput` returns for received RPCs on their way to the router (`hearsay.node.receive`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hearsay.core.language.actions import PartDropped
from hearsay.core.language.events import MessageRefused, StreamOpened
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, Portion, Rpc
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.conduct import Offence


@dataclass(slots=True)
class RpcDecoded:
    """An RPC as the peer sent it, for metrics and the trace."""

    peer: PeerId
    rpc: Rpc


@dataclass(slots=True)
class RpcAdmitted:
    """An RPC, or a portion of one, for the router. If `portion` is None, the router handles the whole RPC.

    The router must handle the RPC at the time `now_us`. A message that had been seen by then was not checked. At a
    later time, the router may have forgotten this message, and would accept it unchecked.
    """

    peer: PeerId
    rpc: Rpc
    portion: Portion | None
    now_us: Micros


@dataclass(slots=True)
class Misconduct:
    """A number of offences of one kind. After `MALFORMED`, the rest of the peer's stream cannot be read."""

    peer: PeerId
    offence: Offence
    count: int


@dataclass(slots=True)
class AddressReceived:
    """A signed peer record that `sender` sent. If `named` is not None, it must be the record of the peer `named`."""

    record: bytes
    sender: PeerId
    named: PeerId | None


@dataclass(slots=True)
class PauseNeeded:
    """A request to pause reading from the peer for `for_s` seconds."""

    for_s: float
    over_allowance: bool
    """True if the peer has exceeded its allowance, False if there is no room for its RPC to wait."""


@dataclass(slots=True)
class CheckNeeded:
    """A request to check the signatures of messages on a thread, and to pass the verdicts to `PeerInput.checked`."""

    messages: list[Message]


DriverEvent: TypeAlias = (
    RpcDecoded | RpcAdmitted | Misconduct | AddressReceived | MessageRefused | PartDropped | StreamOpened
)
"""The events that the driver handles. `Intake` handles `PauseNeeded` and `CheckNeeded`."""

InputEvent: TypeAlias = DriverEvent | PauseNeeded | CheckNeeded
