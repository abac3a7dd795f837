"""Messages on which implementations of libp2p may differ, the same bytes each time.

Each case is one protobuf Message for the topic `news`. Its data is its name, so that a peer that accepts it can
report it. `interop/test_message_verdicts.py` sends the cases to the implementations and writes
`message_verdicts.txt`; `test_message_corpus.py` compares Hearsay's verdicts with theirs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha1, sha256, sha512
from pathlib import Path

import curve25519 as curve
from cryptography.hazmat.primitives.asymmetric import ec
from signers import (
    ECDSA,
    ED25519,
    NULL,
    ORDERS,
    SECP256K1,
    Edwards,
    Elliptic,
    Rsa,
    Signer,
    bit_string,
    digest_info,
    dss,
    integer,
    item,
    number_from,
    oid,
    spki,
)

from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.libp2p.names.protobuf import encode as varint

PREFIX = b"libp2p-pubsub:"
TOPIC = b"news"
Sign = Callable[[bytes], bytes]


_ITEM = re.compile(r'(\d+): (\d+|\{)|(\})|\* (\d+)|"([^"]*)"|`([0-9a-f ]*)`')


def encoded_fields(text: str) -> bytes:
    """Return the bytes of fields in the notation of `message_corpus.toml`."""
    open_fields: list[tuple[int, list[bytes]]] = [(0, [])]
    for number, value, end, times, words, hexadecimal in _ITEM.findall(text):
        items = open_fields[-1][1]
        if value == "{":
            open_fields.append((int(number), []))
        elif end:
            outer, content = open_fields.pop()
            open_fields[-1][1].append(bytes_field(outer, b"".join(content)))
        elif times:
            items[-1] *= int(times)
        else:
            items.append(
                varint_field(int(number), int(value)) if value else words.encode() + bytes.fromhex(hexadecimal)
            )
    return b"".join(open_fields[0][1])


FIELDS = {
    table: {name: encoded_fields(text) for name, text in fields.items()}
    for table, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True)
class Case:
    name: str
    message: bytes
    unsigned: bool = False
    """True for a message in a network without signatures."""
    before: bytes = b""
    """Fields of the RPC before the message."""
    after: bytes = b""
    """Fields of the RPC after the message."""

    @property
    def rpc(self) -> bytes:
        return self.before + bytes_field(2, self.message) + self.after

    @property
    def data(self) -> bytes:
        return self.name.encode()


def identity(content: bytes) -> bytes:
    return b"\0" + varint(len(content)) + content


def hashed(content: bytes) -> bytes:
    return b"\x12\x20" + sha256(content).digest()


def peer_of(encoded: bytes) -> bytes:
    return identity(encoded) if len(encoded) <= 42 else hashed(encoded)


def seqno_of(name: str) -> bytes:
    return sha256(name.encode()).digest()[:8]


def body_of(author: bytes | None, data: bytes | None, seqno: bytes | None) -> bytes:
    """Return the fields that are signed, encoded."""
    values = (author, data, seqno, TOPIC)
    return b"".join(bytes_field(number, value) for number, value in enumerate(values, 1) if value is not None)


def signed(name: str, author: bytes | None, sign: Sign, key: bytes | None = None, seqno: bytes | None = None) -> Case:
    body = body_of(author, name.encode(), seqno_of(name) if seqno is None else seqno)
    tail = b"" if key is None else bytes_field(6, key)
    return Case(name, body + bytes_field(5, sign(PREFIX + body)) + tail)


def usual(name: str, signer: Signer, sign: Sign | None = None) -> Case:
    """Return a case whose author and key are as libp2p defines them."""
    key = signer.encoded
    return signed(name, peer_of(key), sign or signer.sign, None if len(key) <= 42 else key)


def kinds() -> dict[str, Signer]:
    return {
        "ed25519": Edwards.of("usual"),
        "secp256k1": Elliptic.of("usual", ec.SECP256K1, SECP256K1),
        "p256": Elliptic.of("usual", ec.SECP256R1),
        "rsa": Rsa.of(2048),
    }


def forms(key: Signer) -> dict[str, bytes]:
    """Return encodings of a key's protobuf on which decoders differ."""
    number, data = varint_field(1, key.type), bytes_field(2, key.data)
    length = len(varint(len(key.data)))
    lengthened = varint(len(key.data))[:-1] + bytes((varint(len(key.data))[-1] | 0x80, 0))
    return {
        "fields swapped": data + number,
        "an unknown field after": number + data + bytes_field(3, b"more"),
        "an unknown varint before": varint_field(9, 1) + number + data,
        "a group after": number + data + b"\x4b\x4c",
        "type twice": varint_field(1, (key.type + 1) % 4) + number + data,
        "data twice": number + bytes_field(2, b"other") + data,
        "a long varint for the type": b"\x08" + bytes((key.type | 0x80, 0)) + data,
        "a long varint for the length": number + b"\x12" + lengthened + data[1 + length :],
        "a long varint for the tag": b"\x88\0" + varint(key.type) + data,
        "no type": data,
        "no data": number,
        "type 4": varint_field(1, 4) + data,
        "type and 2^32": varint_field(1, key.type + (1 << 32)) + data,
        "type and 2^64": b"\x08" + bytes((key.type | 0x80, *[0x80] * 8, 2)) + data,
        "type as bytes": bytes_field(1, bytes((key.type,))) + data,
        "a byte after": number + data + b"\0",
        "cut off": (number + data)[:-1],
        "3000 bytes of padding": number + data + bytes_field(3, bytes(3000)),
    }


