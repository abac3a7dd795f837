"""The configuration of a node, its limits, and the file that keeps its identity.

The file has libp2p's protobuf of the private key, readable by its owner only:

* A new key appears whole or not at all: written next to its place with mode 0600, synced, then linked into place.
  A file that is in the place already, a link that leads nowhere too, is never written over; if another node was
  quicker, its key is taken.
* A key that its owner let others read is refused, as ssh does: any program that reads it can be this node. Files of
  another owner, such as mounted secrets, are not checked.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hearsay.core.registry import RouterKind, find_router
from hearsay.core.shell.parameters import RouterParameters, arguments, merged, preset_values
from hearsay.libp2p.host.host import HostLimits
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.identify import IdentifyLimits
from hearsay.libp2p.services.rendezvous_streams import PointLimits
from hearsay.node.conduct import ConductLimits
from hearsay.node.meeting.discovery import DiscoveryLimits
from hearsay.trace.folder.durable import sync_directory
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import MessageIdFunction, by_author
from hearsay.wire.signing import SignaturePolicy

_LOOPBACK = "127.0.0.1"
_FORM = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]+)):)?(?P<port>[0-9]{1,5})", re.ASCII)


def endpoint_of(text: str) -> tuple[str, int]:
    """Host and port; `ValueError` says what an address looks like."""
    found = _FORM.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(
            f"{text!r}: an address is HOST:PORT, such as 127.0.0.1:9464 or [::]:9464, or a port from 0 to 65535 "
            "on this machine alone"
        )
    return found["six"] or found["host"] or _LOOPBACK, int(found["port"])


PLACES_PER_ADDRESS = 2
"""Members of a mesh that need not give way although they are of one address; a third of D."""

HostName = Literal["own", "libp2p"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Everything a peer or a slow application can make grow."""

    rpc: RpcLimits = field(default_factory=RpcLimits)
    host: HostLimits = field(default_factory=HostLimits)
    identify: IdentifyLimits = field(default_factory=IdentifyLimits)
    discovery: DiscoveryLimits = field(default_factory=DiscoveryLimits)
    rendezvous: PointLimits = field(default_factory=PointLimits)
    """Limits of the rendezvous point, if this node is one."""
    conduct: ConductLimits = field(default_factory=ConductLimits)
    peer_queue_bytes: int = 8 << 20
    """Outgoing bytes that wait for one peer; gossip is dropped first, then messages."""
    outgoing_bytes: int = 32 << 20
    """… for all peers; beyond that the longest queue loses."""
    message_cache_bytes: int = 32 << 20
    """Messages that are kept for those who ask for them (episub: of each topic); the oldest goes first."""
    seen_bytes: int = 32 << 20
    """Ids that are remembered; the oldest goes first."""
    subscription_bytes_per_peer: int = 1 << 20
    subscription_bytes: int = 16 << 20
    """The topics of all peers; beyond that only subscriptions to the node's own topics are taken."""
    topic_queue: int = 4096
    """Messages that wait for the application, per topic; then the oldest is missed;"""
    topic_queue_bytes: int = 8 << 20
    """the bytes of them, per topic,"""
    all_topic_queues_bytes: int = 16 << 20
    """and in all topics; then the oldest of the fullest one is missed."""
    waiting_publishes: int = 256
    """Own messages per topic that wait for a first peer, where the application asks for that."""
    parts_per_s: float = 10_000
    """RPCs and their parts that a peer may send; new messages with a right signature are not counted."""
    parts_at_once: float = 50_000
    """As many of them may come at once. A peer over it is read from more slowly."""
    verification_threads: int = 2
    """For signatures that take long to check."""
    unverified_bytes: int = 24 << 20
    """RPCs that wait for such checks or for validators; a peer has at most as much as stays free."""
    unverified_bytes_per_peer: int = 16 << 20
    """Beyond that the peer is not read from."""
    concurrent_validations: int = 128
    """Coroutine validators at work; a peer has at most as many as stay free."""
    validation_threads: int = 4
    """Threads for the validators that were declared safe for them; shared in the same way."""
    validation_s: float = 5.0
    """A validator that takes longer has ignored the message; waiting for its turn does not count."""
    pending_validations_per_peer: int = 128
    """Messages of a peer that may wait for validators; beyond that it is not read from."""
    pending_validation_bytes_per_peer: int = 4 << 20
    """Their bytes; beyond that the peer is not read from."""
    pending_validation_bytes: int = 16 << 20
    """Bytes of all peers that may wait for validators; beyond that no peer with new messages is read from."""
    remembered_authors: int = 16_384
    """Authors whose sequence numbers are known where replays are refused; then the longest silent is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """`parameters` change single values of the router's `preset`, or say what it is made from (`validators`).

    Without a preset it is v1.1 where the router has that, else the router's first one.
    """

    host: HostName = "own"
    """The host that moves the bytes: our own small one, or py-libp2p's with the extra `libp2p`."""
    router: str | RouterKind = "gossipsub"
    """A name, an import path `module:attribute`, or the kind itself."""
    preset: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    listen: tuple[str, ...] = ("/ip4/127.0.0.1/tcp/0",)
    bootstrap: tuple[str, ...] = ()
    """Addresses that are dialled, and dialled again whenever their peer is gone."""
    direct_peers: tuple[str, ...] = ()
    """Addresses, with peer ids, of direct peers (v1.1): they stay connected, get all messages, and are in no mesh."""
    rendezvous: tuple[str, ...] = ()
    """Addresses of rendezvous points, where the peers of the joined topics are looked for."""
    rendezvous_point: bool = False
    """Be such a point for others."""
    dht: bool = False
    """Look for the peers of the joined topics in the DHT; with py-libp2p's host only."""
    local_network: bool = False
    """Announce oneself by mDNS and dial who does; needs the extra `mdns`."""
    local_interfaces: tuple[str, ...] = ()
    """Addresses of the interfaces for that; all of them without any."""
    signatures: SignaturePolicy = SignaturePolicy.STRICT_SIGN
    message_id: MessageIdFunction = by_author
    refuse_replays: bool | Path = False
    """Take no signed message twice, however late, by the sequence numbers of its author. A file keeps those."""
    metrics: str | None = None
    """Address of metrics, health and readiness over HTTP: `HOST:PORT`, or a port on this machine alone."""
    agent: str = "hearsay"
    limits: NodeLimits = field(default_factory=NodeLimits)
    return_memory: bool = True
    """Have the process give back to the system what is free: settings of glibc, and the garbage collector."""

    def __post_init__(self) -> None:
        if self.host not in get_args(HostName):
            raise ValueError(f"host {self.host!r} is not one of {', '.join(get_args(HostName))}")
        try:
            for address in (*self.listen, *self.bootstrap, *self.direct_peers, *self.rendezvous):
                Multiaddr.parse(address)
        except EncodingError as error:
            raise ValueError(str(error)) from None
        if self.direct and not getattr(self.router_parameters()[1], "uses_11", False):
            raise ValueError("direct peers need a router that scores its peers, such as gossipsub's preset go")
        if self.dht and self.host != "libp2p":
            raise ValueError("only the host libp2p has a DHT")
        if self.metrics is not None:
            endpoint_of(self.metrics)
        if self.refuse_replays and self.signatures is SignaturePolicy.STRICT_NO_SIGN:
            raise ValueError("replays can be refused only where messages are signed")

    @property
    def direct(self) -> tuple[PeerId, ...]:
        """The direct peers; `ValueError` names an address without a peer id."""
        peers: list[PeerId] = []
        for address in self.direct_peers:
            peer = Multiaddr.parse(address).peer
            if peer is None:
                raise ValueError(f"direct peer {address}: must end with /p2p/ and its peer id")
            peers.append(peer)
        return tuple(peers)

    def preset_of(self, kind: RouterKind) -> str:
        """The preset that was chosen, or what a router of this kind has without."""
        return self.preset or ("v1.1" if "v1.1" in kind.presets else next(iter(kind.presets)))

    def router_parameters(self) -> tuple[RouterKind, RouterParameters]:
        """The router and its parameters; `ParameterError` or `UnknownRouter` says what cannot be."""
        kind = self.router if isinstance(self.router, RouterKind) else find_router(self.router)
        preset = self.preset_of(kind)
        if preset not in kind.presets:
            raise ValueError(f"router {kind.name} has no preset {preset!r}; there are {', '.join(kind.presets)}")
        here: dict[str, object] = {"hello": True, "coalesce": True, "validate": True}
        _, base = preset_values(kind.presets, preset, self.parameters)
        made_from = arguments(kind.presets)
        own = {name: value for name, value in self.parameters.items() if name not in made_from}
        values = {**merged({**base, **self._bounds(kind)}, own), **here}
        if values.get("score") is not None and "places_per_address" not in self.parameters:
            values["places_per_address"] = 0  # addresses are the score's business (P6)
        return kind, kind.parameters.from_mapping(values)

    def _bounds(self, kind: RouterKind) -> dict[str, object]:
        """Return the limits of the node that are parameters of this router."""
        limits = self.limits
        bounds = {
            "max_cached_bytes": limits.message_cache_bytes,
            "max_seen_bytes": limits.seen_bytes,
            "max_subscription_bytes_per_peer": limits.subscription_bytes_per_peer,
            "max_subscription_bytes": limits.subscription_bytes,
            "places_per_address": PLACES_PER_ADDRESS,
        }
        return {name: most for name, most in bounds.items() if name in kind.parameters.names()}


MAX_FILE_BYTES = 4096


class KeyFileError(Exception):
    """The file is there and holds no key that can be used."""


def identity_in(path: Path) -> PrivateKey:
    """The key in this file, made if there is none; `KeyFileError` or `OSError` says why not."""
    if not os.path.lexists(path):
        _make(path)
    return _read(path)


def _read(path: Path) -> PrivateKey:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileError("a link that leads nowhere") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise KeyFileError("not a regular file")
        encoded = os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if not encoded:
        raise KeyFileError("empty; remove it, and a new identity is made")
    if len(encoded) > MAX_FILE_BYTES:
        raise KeyFileError(f"not the key of a node: more than {MAX_FILE_BYTES} bytes")
    try:
        identity = PrivateKey.decode(encoded)
    except EncodingError as error:
        raise KeyFileError(f"damaged, or not the key of a node ({error})") from None
    if about.st_uid == os.getuid() and about.st_mode & 0o077:
        raise KeyFileError(
            f"others may read or write it (mode {stat.S_IMODE(about.st_mode):03o}); chmod 600 makes it yours alone"
        )
    return identity


def _make(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(PrivateKey.generate().encode())
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP) or os.path.lexists(path):
                raise
            temporary.rename(path)  # a file system without links
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
