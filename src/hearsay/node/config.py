"""The configuration of a node, its limits, and the file with its private key.

The file contains libp2p's protobuf of the private key, and only its owner may read it:

* A new key is created atomically: the node writes it to a temporary file with mode 0600, syncs the file, and links it
  to the final name. On a file system without hard links, the node renames the temporary file instead. The node never
  overwrites an existing file, not even a dangling link. If another node creates the file first, this node uses the
  key of the other node.
* The node refuses a key file that other users may read or write, as ssh does, because any program with the key can
  act as this node. The node does not check the permissions of files of another owner, such as mounted secrets.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp
from typing import Literal, get_args

from hearsay.core.registry import RouterKind, find_router
from hearsay.core.shell.parameters import RouterParameters, arguments, merged, preset_values
from hearsay.libp2p.identify import IdentifyLimits
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import HostLimits
from hearsay.libp2p.rendezvous_streams import PointLimits
from hearsay.node.conduct import ConductLimits
from hearsay.node.meeting.discovery import DiscoveryLimits
from hearsay.trace.folder.durable import sync_directory
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import MessageIdFunction, by_author
from hearsay.wire.signing import SignaturePolicy

_LOOPBACK = "127.0.0.1"
_FORM = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]+)):)?(?P<port>[0-9]{1,5})", re.ASCII)


def endpoint_of(text: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`. A port alone is on the loopback interface.

    Raises `ValueError` with the expected form if the text has another form.
    """
    found = _FORM.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(
            f"{text!r}: an address is HOST:PORT, such as 127.0.0.1:9464 or [::]:9464, or a port from 0 to 65535 "
            "on the loopback interface"
        )
    return found["six"] or found["host"] or _LOOPBACK, int(found["port"])


PLACES_PER_ADDRESS = 2
"""Number of mesh peers of one address that are not pruned in favour of other addresses (PLACES-1): a third of D."""