def key_cases() -> Iterator[Case]:
    for kind, key in kinds().items():
        encoded, short = key.encoded, len(key.encoded) <= 42
        author = peer_of(encoded)
        other = Edwards.of("other").encoded
        yield usual(f"{kind} as usual", key)
        for name, given in {
            "with its key": encoded,
            "without a key": None,
            "with an empty key": b"",
            "with junk for a key": b"junk",
            "with another's key": other,
            "with a key of another kind": Elliptic.of("other", ec.SECP256R1).encoded,
            "with a key that is no point": varint_field(1, 1) + bytes_field(2, b"\2" + bytes(31)),
        }.items():
            yield signed(f"{kind} {name}", author, key.sign, given)
        for form, bytes_of_form in forms(key).items():
            yield signed(f"{kind}, {form}, the id of the key", author, key.sign, bytes_of_form)
            yield signed(f"{kind}, {form}, the id of the bytes", peer_of(bytes_of_form), key.sign, bytes_of_form)
            if short and len(bytes_of_form) < 100:
                yield signed(f"{kind}, {form}, inlined", identity(bytes_of_form), key.sign)
        swapped = hashed(encoded) if short else identity(encoded)
        yield signed(f"{kind}, hashed and inlined swapped", swapped, key.sign, encoded)
        yield signed(f"{kind}, swapped and without a key", swapped, key.sign)
        for name, change in {
            "no signature": lambda right: b"",
            "a byte after the signature": lambda right: right + b"\0",
            "a signature that is cut off": lambda right: right[:-1],
            "a signature with another first byte": lambda right: bytes((right[0] ^ 1,)) + right[1:],
            "a signature with another last byte": lambda right: right[:-1] + bytes((right[-1] ^ 1,)),
            "a signature of zeros": lambda right: bytes(len(right)),
        }.items():
            yield usual(f"{kind}, {name}", key, lambda what, change=change, key=key: change(key.sign(what)))
        yield usual(f"{kind}, a signature of other bytes", key, lambda what, key=key: key.sign(what + b"x"))
        yield usual(
            f"{kind}, a signature without the prefix", key, lambda what, key=key: key.sign(what[len(PREFIX) :])
        )


