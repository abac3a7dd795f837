"""The events of a received RPC on its way to the router (`hearsay.node.receive`)."""

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
    """An RPC, or a portion of one, for the router.

    The router must handle the RPC at the time `now_us`. Later, it may have forgotten a message that was not checked
    because it had been seen.
    """

    peer: PeerId
    rpc: Rpc
    portion: Portion | None
    now_us: Micros


@dataclass(slots=True)
class Misconduct:
    peer: PeerId
    offence: Offence
    count: int


@dataclass(slots=True)
class FrameRefused:
    """The rest of the stream cannot be read, because a frame is too long or not an RPC."""

    peer: PeerId


@dataclass(slots=True)
class AddressReceived:
    """A signed peer record that `sender` sent. If `named` is not None, the record must be that peer's."""

    record: bytes
    sender: PeerId
    named: PeerId | None


@dataclass(slots=True)
class PauseNeeded:
    """A request to pause reading from the peer for `for_s` seconds."""

    for_s: float
    over_allowance: bool
    """True if the peer exceeds its allowance, False if there is no room for its RPC."""


@dataclass(slots=True)
class CheckNeeded:
    """A request to check the signatures of messages on a thread, and to pass the verdicts to `PeerInput.checked`."""

    messages: list[Message]


DriverEvent: TypeAlias = (
    RpcDecoded
    | RpcAdmitted
    | Misconduct
    | FrameRefused
    | AddressReceived
    | MessageRefused
    | PartDropped
    | StreamOpened
)
"""The events that the driver handles; `Intake` handles the others."""

InputEvent: TypeAlias = DriverEvent | PauseNeeded | CheckNeeded
