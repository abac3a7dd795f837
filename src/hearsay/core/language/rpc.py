"""The RPC between peers: subscription changes, messages and control, and the protocol versions.

Names follow the gossipsub specification (r1, "The protocol extends the existing RPC message structure") and the
guide's section "Network packets". `Extension` carries control of routers written outside the package: a
length-delimited field of the control message, which peers that do not know it skip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from itertools import chain
from typing import Any, TypeAlias, get_args

from hearsay.core.language.episub_parts import EpisubPart
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId

FLOODSUB = "/floodsub/1.0.0"
RANDOMSUB = "/randomsub/1.0.0"
MESHSUB = "/meshsub/1.0.0"
MESHSUB_11 = "/meshsub/1.1.0"
MESHSUB_12 = "/meshsub/1.2.0"
MESHSUB_13 = "/meshsub/1.3.0"
EPISUB = "/hearsay/episub/1.0.0"

EXPERIMENTAL_FIELDS = 0x200000
"""Field numbers of experiments are above this one and take four bytes, so that the short ones are left to the
specification (gossipsub v1.3)."""
FIRST_EXTENSION_FIELD = EXPERIMENTAL_FIELDS + 64
LAST_EXTENSION_FIELD = (1 << 29) - 1


class PartKind(IntEnum):
    """The kinds of parts an RPC is made of, and the simulator's CONNECT. Append, never renumber."""

    CONNECT = 0
    PUBLISH = 1
    SUBSCRIBE = 2
    UNSUBSCRIBE = 3
    IHAVE = 4
    IWANT = 5
    GRAFT = 6
    PRUNE = 7
    IDONTWANT = 8
    EXTENSION = 9
    GETNODES = 10
    NODES = 11
    GETTOPICS = 12
    TOPICS = 13
    JOIN = 14
    FORWARDJOIN = 15
    NEIGHBOR = 16
    DISCONNECT = 17
    LEAVE = 18
    SHUFFLE = 19
    SHUFFLEREPLY = 20
    FEATURES = 21
    PARTIAL = 22
    METADATA = 23


@dataclass(frozen=True, slots=True)
class Message:
    """A published message. Its id is computed by the driver; the core never looks into data or signature."""

    id: MessageId
    topic: TopicId
    data: bytes
    source: PeerId | None = None
    seqno: bytes | None = None
    signature: bytes | None = None
    key: bytes | None = None
    encoded: bytes | None = field(default=None, compare=False, repr=False)
    """The message as it came, which is forwarded as it is: a field left out is not the same as an empty one."""
    hops: int | None = None
    """How many links this copy has crossed when it arrives, where the router counts them; never signed."""
    has_more: bool = field(default=False, compare=False, repr=False)
    """It came with fields that are not known here. They are not forwarded; the author may have signed them."""