def data_cases(kind: str, key: Signer, wrong: Mapping[str, bytes], *, inlined: bool = True) -> Iterator[Case]:
    """Yield messages with a key that has other data, each with up to three ids as author."""
    for name, data in wrong.items():
        encoded = Signer(key.type, data).encoded
        yield signed(f"{kind}: {name}, the id of the key", peer_of(key.encoded), key.sign, encoded)
        yield signed(f"{kind}: {name}, the id of the bytes", hashed(encoded), key.sign, encoded)
        if inlined:
            yield signed(f"{kind}: {name}, inlined", identity(encoded), key.sign)


def edwards_cases() -> Iterator[Case]:
    eighth = curve.decode(bytes.fromhex(curve.OF_ORDER_8))
    scalar = number_from("scalar") % curve.L
    point = curve.times(scalar, curve.BASE)
    usual_key = curve.encode(point)
    base_r = curve.encode(curve.BASE)
    for power in range(8):
        small = curve.encode(curve.times(power, eighth))
        key = Signer(ED25519, small)
        # R = [1]B and s = 1 fit each message whose challenge times the key is neutral, and each for the neutral key
        yield usual(f"ed25519, a key of small order {power}", key, lambda what: base_r + (1).to_bytes(32, "little"))
        sign = partial(_with_small_r, scalar, usual_key, small)
        yield usual(f"ed25519, R of small order {power}", Signer(ED25519, usual_key), sign)
        mixed = curve.encode(curve.add(point, curve.times(power, eighth)))
        yield usual(
            f"ed25519, a key with a part of small order {power}",
            Signer(ED25519, mixed),
            partial(curve.sign, scalar, mixed),
        )
    for name, key in {
        "y is p + 1": (curve.P + 1).to_bytes(32, "little"),
        "y is p + 1, negative": (curve.P + 1 | 1 << 255).to_bytes(32, "little"),
        "x is zero and negative": (1 | 1 << 255).to_bytes(32, "little"),
        "no point": b"\2" + bytes(31),
        "31 bytes": usual_key[:31],
        "33 bytes": usual_key + b"\0",
        "64 bytes": usual_key * 2,
        "no bytes": b"",
    }.items():
        yield usual(f"ed25519, a key: {name}", Signer(ED25519, key), lambda what: base_r + (1).to_bytes(32, "little"))
    plain = partial(curve.sign, scalar, usual_key)
    key = Signer(ED25519, usual_key)
    yield usual("ed25519, s plus the order", key, lambda what: _plus(plain(what), curve.L))
    yield usual("ed25519, s plus eight orders", key, lambda what: _plus(plain(what), 8 * curve.L))
    yield usual("ed25519, R with a part of small order", key, partial(curve.sign, scalar, usual_key, r_plus=eighth))
    yield usual("ed25519, DER around the signature", key, lambda what: item(4, plain(what)))


def _with_small_r(scalar: int, key: bytes, small: bytes, what: bytes) -> bytes:
    s = curve.challenge(small, key, what) * scalar % curve.L
    return small + s.to_bytes(32, "little")


def _plus(signature: bytes, more: int) -> bytes:
    return signature[:32] + (int.from_bytes(signature[32:], "little") + more).to_bytes(32, "little")


