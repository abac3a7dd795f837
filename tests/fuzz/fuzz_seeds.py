"""A few valid inputs for each target, from which a fuzzer starts."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path

from fuzz_targets import OURS, PARTS, PEER, STATIC, THEIRS

from hearsay.core.language import episub_parts as episub
from hearsay.core.language.rpc import (
    EXPERIMENTAL_FIELDS,
    Control,
    Extension,
    Graft,
    IDontWant,
    IHave,
    IWant,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.ingest.pubsub_traces import protobuf_of_lines
from hearsay.libp2p.frames import frame
from hearsay.libp2p.identify import Identity, encode_identity
from hearsay.libp2p.mux.multistream import HEADER, line
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import to_text
from hearsay.libp2p.names.protobuf import bytes_field
from hearsay.libp2p.noise import SIGNATURE_PREFIX, Handshake
from hearsay.libp2p.rendezvous import (
    MessageType,
    PeerRecord,
    RendezvousMessage,
    encode_message,
    seal_record,
    unsigned_record,
)
from hearsay.node.meeting.rendezvous import to_text_record
from hearsay.partial import Claim
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import encode_part
from hearsay.wire.signing import Author, SignaturePolicy

SEEDS = Path(__file__).with_name("seeds")
TRACES = Path(__file__).parents[1] / "ingest" / "data"
ADDRESSES = tuple(
    Multiaddr.parse(text).with_peer(PEER)
    for text in ("/ip4/127.0.0.1/tcp/4001", "/ip6/::1/udp/1/quic-v1", "/dns4/example.org/tcp/443/wss")
)
RECORD = seal_record(THEIRS, PeerRecord(PEER, 7, ADDRESSES))
_ROLE = next(iter(episub.Role))
_PARTS = (
    episub.GetTopics(),
    episub.Topics(("news", "новости")),
    episub.GetNodes("news"),
    episub.Nodes("news", (PEER,), 3),
    episub.EpisubJoin("news", PEER, 3, 4),
    episub.ForwardJoin("news", PEER, 3, 4),
    episub.EpisubLeave("news", PEER, 3, 4),
    episub.Neighbor("news", _ROLE, True, 1, 2, 3, (PEER,)),
    episub.Disconnect("news", True),
    episub.Shuffle("news", PEER, (PEER,), 1, 2, (3, 4)),
    episub.ShuffleReply("news", (PEER,), 2, (3, 4)),
    episub.EpisubIHave("news", (b"id",), (2,)),
    episub.EpisubGraft("news", (b"id",)),
    episub.EpisubPrune("news"),
)


def seeds(target: str) -> list[bytes]:
    """Return inputs that the target parses completely or nearly so."""
    found = {
        "protobuf-fields": [encode_rpc(_rpc())],
        "vectors": [(SEEDS / name).read_bytes() for name in ("score_vectors.json", "router_vectors.json")],
        "frames": [b"\0" + frame(b"one") + frame(b"two"), b"\3" + frame(bytes(300))],
        "multistream": [b"\0" + line(HEADER) + line("/a"), b"\5" + line(HEADER) + line("na") + line("/b")],
        "noise-bytes": [b"\0" + _handshake()],
        "noise-payload": [_identity_payload()],
        "noise-channel": [b"\0\0\x20" + bytes(32)],
        "yamux": list(_yamux()),
        "identify": [encode_identity(_identity())],
        "peer-record": [RECORD],
        "keys": [OURS.encode(), OURS.public.encoded],
        "peer-ids": [PEER, to_text(PEER).encode()],
        "multiaddr": [
            *(address.encode() for address in ADDRESSES),
            *(str(address).encode() for address in ADDRESSES),
        ],
        "rpc": [encode_rpc(_rpc()), *(encode_rpc(Rpc(control=Control(episub=(part,)))) for part in _PARTS)],
        "episub": [encode_part(part) for part in _PARTS],
        "rendezvous": [*map(encode_message, _rendezvous()), unsigned_record(PEER, ADDRESSES), RECORD],
        "partial-parts": [
            *(b"g" + form.encode(b"g", dict.fromkeys(range(form.count), bytes(form.part_bytes))) for form in PARTS),
            *(b"g" + form.encode_claim(b"g", Claim(1, 6)) for form in PARTS),
        ],
        "mdns": [to_text_record(ADDRESSES)],
        "trace-go-json": [_unpacked("go-0.16.json.gz", 1), *_unpacked("go-0.16.json.gz").splitlines(True)[:400:20]],
        "trace-go-pb": [b"\0" + event for event in _events(60)],
        "trace-traced": [b"\0" + frame(b"".join(bytes_field(1, event) for event in _events(2)))],
        "trace-file": [gzip.compress(b"".join(_events(4)), 9, mtime=0), b'{"type":13}\n', b"PAR1", b"\x1f\x8b"],
        "trace-hermes": [f"timestamp=1000\nproducer_id={to_text(PEER)}\n{text}".encode() for text in _families()],
    }
    return found[target]


def _families() -> list[str]:
    """Return a small trace of each family of hermes, in the form that `trace_hermes` reads."""
    text = (SEEDS / "hermes.txt").read_text(encoding="utf-8")
    return text.replace("PEER", to_text(PEER)).rstrip().split("\n\n")


def _rpc() -> Rpc:
    author = Author(OURS, 1)
    return Rpc(
        (Subscription("news", True), Subscription("weather", False)),
        (
            author.write("news", b"hello", SignaturePolicy.STRICT_SIGN),
            author.write("a", b"b", SignaturePolicy.LAX_NO_SIGN),
        ),
        Control(
            (IHave("news", (b"one", b"two")),),
            (IWant((b"one",)),),
            (Graft("news"),),
            (Prune("news", 60, (PeerInfo(PEER, RECORD),)), Prune("weather")),
            (Extension(EXPERIMENTAL_FIELDS + 4097, b"of an outside router"),),
            (IDontWant((b"two",)),),
        ),
    )


def _handshake() -> bytes:
    initiator, responder = Handshake(OURS, True), Handshake(THEIRS, False)
    return responder.receive(initiator.start())


def _identity_payload() -> bytes:
    signature = THEIRS.sign(SIGNATURE_PREFIX + STATIC.public_key().public_bytes_raw())
    return bytes_field(1, THEIRS.public.encoded) + bytes_field(2, signature)


def _identity() -> Identity:
    return Identity(THEIRS.public.encoded, ADDRESSES, ("/a", "/b"), ADDRESSES[0], "ipfs/0.1.0", "agent", RECORD)


def _yamux() -> Iterator[bytes]:
    header = struct.Struct(">BBHII")
    for stream in (1, 2):
        opened = header.pack(0, 1, 1, stream, 0)
        yield b"\0" + opened + header.pack(0, 0, 0, stream, 5) + b"hello" + header.pack(0, 0, 4, stream, 0)
        yield b"\7" + opened + header.pack(0, 1, 0, stream, 100_000) + header.pack(0, 1, 8, stream, 0)
    yield b"\0" + header.pack(0, 2, 1, 0, 77) + header.pack(0, 2, 2, 0, 77) + header.pack(0, 3, 0, 0, 0)


def _rendezvous() -> Iterator[RendezvousMessage]:
    yield RendezvousMessage(type=MessageType.REGISTER, namespace="news", record=RECORD, ttl_s=7200)
    yield RendezvousMessage(type=MessageType.REGISTER_RESPONSE, status=101, ttl_s=5)
    yield RendezvousMessage(type=MessageType.UNREGISTER, namespace="news")
    yield RendezvousMessage(type=MessageType.DISCOVER, namespace="news", limit=3, cookie=bytes(8) + b"news")
    yield RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, records=(RECORD, RECORD), cookie=b"c", status=103)


def _unpacked(name: str, lines: int | None = None) -> bytes:
    content = gzip.decompress((TRACES / name).read_bytes())
    return content if lines is None else b"".join(content.splitlines(True)[:lines])


def _events(step: int) -> list[bytes]:
    """Return 20 delimited protobuf events of a recorded trace: every `step`-th line of its JSON."""
    lines = [line for line in _unpacked("go-0.16.json.gz").splitlines(True)[: 20 * step : step] if json.loads(line)]
    return list(protobuf_of_lines(lines))