HostName = Literal["own", "libp2p"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Limits of the memory, queues and threads that a node uses for peers and for its application.

    Limits in bytes are limits of memory, not of bytes on the wire.
    """

    rpc: RpcLimits = field(default_factory=RpcLimits)
    host: HostLimits = field(default_factory=HostLimits)
    identify: IdentifyLimits = field(default_factory=IdentifyLimits)
    discovery: DiscoveryLimits = field(default_factory=DiscoveryLimits)
    rendezvous: PointLimits = field(default_factory=PointLimits)
    """Limits of the rendezvous point, if the node is one."""
    conduct: ConductLimits = field(default_factory=ConductLimits)
    peer_queue_bytes: int = 8 << 20
    """Maximum bytes of RPCs that wait to be sent to one peer. Gossip is dropped first, then messages."""
    outgoing_bytes: int = 32 << 20
    """Maximum bytes of RPCs that wait to be sent to all peers. The longest queue of the address with the most bytes
    is shortened first."""
    message_cache_bytes: int = 32 << 20
    """Maximum bytes of messages that the router caches to answer requests; with episub, the maximum for each topic.
    The oldest messages are dropped first."""
    seen_bytes: int = 32 << 20
    """Maximum bytes of the ids of seen messages; the oldest ids are forgotten first."""
    subscription_bytes_per_peer: int = 1 << 20
    """Maximum bytes of the subscriptions of one peer; further ones are dropped."""
    subscription_bytes: int = 16 << 20
    """Maximum bytes of the subscriptions of all peers; beyond it, only subscriptions to topics of this node are
    accepted."""
    topic_queue: int = 4096
    """Maximum messages of a topic that wait for the application; the oldest messages are dropped first."""
    topic_queue_bytes: int = 8 << 20
    """Maximum bytes of a topic's messages that wait for the application."""
    all_topic_queues_bytes: int = 16 << 20
    """Maximum bytes of all messages that wait for the application. The oldest messages of the topic with the most
    bytes are dropped first."""
    waiting_publishes: int = 256
    """Maximum messages of this node in a topic that wait for a peer (`Node.publish` with `wait_for_peers`). The
    oldest message is dropped first."""
    parts_per_s: float = 10_000
    """RPCs and parts that a peer may send per second; new messages without a fault are not counted."""
    parts_at_once: float = 50_000
    """Maximum RPCs and parts of a peer in a burst. The node pauses reading from a peer that sends more."""
    verification_threads: int = 2
    """Number of threads that check expensive signatures."""
    unverified_bytes: int = 24 << 20
    """Maximum bytes of received RPCs that wait to be handled, for example for a signature check. While RPCs of a peer
    wait, another RPC of this peer may wait only if at least as many bytes stay free as this peer uses."""
    unverified_bytes_per_peer: int = 16 << 20
    """Maximum bytes of one peer's RPCs that wait to be handled; at the maximum, reading from the peer pauses."""
    concurrent_validations: int = 128
    """Maximum coroutine validators that run at a time. Messages of one peer use about half of this number at most."""
    validation_threads: int = 4
    """Number of threads for validators that are declared thread-safe. Messages of one peer use about half of them at
    most."""
    validation_s: float = 5.0
    """Maximum seconds of a validator for one message. If it takes longer, a message of a peer is ignored, and a
    message of this node is not published. The time in which a message waits for a slot is not included."""
    pending_validations_per_peer: int = 128
    """Maximum messages of a peer that wait for validators; at the maximum, reading from the peer pauses."""
    pending_validation_bytes_per_peer: int = 4 << 20
    """Maximum bytes of a peer's messages that wait for validators; at the maximum, reading from the peer pauses."""
    pending_validation_bytes: int = 16 << 20
    """Maximum bytes of all messages that wait for validators; at the maximum, reading of new messages pauses."""
    remembered_authors: int = 16_384
    """Maximum authors whose sequence numbers are remembered (`refuse_replays`). The author whose latest message is
    the oldest is dropped first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The configuration of a node.

    `parameters` replace parameters of the `preset`. Some presets compute parameters from an argument, such as
    `validators`; `parameters` may also set this argument. If `preset` is None, it is v1.1 if the router has this
    preset, otherwise the router's first preset.
    """

    host: HostName = "own"
    """The libp2p host: hearsay's own, or that of py-libp2p (needs the extra `libp2p`)."""
    router: str | RouterKind = "gossipsub"
    """The router: its name, its import path `module:attribute`, or its `RouterKind`."""
    preset: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    listen: tuple[str, ...] = ("/ip4/127.0.0.1/tcp/0",)
    bootstrap: tuple[str, ...] = ()
    """Addresses to dial. The node dials an address again if the dial fails or the connection ends."""
    direct_peers: tuple[str, ...] = ()
    """Addresses of direct peers (v1.1), each with the peer id. Direct peers get all messages and are in no mesh. The
    node dials them as it dials `bootstrap`."""
    rendezvous: tuple[str, ...] = ()
    """Addresses of rendezvous points at which the node searches for peers of its topics."""
    rendezvous_point: bool = False
    """True if the node is a rendezvous point for other nodes."""
    dht: bool = False
    """True to search the DHT for peers of the joined topics; only with py-libp2p's host."""
    local_network: bool = False
    """True to announce this node by mDNS and to dial other nodes that do so; needs the extra `mdns`."""
    local_interfaces: tuple[str, ...] = ()
    """IP addresses of the interfaces for mDNS; if empty, all interfaces."""
    signatures: SignaturePolicy = SignaturePolicy.STRICT_SIGN
    message_id: MessageIdFunction = by_author
    refuse_replays: bool | Path = False
    """True to ignore a signed message if its author has used its sequence number before, or if the number is too low.
    With the path of a file, the file also keeps the highest numbers across restarts."""
    metrics: str | None = None
    """Address of metrics, health and readiness over HTTP: `HOST:PORT`, or a port on the loopback interface. With None
    they are not served."""
    agent: str = "hearsay"
    """Name of this program, which is sent to peers and written to traces."""
    limits: NodeLimits = field(default_factory=NodeLimits)
    return_memory: bool = True
    """True to return free memory to the system, by settings of glibc and the garbage collector."""

    def __post_init__(self) -> None:
        if self.host not in get_args(HostName):
            raise ValueError(f"host {self.host!r} is not one of {', '.join(get_args(HostName))}")
        try:
            for address in (*self.listen, *self.bootstrap, *self.direct_peers, *self.rendezvous):
                Multiaddr.parse(address)
        except EncodingError as error:
            raise ValueError(str(error)) from None
        if self.direct and not getattr(self.router_parameters()[1], "uses_11", False):
            raise ValueError("direct_peers need a router with the rules of gossipsub 1.1 (gossipsub: preset go)")
        if self.dht and self.host != "libp2p":
            raise ValueError("dht needs the host of py-libp2p; set host = 'libp2p'")
        if self.metrics is not None:
            endpoint_of(self.metrics)
        if self.refuse_replays and self.signatures is SignaturePolicy.STRICT_NO_SIGN:
            raise ValueError("refuse_replays needs signed messages; signatures must not be STRICT_NO_SIGN")

    @property
    def direct(self) -> tuple[PeerId, ...]:
        """Return the peer ids in `direct_peers`. Raises `ValueError` for an address without a peer id."""
        peers: list[PeerId] = []
        for address in self.direct_peers:
            peer = Multiaddr.parse(address).peer
            if peer is None:
                raise ValueError(f"direct peer {address}: the address must end with /p2p/ and the peer id")
            peers.append(peer)
        return tuple(peers)

    def preset_of(self, kind: RouterKind) -> str:
        """Return `preset`, or the name of the default preset of the router `kind` if `preset` is None."""
        return self.preset or ("v1.1" if "v1.1" in kind.presets else next(iter(kind.presets)))

    def router_parameters(self) -> tuple[RouterKind, RouterParameters]:
        """Return the kind of the router and its parameters. Raises `ValueError` if they are invalid."""
        kind = self.router if isinstance(self.router, RouterKind) else find_router(self.router)
        preset = self.preset_of(kind)
        if preset not in kind.presets:
            raise ValueError(f"router {kind.name} has no preset {preset!r}; it has {', '.join(kind.presets)}")
        fixed: dict[str, object] = {"hello": True, "coalesce": True, "validate": True}
        _, base = preset_values(kind.presets, preset, self.parameters)
        preset_arguments = arguments(kind.presets)
        own = {name: value for name, value in self.parameters.items() if name not in preset_arguments}
        values = {**merged({**base, **self._bounds(kind)}, own), **fixed}
        if values.get("score") is not None and "places_per_address" not in self.parameters:
            values["places_per_address"] = 0  # not needed: the score limits peers per address (P6)
        return kind, kind.parameters.from_mapping(values)

    def _bounds(self, kind: RouterKind) -> dict[str, object]:
        """Return the limits of the node that this router has as parameters, by the parameter's name."""
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
    """The key file exists, but it is no regular file, other users may read or write it, or it has no valid key."""


def identity_in(path: Path) -> PrivateKey:
    """Return the private key in a file. If there is no such file, create it with a new key.

    Raises `KeyFileError` or `OSError` with the reason.
    """
    if not os.path.lexists(path):
        _create_key_file(path)
    return _read_key_file(path)


def _read_key_file(path: Path) -> PrivateKey:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileError("a dangling link") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise KeyFileError("not a regular file")
        encoded = os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if not encoded:
        raise KeyFileError("the file is empty; remove it to create a new identity")
    if len(encoded) > MAX_FILE_BYTES:
        raise KeyFileError(f"not the key of a node: more than {MAX_FILE_BYTES} bytes")
    try:
        identity = PrivateKey.decode(encoded)
    except EncodingError as error:
        raise KeyFileError(f"damaged, or not the key of a node ({error})") from None
    if about.st_uid == os.getuid() and about.st_mode & 0o077:
        raise KeyFileError(
            f"other users may read or write the file (mode {stat.S_IMODE(about.st_mode):03o}); run chmod 600"
        )
    return identity


def _create_key_file(path: Path) -> None:
    descriptor, name = mkstemp(".tmp", f".{path.name}.", path.parent)  # with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(PrivateKey.generate().encode())
            file.flush()
            os.fsync(descriptor)
        try:
            with suppress(FileExistsError):
                os.link(temporary, path, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP):
                raise
            _rename_if_absent(temporary, path)  # this file system has no hard links
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def _rename_if_absent(temporary: Path, path: Path) -> None:
    """Rename a file unless the new name exists. A lock on the directory excludes other nodes that do the same."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        if not os.path.lexists(path):
            temporary.rename(path)
    finally:
        os.close(directory)