def dss_forms(order: int, r: int, s: int) -> dict[str, bytes]:
    """Return encodings of a valid ECDSA signature on which decoders differ, and of wrong signatures."""
    strict = dss(r, s)
    unsigned = [value.to_bytes(32, "big") for value in (r, s)]
    padded = item(0x30, item(2, bytes(2) + unsigned[0]), item(2, bytes(2) + unsigned[1]))
    return {
        "the greater s": dss(r, order - s),
        "a byte after the DER": strict + b"\0",
        "100 bytes after the DER": strict + bytes(100),
        "another number in the sequence": item(0x30, integer(r), integer(s), integer(1)),
        "junk in the sequence": item(0x30, integer(r), integer(s), b"\xff\xff"),
        "r and s padded": padded,
        "r without its sign": item(0x30, item(2, (r | 1 << 255).to_bytes(32, "big")), integer(s)),
        "a long length": b"\x30\x81" + strict[1:],
        "a long length of a number": b"\x30" + bytes((strict[1] + 1,)) + b"\2\x81" + strict[3:],
        "an indefinite length": b"\x30\x80" + strict[2:] + b"\0\0",
        "a set": b"\x31" + strict[1:],
        "r and s side by side": b"".join(unsigned),
        "65 bytes": b"\x1b" + b"".join(unsigned),
        "r is zero": dss(0, s),
        "s is zero": dss(r, 0),
        "r is negative": item(0x30, b"\2\1\xff", integer(s)),
        "s is the order": dss(r, order),
        "s plus the order": dss(r, s + order),
        "r plus the order": dss(r + order, s),
        "empty numbers": b"\x30\4\2\0\2\0",
    }


def dss_cases(kind: str, key: Elliptic) -> Iterator[Case]:
    order = ORDERS[type(key.curve)]
    for form in dss_forms(order, 1, 1):
        sign = lambda what, form=form: dss_forms(order, *key.rs(what))[form]  # noqa: E731
        yield usual(f"{kind} DER: {form}", key, sign)


def secp256k1_cases() -> Iterator[Case]:
    key = Elliptic.of("points", ec.SECP256K1, SECP256K1)
    yield from dss_cases("secp256k1", key)
    y = key.numbers[1]
    wrong = {
        "uncompressed": key.point(),
        "hybrid": key.hybrid,
        "hybrid with the wrong sign": key.point(7 - y % 2),
        "prefix 5": b"\5" + key.compressed[1:],
        "the other sign": bytes((key.compressed[0] ^ 1,)) + key.compressed[1:],
        "x alone": key.compressed[1:],
        "a byte after": key.compressed + b"\0",
        "infinity": b"\0",
        "x beyond the prime": b"\2" + b"\xff" * 32,
        "x of no point": b"\2" + (5).to_bytes(32, "big"),
        "SPKI": spki(oid("ec") + oid(ec.SECP256K1), key.point()),
    }
    yield from data_cases("secp256k1 point", key, wrong)


def ecdsa_cases() -> Iterator[Case]:
    key = Elliptic.of("points", ec.SECP256R1)
    yield from dss_cases("p256", key)
    for known in ORDERS:
        yield usual(f"ecdsa on {known.name}", Elliptic.of("curves", known))
    named = oid("ec") + oid(ec.SECP256R1)
    point = key.point()
    good = spki(named, point)
    wrong = {
        "compressed": spki(named, key.compressed),
        "hybrid": spki(named, key.hybrid),
        "infinity": spki(named, b"\0"),
        "no point": spki(named, point[:-1] + bytes((point[-1] ^ 1,))),
        "the point alone": point,
        "another algorithm": spki(oid("ecdh") + oid(ec.SECP256R1), point),
        "no parameters": spki(oid("ec"), point),
        "parameters NULL": spki(oid("ec") + NULL, point),
        "a third in the algorithm": spki(named + NULL, point),
        "unused bits": spki(named, point, 1),
        "a byte after": good + b"\0",
        "a byte in the sequence": b"\x30" + bytes((good[1] + 1,)) + good[2:] + b"\0",
        "a third in the sequence": item(0x30, good[2:], NULL),
        "a long length": b"\x30\x81" + good[1:],
        "a wrong length": b"\x30\x10" + good[2:],
        "an indefinite length": b"\x30\x80" + good[2:] + b"\0\0",
        "js's form": item(0x30, integer(1), item(0xA0, oid(ec.SECP256R1)), item(0xA1, bit_string(point))),
    }
    yield from data_cases("p256 SPKI", key, wrong)
    js = Signer(ECDSA, wrong["js's form"]).encoded

    def side_by_side(what: bytes) -> bytes:
        return b"".join(value.to_bytes(32, "big") for value in key.rs(what))

    yield signed("p256, as js writes it", identity(js), side_by_side, js)
    yield signed("p256, as js writes it, without its key", identity(js), side_by_side)


