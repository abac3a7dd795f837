"""One function per parser: it accepts any bytes and fails only if the parser breaks its contract.

The contract of a parser is in its module: it returns a value or raises its own error, nothing else. If a value can be
encoded again, the target also checks that decoding it gives the same value. `test_corpus.py` calls the targets with
the stored corpus; `run_fuzzers.py` lets atheris search for more inputs.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from message_faults import fault_of

from hearsay.core.language.rpc import EPISUB
from hearsay.ingest.hermes import decode_hermes
from hearsay.ingest.pubsub_traces import decode_pieces, protobuf_of_lines
from hearsay.ingest.records import BadSource
from hearsay.ingest.sources import Unit, decode_unit, recognise
from hearsay.libp2p.frames import FrameReader
from hearsay.libp2p.identify import decode_identity, encode_identity
from hearsay.libp2p.mux.multistream import Dialer, Listener
from hearsay.libp2p.mux.yamux import Yamux
from hearsay.libp2p.names import protobuf
from hearsay.libp2p.names.errors import EncodingError, FrameError, MultistreamError, NoiseError, YamuxError
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import check_peer_id, from_text, peer_id_of, to_text
from hearsay.libp2p.noise import XX, Channel, Handshake
from hearsay.libp2p.rendezvous import decode_message, encode_message, open_unsigned, read_envelope, unsigned_record
from hearsay.libp2p.rendezvous_streams import Registry
from hearsay.node.meeting.rendezvous import from_text_record, to_text_record
from hearsay.partial import Bitlists, EqualParts, InvalidParts
from hearsay.vectors.files import VectorError, parse_vectors
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import RpcLimits, WireError, decode_part, encode_part
from hearsay.wire.messages import by_author
from hearsay.wire.signing import SignaturePolicy

Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}

OURS, THEIRS = PrivateKey.from_seed(b"o" * 32), PrivateKey.from_seed(b"t" * 32)
STATIC = X25519PrivateKey.from_private_bytes(b"s" * 32)
PEER = peer_id_of(THEIRS.public)
LIMITS = RpcLimits()
PARTS = (
    EqualParts(count=3, part_bytes=2, group_bytes=1),
    EqualParts(count=11, part_bytes=1, group_bytes=1, claims=Bitlists()),
)


def target(function: Target) -> Target:
    """Add a function to `TARGETS`; its name has hyphens there."""
    TARGETS[function.__name__.replace("_", "-")] = function
    return function


def pieces_of(data: bytes) -> list[bytes]:
    """Return all bytes after the first, cut into pieces. The first byte is the size of a piece; 0 is one piece."""
    step = data[0] if data else 0
    rest = data[1:]
    return [rest[start : start + step] for start in range(0, len(rest), step)] if step else [rest]


@target
def protobuf_fields(data: bytes) -> None:
    with suppress(EncodingError):
        for _, wire_type, start, stop in protobuf.walk(data, 0, len(data)):
            assert wire_type != protobuf.DELIMITED or 0 <= start <= stop <= len(data)
    with suppress(EncodingError):
        value, end = protobuf.decode(data, 0, len(data))
        assert value >= 0
        assert end <= len(data)
        assert protobuf.decode(protobuf.encode(value), 0, 10)[0] == value


@target
def vectors(data: bytes) -> None:
    """Check that parsed vectors can be parsed again from their JSON."""
    with suppress(VectorError):
        found = parse_vectors(data, "file")
        assert parse_vectors(json.dumps(found).encode(), "file") == found


@target
def frames(data: bytes) -> None:
    """Check that the frames do not depend on how the bytes are cut."""
    whole, cut = FrameReader(1000), FrameReader(1000)
    found = []
    with suppress(FrameError):
        found = whole.receive(data[1:])
    from_pieces = []
    with suppress(FrameError):
        for piece in pieces_of(data):
            from_pieces += cut.receive(piece)
    assert from_pieces[: len(found)] == found


@target
def multistream(data: bytes) -> None:
    for negotiation in (Listener({"/a", "/b"}), Dialer(["/a", "/b"])):
        negotiation.start()
        with suppress(MultistreamError):
            for piece in pieces_of(data):
                negotiation.receive(piece)
                if negotiation.protocol is not None:
                    break


@target
def noise_bytes(data: bytes) -> None:
    for initiator in (True, False):
        handshake = Handshake(OURS, initiator)
        handshake.start()
        with suppress(NoiseError):
            for piece in pieces_of(data):
                handshake.receive(piece)
                if handshake.channel is not None:
                    break


@target
def noise_payload(data: bytes) -> None:
    """Parse the bytes in place of a peer's identity, in an otherwise valid handshake."""
    handshake, peer = Handshake(OURS, True), XX(False, STATIC)
    peer.read(handshake.start()[2:])
    message = peer.write(data[:8000])
    with suppress(NoiseError):
        handshake.receive(len(message).to_bytes(2, "big") + message)
        assert handshake.channel is not None


@target
def noise_channel(data: bytes) -> None:
    one, other = XX(True, X25519PrivateKey.generate()), XX(False, STATIC)
    for writer, reader in ((one, other), (other, one), (one, other)):
        reader.read(writer.write(b""))
    channel = Channel(PEER, *one.split())
    with suppress(NoiseError):
        for piece in pieces_of(data):
            channel.open(piece)


