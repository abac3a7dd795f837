"""The RPC between peers: subscription changes, messages and control, and the protocol versions.

Names follow the gossipsub specification (r1, "The protocol extends the existing RPC message structure") and the
guide's section "Network packets". `Extension` carries control parts of routers of other packages. It is a
length-delimited field of the control message; peers that do not know the field skip it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from itertools import chain
from operator import attrgetter
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
"""Experimental fields have numbers above this one (gossipsub v1.3). Their tags take four bytes or more, so that
shorter tags remain for fields of the specification."""
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
    """A published message. The driver computes the id. The core does not interpret the data.

    `source` is the author; None if the message names no author.
    """

    id: MessageId
    topic: TopicId
    data: bytes
    source: PeerId | None = None
    seqno: bytes | None = None
    signature: bytes | None = None
    key: bytes | None = None
    encoded: bytes | None = field(default=None, compare=False, repr=False)
    """The canonical encoding of a received message, which is forwarded unchanged, since the author may have
    signed this form. None if the message was not decoded from bytes."""
    hops: int | None = None
    """Number of links between the publisher and the receiver of this copy; None if the sender does not count links.
    The signature does not cover this number."""
    has_more: bool = field(default=False, compare=False, repr=False)
    """True if the message had unknown fields. They are not in `encoded`, but the author may have signed them."""


class PartialUse(StrEnum):
    """The use of partial messages that a router announces for a topic (v1.3). REQUESTS implies SUPPORTS."""

    NONE = "none"
    SUPPORTS = "supports"
    """The router sends parts to peers that request parts."""
    REQUESTS = "requests"
    """The router wants parts in place of full messages."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """SUBSCRIBE (`subscribe` is True) or UNSUBSCRIBE. In an UNSUBSCRIBE `partial` is NONE."""

    topic: TopicId
    subscribe: bool
    partial: PartialUse = PartialUse.NONE


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial message (v1.3): some parts of a message, and metadata that says which parts the sender has and wants.

    `group` names the message whose parts are exchanged. Only the application reads parts and metadata. Each of the
    two is None if the RPC has no such field.
    """

    topic: TopicId
    group: bytes
    parts: bytes | None = None
    metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class ExtensionTest:
    """A test message without content (v1.3). It is sent if both peers have announced the test extension."""


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
    """A peer that a PRUNE names (peer exchange). `record` has its signed addresses; None if the sender has none."""

    peer: PeerId
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prune:
    """PRUNE. v1.1 adds the backoff in seconds, in which the receiver must not send GRAFT, and other peers of the
    topic.

    `backoff_s` is None if the PRUNE names no backoff.
    """

    topic: TopicId
    backoff_s: int | None = None
    peers: tuple[PeerInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class IDontWant:
    """IDONTWANT (v1.2): ids of messages that the receiver need not send to the sender of this part."""

    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """A control part of a router of another package: the number of a field of the control message, and its bytes.

    Raises `ValueError` if the number is not in FIRST_EXTENSION_FIELD … LAST_EXTENSION_FIELD.
    """

    field: int
    payload: bytes

    def __post_init__(self) -> None:
        if not FIRST_EXTENSION_FIELD <= self.field <= LAST_EXTENSION_FIELD:
            raise ValueError(
                f"extension field {self.field} is outside {FIRST_EXTENSION_FIELD}…{LAST_EXTENSION_FIELD}"
            )


@dataclass(frozen=True, slots=True)
class Features:
    """The extensions control (v1.3): the extensions that the sender supports. It is sent only in the first RPC."""

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
"""The order of the control parts in an RPC. Parts of episub come after these kinds, in the order of the calls that
send them. If an RPC has too many control parts, the last ones are dropped."""


@dataclass(frozen=True, slots=True)
class Control:
    """The control parts of an RPC. The fields have the order of `CONTROL_KINDS`; `episub` is the last one."""

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
        """Return a `Control` with these parts. Raises `KeyError` for a part of another type."""
        groups: defaultdict[str, list[ControlPart]] = defaultdict(list)
        for part in parts:
            groups[_FIELD_OF[type(part)]].append(part)
        fields: dict[str, Any] = {name: tuple(group) for name, group in groups.items()}
        return cls(**fields)

    def groups(self) -> tuple[tuple[ControlPart, ...], ...]:
        """Return the values of the fields, in the order of the fields."""
        return _groups(self)

    def count(self) -> int:
        """Return the number of parts."""
        return sum(map(len, self.groups()))

    def parts(self) -> Iterator[ControlPart]:
        return chain.from_iterable(self.groups())


_groups = attrgetter(*(declared.name for declared in fields(Control)))
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
    """One packet between two routers.

    The receiver handles the parts of the packet in this order: features, subscriptions, messages, the partial
    message, other control parts, the test message.
    """

    subscriptions: tuple[Subscription, ...] = ()
    messages: tuple[Message, ...] = ()
    control: Control | None = None
    partial: Partial | None = None
    test: ExtensionTest | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of an RPC, if a driver passes the messages of one RPC to the router in several events.

    Subscriptions and features are handled before messages, so they belong to the first portion. All other parts are
    handled after messages, so they belong to the last portion.
    """

    messages: tuple[Message, ...]
    is_first: bool
    is_last: bool

    def of(self, rpc: Rpc) -> Rpc:
        """Return the messages of this portion, with the other parts of the RPC that belong to it."""
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


def gossipsub_protocols(*, backoff: bool, idontwant: bool, extensions: bool) -> tuple[str, ...]:
    """Return the protocol ids of a gossipsub router with these abilities, the newest version first."""
    newest = 3 if extensions else 2 if idontwant else 1 if backoff else 0
    return VERSIONS[newest::-1]


def knows_backoff(protocol: str) -> bool:
    """Return True if a PRUNE to a peer with this protocol id may have a backoff and name other peers."""
    return protocol in _WITH_BACKOFF


def knows_idontwant(protocol: str) -> bool:
    return protocol in _WITH_IDONTWANT


def knows_extensions(protocol: str) -> bool:
    """Return True if a peer with this protocol id may send and receive the extensions control."""
    return protocol == MESHSUB_13