def rsa_cases() -> Iterator[Case]:
    for bits in (512, 1024, 2040, 2041, 2047, 2049, 2056, 3072, 4096, 8192, 8193):
        yield usual(f"rsa of {bits} bits", Rsa.of(bits))
    for exponent in (3, 5, 17, 257, 65539, (1 << 31) - 1, (1 << 32) + 15, (1 << 33) + 17):
        yield usual(f"rsa with exponent {exponent}", Rsa.of(2048, exponent))
    key = Rsa.of(2048)
    number = integer(key.modulus)
    pkcs1 = item(0x30, number, integer(key.exponent))
    algorithm = oid("rsa") + NULL
    good = spki(algorithm, pkcs1)
    wrong = {
        "no NULL": spki(oid("rsa"), pkcs1),
        "PSS": spki(oid("pss"), pkcs1),
        "PSS with NULL": spki(oid("pss") + NULL, pkcs1),
        "parameters of PSS": spki(oid("pss") + item(0x30), pkcs1),
        "parameters that are no NULL": spki(oid("rsa") + integer(0), pkcs1),
        "a third in the algorithm": spki(algorithm + NULL, pkcs1),
        "unused bits": spki(algorithm, pkcs1, 1),
        "PKCS1": pkcs1,
        "a byte after": good + b"\0",
        "a third in the sequence": item(0x30, item(0x30, algorithm), bit_string(pkcs1), NULL),
        "a byte after the numbers": spki(algorithm, pkcs1 + b"\0"),
        "a third number": spki(algorithm, item(0x30, number, integer(key.exponent), integer(1))),
        "a negative modulus": spki(algorithm, item(0x30, item(2, number[5:]), integer(key.exponent))),
        "a padded modulus": spki(algorithm, item(0x30, item(2, b"\0" + number[4:]), integer(key.exponent))),
        "a padded exponent": spki(algorithm, item(0x30, number, item(2, b"\0\1\0\1"))),
        "exponent 1": spki(algorithm, item(0x30, number, integer(1))),
        "exponent 2": spki(algorithm, item(0x30, number, integer(2))),
        "exponent 65536": spki(algorithm, item(0x30, number, integer(65536))),
        "an exponent as long as the modulus": spki(algorithm, item(0x30, number, integer(key.modulus - 2))),
        "an even modulus": spki(algorithm, item(0x30, integer(key.modulus - 1), integer(key.exponent))),
        "modulus zero": spki(algorithm, item(0x30, integer(0), integer(key.exponent))),
        "a long length": b"\x30\x83\0" + good[2:],
        "an indefinite length": b"\x30\x80" + good[4:] + b"\0\0",
    }
    yield from data_cases("rsa SPKI", key, wrong, inlined=False)
    other_kind = Signer(ECDSA, good).encoded
    yield signed("rsa, another kind around the key", hashed(other_kind), key.sign, other_kind)

    sha1_info = bytes.fromhex("3021300906052b0e03021a05000414")
    sha512_info = bytes.fromhex("3051300d060960864801650304020305000440")
    without_null = bytes.fromhex("302f300b06096086480165030402010420")
    yield from (
        usual(f"rsa signature: {name}", key, sign)
        for name, sign in {
            "info without NULL": lambda what: key.raw(key.padded(without_null + sha256(what).digest())),
            "no info": lambda what: key.raw(key.padded(sha256(what).digest())),
            "SHA-1": lambda what: key.raw(key.padded(sha1_info + sha1(what).digest())),
            "SHA-512": lambda what: key.raw(key.padded(sha512_info + sha512(what).digest())),
            "type 2": lambda what: key.raw(b"\0\2" + key.padded(digest_info(what))[2:]),
            "other padding": lambda what: key.raw(key.padded(digest_info(what), b"\xfe")),
            "junk after a short padding": lambda what: key.raw(
                (b"\0\1" + b"\xff" * 8 + b"\0" + digest_info(what)).ljust(key.size, b"\0")
            ),
            "plus the modulus": lambda what: (int.from_bytes(key.sign(what), "big") + key.modulus).to_bytes(
                key.size + 1, "big"
            ),
            "a zero before": lambda what: b"\0" + key.sign(what),
            "SHA-256 as the bytes themselves": lambda what: key.padded(digest_info(what)),
        }.items()
    )


