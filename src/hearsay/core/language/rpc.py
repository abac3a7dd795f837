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
"""Experimental fields have numbers above this one; their tags take four bytes, so that shorter tags are left to the
specification (gossipsub v1.3)."""
FIRST_EXTENSION_FIELD = EXPERIMENTAL_FIELDS + 64
LAST_EXTENSION_FIELD = (1 << 29) - 1


class PartKind(IntEnum):
    """The kinds of parts of an RPC, and the simulator's CONNECT. Append, never renumber."""

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
    """A published message. The driver computes its id; the core never reads data or signature."""

    id: MessageId
    topic: TopicId
    data: bytes
    source: PeerId | None = None
    seqno: bytes | None = None
    signature: bytes | None = None
    key: bytes | None = None
    encoded: bytes | None = field(default=None, compare=False, repr=False)
    """The received bytes, which are forwarded unchanged: a missing field differs from an empty one."""
    hops: int | None = None
    """Number of links that this copy has crossed on arrival, if the router counts them; never signed."""
    has_more: bool = field(default=False, compare=False, repr=False)
    """True if the message came with unknown fields. They are not forwarded, but the author may have signed them."""


class PartialUse(StrEnum):
    """Use of partial messages in a topic (v1.3); a request implies support."""

    NONE = "none"
    SUPPORTS = "supports"
    """The sender of this use sends parts to peers that request them."""
    REQUESTS = "requests"
    """The sender of this use wants parts in place of full messages."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """SUBSCRIBE (`subscribe` true) or UNSUBSCRIBE, which has no `partial`."""

    topic: TopicId
    subscribe: bool
    partial: PartialUse = PartialUse.NONE


@dataclass(frozen=True, slots=True)
class Partial:
    """v1.3, partial messages: some parts of the message of a group, and metadata about the sender's parts.

    The metadata says which parts the sender has and wants. Only the application reads parts and metadata. None for
    either means that the sender gives no such information.
    """

    topic: TopicId
    group: bytes
    parts: bytes | None = None
    metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class ExtensionTest:
    """v1.3, the test extension: a message without content, sent if both have announced the extension."""


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
    """v1.1 adds the time during which the peer must not GRAFT, and other peers that it may contact."""

    topic: TopicId
    backoff_s: int | None = None
    peers: tuple[PeerInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class IDontWant:
    """v1.2: messages that the peer need not send."""

    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """Control of an external router: a field number of the control message, and its bytes."""

    field: int
    payload: bytes

    def __post_init__(self) -> None:
        if not FIRST_EXTENSION_FIELD <= self.field <= LAST_EXTENSION_FIELD:
            raise ValueError(
                f"extension field {self.field} is outside {FIRST_EXTENSION_FIELD}…{LAST_EXTENSION_FIELD}"
            )


@dataclass(frozen=True, slots=True)
class Features:
    """v1.3, the extensions control: the sender's abilities beyond its version. Sent once, in the first RPC."""

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
"""The order in which control parts are sent and handled; if an RPC has too many, the last in this order are dropped.
Episub's parts come last, in the order of their creation."""


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
    """At most one element."""
    episub: tuple[EpisubPart, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[ControlPart]) -> Control:
        """Return the control with these parts. Raises `KeyError` for a part that fits no field."""
        groups: defaultdict[str, list[ControlPart]] = defaultdict(list)
        for part in parts:
            groups[_FIELD_OF[type(part)]].append(part)
        fields: dict[str, Any] = {name: tuple(group) for name, group in groups.items()}
        return cls(**fields)

    def groups(self) -> tuple[tuple[ControlPart, ...], ...]:
        """Return the parts by kind, in the order of the fields."""
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
        """Return the number of parts."""
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
    """Messages of an RPC that are handled in one event, if a driver cannot pass all at once.

    Subscriptions and the extensions control are handled before messages, so they belong to the first portion. Other
    parts are handled after messages and belong to the last one.
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
"""The versions of gossipsub's protocol, the oldest first."""

_WITH_BACKOFF = frozenset(VERSIONS[1:])
_WITH_IDONTWANT = frozenset(VERSIONS[2:])


def spoken(*, backoff: bool, idontwant: bool, extensions: bool) -> tuple[str, ...]:
    """Return the versions of a router with these abilities, the newest first."""
    newest = 3 if extensions else 2 if idontwant else 1 if backoff else 0
    return VERSIONS[newest::-1]


def knows_backoff(protocol: str) -> bool:
    """Return True if a PRUNE to a peer of this version may carry a backoff and other peers."""
    return protocol in _WITH_BACKOFF


def knows_idontwant(protocol: str) -> bool:
    return protocol in _WITH_IDONTWANT


def knows_extensions(protocol: str) -> bool:
    """Return True if a peer of this version exchanges the extensions control."""
    return protocol == MESHSUB_13
