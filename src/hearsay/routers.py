"""What a router from outside needs: `Strategy`, parameters, events and actions, RPCs, and the routers to build on.

`docs/guide/extending.md` says how they go together. Needs the standard library alone.
"""

from __future__ import annotations

from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.episub.router import Episub
from hearsay.core.flooding.floodsub import Floodsub, FloodsubParameters
from hearsay.core.flooding.randomsub import Randomsub, RandomsubParameters
from hearsay.core.language.actions import (
    Action,
    Deliver,
    Dial,
    Disconnect,
    FindContacts,
    Ping,
    Reason,
    Send,
    TraceAction,
    Validate,
    Via,
    Withdraw,
)
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    DirectPeerChosen,
    Event,
    Join,
    Leave,
    MessageRefused,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    RoundTripMeasured,
    RpcReceived,
    SendFailed,
    TimerFired,
    TopicScored,
    Verdict,
)
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import (
    FIRST_EXTENSION_FIELD,
    FLOODSUB,
    LAST_EXTENSION_FIELD,
    MESHSUB,
    MESHSUB_11,
    MESHSUB_12,
    Control,
    Extension,
    Graft,
    IHave,
    IWant,
    Message,
    PartKind,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.language.state_table import Peering
from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.meshsub import Meshsub, MeshsubParameters
from hearsay.core.registry import ROUTERS, RouterKind, UnknownRouter, create, find_router
from hearsay.core.shell.contract import UsageError
from hearsay.core.shell.parameters import ParameterError, RouterParameters, Violation, choice, integer, milliseconds
from hearsay.core.shell.peers import ConnectedPeer, TopicPeers
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Strategy

__all__ = [
    "FIRST_EXTENSION_FIELD",
    "FLOODSUB",
    "LAST_EXTENSION_FIELD",
    "MESHSUB",
    "MESHSUB_11",
    "MESHSUB_12",
    "ROUTERS",
    "Action",
    "ConnectedPeer",
    "ContactsFound",
    "Control",
    "Deliver",
    "Dial",
    "DialFailed",
    "DirectPeerChosen",
    "Disconnect",
    "Episub",
    "EpisubParameters",
    "Event",
    "Extension",
    "FindContacts",
    "Floodsub",
    "FloodsubParameters",
    "Gossipsub",
    "GossipsubParameters",
    "Graft",
    "IHave",
    "IWant",
    "Join",
    "Leave",
    "Meshsub",
    "MeshsubParameters",
    "Message",
    "MessageId",
    "MessageRefused",
    "MessageValidated",
    "Micros",
    "ParameterError",
    "PartKind",
    "PeerConnected",
    "PeerDisconnected",
    "PeerId",
    "PeerRated",
    "Peering",
    "Ping",
    "Prune",
    "Publish",
    "Purpose",
    "Randomness",
    "Randomsub",
    "RandomsubParameters",
    "Reason",
    "RoundTripMeasured",
    "Router",
    "RouterKind",
    "RouterParameters",
    "Rpc",
    "RpcReceived",
    "Send",
    "SendFailed",
    "Strategy",
    "Subscription",
    "TimerFired",
    "TopicId",
    "TopicPeers",
    "TopicScored",
    "TraceAction",
    "UnknownRouter",
    "UsageError",
    "Validate",
    "Verdict",
    "Via",
    "Violation",
    "Withdraw",
    "choice",
    "create",
    "find_router",
    "integer",
    "milliseconds",
]