def author_cases() -> Iterator[Case]:
    key = Edwards.of("authors")
    long = Rsa.of(2048)
    digest = sha256(key.encoded).digest()
    for name, author in {
        "absent": None,
        "empty": b"",
        "one byte": b"\0",
        "identity of nothing": b"\0\0",
        "SHA-256 of 31 bytes": b"\x12\x1f" + digest[:31],
        "SHA-256 of 33 bytes": b"\x12\x21" + digest + b"\0",
        "SHA-256 of 20 bytes": b"\x12\x14" + digest[:20],
        "SHA-1": b"\x11\x14" + sha1(key.encoded).digest(),
        "SHA-512": b"\x13\x40" + sha512(key.encoded).digest(),
        "a code of two bytes": b"\x80\0" + varint(len(key.encoded)) + key.encoded,
        "a length of two bytes": b"\0" + bytes((len(key.encoded) | 0x80, 0)) + key.encoded,
        "a byte after": identity(key.encoded) + b"\0",
        "cut off": identity(key.encoded)[:-1],
        "the key alone": key.encoded,
        "text": b"12D3KooW" + bytes(30),
        "a CID": b"\1\x72" + identity(key.encoded),
    }.items():
        yield signed(f"author: {name}", author, key.sign)
        yield signed(f"author: {name}, with the key", author, key.sign, key.encoded)
    for name, author in {
        "rsa in 64 bytes": b"\0\x40" + long.encoded[:64],
        "an rsa key inlined": identity(long.encoded),
    }.items():
        yield signed(f"author: {name}, with the key", author, long.sign, long.encoded)


FIELD_FORMS: dict[str, Callable[[int, bytes], tuple[bytes, bytes, bytes]]] = {
    "twice": lambda number, field: (bytes_field(number, b"other"), field, b""),
    "twice, the wrong one last": lambda number, field: (b"", field, bytes_field(number, b"other")),
    "first": lambda number, field: (field, b"", b""),
    "a long length": lambda number, field: (b"", field[:1] + bytes((field[1] | 0x80, 0)) + field[2:], b""),
    "a long tag": lambda number, field: (b"", bytes((field[0] | 0x80, 0)) + field[1:], b""),
    "absent": lambda number, field: (b"", b"", b""),
    "empty": lambda number, field: (b"", bytes_field(number, b""), b""),
}
"""Functions that return bytes before all fields, in place of the field, and after all fields."""


def field_cases() -> Iterator[Case]:
    for kind, more in FIELDS["unknown"].items():
        for how in ("not signed", "signed"):
            name = f"unknown field: {kind}, {how}"
            key = Edwards.of(name)
            body = body_of(peer_of(key.encoded), name.encode(), seqno_of(name))
            signature = key.sign(PREFIX + body + (more if how == "signed" else b""))
            yield Case(name, body + bytes_field(5, signature) + more)
    key = Edwards.of("fields")
    author = peer_of(key.encoded)

    def parts(name: str) -> list[bytes]:
        body = body_of(author, name.encode(), seqno_of(name))
        values = (author, name.encode(), seqno_of(name), TOPIC, key.sign(PREFIX + body))
        return [bytes_field(number, value) for number, value in enumerate(values, 1)]

    for number, what in enumerate(("author", "data", "number", "topic", "signature"), 1):
        for how, form in FIELD_FORMS.items():
            name = f"{how}: {what}"
            there = parts(name)
            before, there[number - 1], after = form(number, there[number - 1])
            yield Case(name, before + b"".join(there) + after)
    name = "backwards"
    yield Case(name, b"".join(reversed(parts(name))))
    name = "cut off"
    yield Case(name, b"".join(parts(name))[:-1])
    yield Case("nothing at all", b"")
    for size in (0, 1, 7, 9, 16, 300):
        yield signed(f"a number of {size} bytes", author, key.sign, seqno=b"\1" * size)
    yield from emptiness_cases()