@target
def yamux(data: bytes) -> None:
    for dialer in (True, False):
        mux = Yamux(dialer)
        mux.send(mux.open(), b"question")
        with suppress(YamuxError):
            for piece in pieces_of(data):
                for event in mux.receive(piece):
                    assert event is not None
                mux.take()


@target
def identify(data: bytes) -> None:
    with suppress(EncodingError):
        identity = decode_identity(data)
        assert decode_identity(encode_identity(identity)) == identity


@target
def peer_record(data: bytes) -> None:
    with suppress(EncodingError):
        read_envelope(data).check()


@target
def keys(data: bytes) -> None:
    with suppress(EncodingError):
        key = PublicKey.decode(data)
        key.verify(data[-64:], b"anything")
        assert check_peer_id(peer_id_of(key)) == peer_id_of(key)
    with suppress(EncodingError):
        own = PrivateKey.decode(data)
        assert PrivateKey.decode(own.encode()).public == own.public


@target
def peer_ids(data: bytes) -> None:
    with suppress(EncodingError):
        peer = check_peer_id(data)
        assert from_text(to_text(peer)) == peer
    with suppress(EncodingError):
        check_peer_id(from_text(data.decode("latin-1")))


@target
def multiaddr(data: bytes) -> None:
    with suppress(EncodingError):
        address = Multiaddr.decode(data)
        assert Multiaddr.parse(str(address)) == address
        assert Multiaddr.decode(address.encode()) == address
    with suppress(EncodingError):
        address = Multiaddr.parse(data.decode("utf-8", "replace"))
        assert Multiaddr.decode(address.encode()) == address
        _ = address.tcp_endpoint, address.peer


@target
def rpc(data: bytes) -> None:
    for episub in (False, True):
        with suppress(WireError):
            decoded = decode_rpc(data, by_author, LIMITS, episub)
            again = decode_rpc(encode_rpc(decoded.rpc), by_author, LIMITS, episub)
            assert again.rpc == decoded.rpc, EPISUB if episub else "gossipsub"
            assert again.left_out == 0
            for message in decoded.rpc.messages:
                for policy in SignaturePolicy:
                    fault_of(message, policy)


@target
def episub(data: bytes) -> None:
    with suppress(EncodingError):
        part = decode_part(data, LIMITS)
        if part is not None:
            assert decode_part(encode_part(part), LIMITS) == part


@target
def rendezvous(data: bytes) -> None:
    registry = Registry(lambda: 0.0)
    with suppress(EncodingError):
        message = decode_message(data)
        assert decode_message(encode_message(message)) == message
        answer = registry.answer(PEER, "127.0.0.1", message)
        if answer is not None:
            assert decode_message(encode_message(answer)) == answer
    with suppress(EncodingError):
        peer, addresses = open_unsigned(data)
        assert open_unsigned(unsigned_record(peer, addresses)) == (peer, addresses)


@target
def mdns(data: bytes) -> None:
    for peer, addresses in from_text_record(data).items():
        assert from_text_record(to_text_record(addresses)) in ({peer: addresses}, {})


@target
def trace_go_json(data: bytes) -> None:
    with suppress(BadSource):
        deque(decode_pieces(protobuf_of_lines(data.splitlines(keepends=True)), batched=False), 0)


@target
def trace_go_pb(data: bytes) -> None:
    with suppress(BadSource):
        deque(decode_pieces(pieces_of(data), batched=False), 0)


@target
def trace_traced(data: bytes) -> None:
    """Parse the bytes as batches of events; then as a file: compressed by gzip, and as a gzip stream themselves."""
    with suppress(BadSource):
        deque(decode_pieces(pieces_of(data), batched=True), 0)
    for content in (gzip.compress(data, 1, mtime=0), b"\x1f\x8b" + data):
        _read_file(content)


@target
def trace_file(data: bytes) -> None:
    """Parse the bytes as a file whose format is recognised by its content."""
    _read_file(data)


@target
def partial_parts(data: bytes) -> None:
    group, rest = data[:1], data[1:]
    for form in PARTS:
        with suppress(InvalidParts):
            assert form.encode(group, form.decode(group, rest)) == rest
        with suppress(InvalidParts):
            claim = form.decode_claim(group, rest)
            assert form.decode_claim(group, form.encode_claim(group, claim)) == claim
        with suppress(InvalidParts):
            assert form.whole(*form.split(rest)) == rest


@target
def trace_hermes(data: bytes) -> None:
    """Parse a Parquet file. Each line of the bytes is a column, `name=value,value…`; digits alone are numbers."""
    columns: dict[str, list[str | None] | list[int | None]] = {}
    lines = data.decode("utf-8", "replace").split("\n")[:20]
    size = max([line.count(",") + 1 for line in lines], default=1)
    for line in lines:
        name, _, values = line.partition("=")
        cells = (values.split(",") * size)[:size]
        plain: list[str | None] = [None if cell == "-" else cell for cell in cells]
        if all(cell is None or (cell.isascii() and cell.isdigit() and len(cell) < 19) for cell in plain):
            columns[name] = [None if cell is None else int(cell) for cell in plain]
        else:
            columns[name] = plain
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "family.parquet"
        pq.write_table(pa.table(columns), path)
        with suppress(BadSource):
            deque(decode_hermes(path), 0)


def _read_file(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(content)
        with suppress(BadSource):
            deque(decode_unit(Unit(recognise(path))), 0)