class PartialUse(StrEnum):
    """Use of partial messages in a topic (v1.3); a request implies support."""

    NONE = "none"
    SUPPORTS = "supports"
    """It sends parts to those who request them."""
    REQUESTS = "requests"
    """It wants parts in place of full messages."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """SUBSCRIBE (`subscribe` true) or UNSUBSCRIBE, which says nothing of partial messages."""

    topic: TopicId
    subscribe: bool
    partial: PartialUse = PartialUse.NONE


@dataclass(frozen=True, slots=True)
class Partial:
    """v1.3, partial messages: parts of the message that a group names, and what its sender has and wants of it.

    Both are the application's to read; None says nothing.
    """

    topic: TopicId
    group: bytes
    parts: bytes | None = None
    metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class ExtensionTest:
    """v1.3, the test extension: says that both know what the other can do."""


@dataclass(frozen=True, slots=True)
class IHave:
    topic: TopicId
    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class IWant:
    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Graft:
    topic: TopicId


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """Peer exchange: a peer of the topic, and its signed addresses if the sender has them."""

    peer: PeerId
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prune:
    """v1.1 adds the time for which the peer is not to GRAFT again, and others it may turn to."""

    topic: TopicId
    backoff_s: int | None = None
    peers: tuple[PeerInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class IDontWant:
    """v1.2: messages that the peer need not send."""

    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """Control or gossip metadata of an outside router: a field number of the control message and its bytes."""

    field: int
    payload: bytes

    def __post_init__(self) -> None:
        if not FIRST_EXTENSION_FIELD <= self.field <= LAST_EXTENSION_FIELD:
            raise ValueError(
                f"extension field {self.field} is outside {FIRST_EXTENSION_FIELD}…{LAST_EXTENSION_FIELD}"
            )


@dataclass(frozen=True, slots=True)
class Features:
    """v1.3, the extensions control: what the sender can do beyond its version. Said in the first RPC, once."""

    partial_messages: bool = False
    test_extension: bool = False


ControlPart: TypeAlias = IHave | IWant | Graft | Prune | Extension | IDontWant | Features | EpisubPart
CONTROL_KINDS = (
    PartKind.IHAVE,
    PartKind.IWANT,
    PartKind.GRAFT,
    PartKind.PRUNE,
    PartKind.EXTENSION,
    PartKind.IDONTWANT,
    PartKind.FEATURES,
)
"""The order in which parts of control stand in an RPC, are handled, and are kept when there are too many. Episub's
parts come last, in the order in which they were said."""


@dataclass(frozen=True, slots=True)
class Control:
    """Parts of control; the fields are in the order of `CONTROL_KINDS`."""

    ihave: tuple[IHave, ...] = ()
    iwant: tuple[IWant, ...] = ()
    graft: tuple[Graft, ...] = ()
    prune: tuple[Prune, ...] = ()
    extensions: tuple[Extension, ...] = ()
    idontwant: tuple[IDontWant, ...] = ()
    features: tuple[Features, ...] = ()
    """At most one."""
    episub: tuple[EpisubPart, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[ControlPart]) -> Control:
        """Return the control with these parts; `KeyError` for a part that no field holds."""
        groups: defaultdict[str, list[ControlPart]] = defaultdict(list)
        for part in parts:
            groups[_FIELD_OF[type(part)]].append(part)
        fields: dict[str, Any] = {name: tuple(group) for name, group in groups.items()}
        return cls(**fields)

    def groups(self) -> tuple[tuple[ControlPart, ...], ...]:
        """The parts by kind, in the order of the fields."""
        return (
            self.ihave,
            self.iwant,
            self.graft,
            self.prune,
            self.extensions,
            self.idontwant,
            self.features,
            self.episub,
        )

    def count(self) -> int:
        """How many parts there are."""
        return sum(map(len, self.groups()))

    def parts(self) -> Iterator[ControlPart]:
        return chain.from_iterable(self.groups())


_FIELD_OF: dict[type[ControlPart], str] = {
    IHave: "ihave",
    IWant: "iwant",
    Graft: "graft",
    Prune: "prune",
    Extension: "extensions",
    IDontWant: "idontwant",
    Features: "features",
    **dict.fromkeys(get_args(EpisubPart), "episub"),
}
"""The field of `Control` for each type of part."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """One packet: subscriptions, messages, a partial message, control, a test message; handled in this order."""

    subscriptions: tuple[Subscription, ...] = ()
    messages: tuple[Message, ...] = ()
    control: Control | None = None
    partial: Partial | None = None
    test: ExtensionTest | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """Messages of an RPC that are handled in one event, when a driver cannot hand over all at once.

    Subscriptions and the extensions control are handled before messages, so they belong to the first portion. All
    else is handled after them and belongs to the last one.
    """

    messages: tuple[Message, ...]
    is_first: bool
    is_last: bool

    def of(self, rpc: Rpc) -> Rpc:
        features = rpc.control.features if rpc.control is not None else ()
        if not self.is_last:
            opening = Control(features=features) if self.is_first and features else None
            return Rpc(rpc.subscriptions if self.is_first else (), self.messages, opening)
        last = replace(rpc, messages=self.messages)
        if self.is_first:
            return last
        control = replace(rpc.control, features=()) if rpc.control is not None else None
        return replace(last, subscriptions=(), control=control)


VERSIONS = (MESHSUB, MESHSUB_11, MESHSUB_12, MESHSUB_13)
"""The oldest first."""

_WITH_BACKOFF = frozenset(VERSIONS[1:])
_WITH_IDONTWANT = frozenset(VERSIONS[2:])


def spoken(*, backoff: bool, idontwant: bool, extensions: bool) -> tuple[str, ...]:
    """The versions of a router that knows this much, the newest first."""
    newest = 3 if extensions else 2 if idontwant else 1 if backoff else 0
    return VERSIONS[newest::-1]


def knows_backoff(protocol: str) -> bool:
    """Return True if a PRUNE may carry a backoff and other peers."""
    return protocol in _WITH_BACKOFF


def knows_idontwant(protocol: str) -> bool:
    return protocol in _WITH_IDONTWANT


def knows_extensions(protocol: str) -> bool:
    """Return True if a peer exchanges the extensions control."""
    return protocol == MESHSUB_13