def emptiness_cases() -> Iterator[Case]:
    """Yield messages with fields that are absent or empty, in the sent or in the signed bytes."""
    for what, sent, signed_as in (
        ("data is absent", None, None),
        ("data is empty", b"", b""),
        ("data is empty, signed as absent", b"", None),
        ("data is absent, signed as empty", None, b""),
    ):
        key = Edwards.of(what)
        author, seqno = peer_of(key.encoded), seqno_of(what)
        signature = key.sign(PREFIX + body_of(author, signed_as, seqno))
        yield Case(what, body_of(author, sent, seqno) + bytes_field(5, signature))
    key = Edwards.of("no number")
    body = body_of(peer_of(key.encoded), b"no number is signed", None)
    yield Case("no number is signed", body + bytes_field(5, key.sign(PREFIX + body)))


def unsigned_cases() -> Iterator[Case]:
    def plain(name: str) -> bytes:
        return bytes_field(2, name.encode()) + bytes_field(4, TOPIC)

    key = Edwards.of("unsigned")
    author, seqno = bytes_field(1, peer_of(key.encoded)), bytes_field(3, b"12345678")
    signature, own_key = bytes_field(5, bytes(64)), bytes_field(6, key.encoded)
    for what, before, after in (
        ("as usual", b"", b""),
        ("with author", author, b""),
        ("with number", b"", seqno),
        ("with author and number", author, seqno),
        ("with a signature", b"", signature),
        ("with a key", b"", own_key),
        ("with all", author, seqno + signature + own_key),
        ("with an empty author", bytes_field(1, b""), b""),
        ("with an empty number", b"", bytes_field(3, b"")),
        ("with an empty signature", b"", bytes_field(5, b"")),
        ("with an empty key", b"", bytes_field(6, b"")),
    ):
        yield Case(f"unsigned {what}", before + plain(f"unsigned {what}") + after, unsigned=True)
    for kind, more in FIELDS["unknown"].items():
        name = f"unsigned with an unknown field: {kind}"
        yield Case(name, plain(name) + more, unsigned=True)
    name = "unsigned and backwards"
    yield Case(name, bytes_field(4, TOPIC) + bytes_field(2, name.encode()), unsigned=True)
    name = "unsigned, data twice"
    yield Case(name, bytes_field(2, b"other") + plain(name), unsigned=True)
    yield Case("unsigned, without data", bytes_field(4, TOPIC), unsigned=True)
    yield Case("unsigned, without topic", bytes_field(2, b"unsigned, without topic"), unsigned=True)


def rpc_cases() -> Iterator[Case]:
    """Yield a valid message in RPCs with other fields."""
    key = Edwards.of("in an RPC")
    fields = {f"control: {name}": bytes_field(3, part) for name, part in FIELDS["control"].items()}
    fields |= {f"unknown: {name}": field for name, field in FIELDS["unknown"].items()}
    for name, field in {**fields, **FIELDS["rpc"]}.items():
        for place in ("before", "after"):
            full = f"RPC with {name}, {place}"
            yield replace(usual(full, key), **{place: field})


def corpus() -> list[Case]:
    cases = [
        *key_cases(),
        *edwards_cases(),
        *secp256k1_cases(),
        *ecdsa_cases(),
        *rsa_cases(),
        *author_cases(),
        *field_cases(),
        *unsigned_cases(),
        *rpc_cases(),
    ]
    assert len({case.name for case in cases}) == len(cases)
    return cases
