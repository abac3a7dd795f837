"""Keys and peer ids against the vectors of the libp2p specification ("Peer Ids and Keys"), and against each other."""

from __future__ import annotations

import contextlib
from hashlib import sha512

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.names import keys, peer_id
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import KeyType, PrivateKey, PublicKey
from hearsay.libp2p.names.protobuf import bytes_field, varint_field

ED25519_PRIVATE = bytes.fromhex(
    "080112407e0830617c4a7de83925dfb2694556b12936c477a0e1feb2e148ec9da60fee7d"
    "1ed1e8fae2c4a144b8be8fd4b47bf3d3b34b871c3cacf6010f0e42d474fce27e"
)
ED25519_PUBLIC = bytes.fromhex("080112201ed1e8fae2c4a144b8be8fd4b47bf3d3b34b871c3cacf6010f0e42d474fce27e")
SECP256K1_PUBLIC = bytes.fromhex("08021221037777e994e452c21604f91de093ce415f5432f701dd8cd1a7a6fea0e630bfca99")
SECP256K1_SECRET = 0x53DADF1D5A164D6B4ACDB15E24AA4C5B1D3461BDBD42ABEDB0A4404D56CED8FB
ECDSA_PUBLIC = bytes.fromhex(
    "0803125b3059301306072a8648ce3d020106082a8648ce3d03010703420004de3d300fa36ae0e8f5d530899d83abab44abf3161f162a"
    "4bc901d8e6ecda020e8b6d5f8da30525e71d6851510c098e5c47c646a597fb4dcec034e9f77c409e62"
)
ECDSA_SECRET = 0x3E5B1FE9712E6C314942A750BD67485DE3C1EFE85B1BFB520AE8F9AE3DFA4A4C
RSA_PUBLIC = bytes.fromhex(
    "080012a60430820222300d06092a864886f70d01010105000382020f003082020a0282020100e1beab071d08200bde24eef0"
    "0d049449b07770ff9910257b2d7d5dda242ce8f0e2f12e1af4b32d9efd2c090f66b0f29986dbb645dae9880089704a94e506"
    "6d594162ae6ee8892e6ec70701db0a6c445c04778eb3de1293aa1a23c3825b85c6620a2bc3f82f9b0c309bc0ab3aeb187328"
    "2bebd3da03c33e76c21e9beb172fd44c9e43be32e2c99827033cf8d0f0c606f4579326c930eb4e854395ad941256542c7939"
    "02185153c474bed109d6ff5141ebf9cd256cf58893a37f83729f97e7cb435ec679d2e33901d27bb35aa0d7e20561da08885e"
    "f0abbf8e2fb48d6a5487047a9ecb1ad41fa7ed84f6e3e8ecd5d98b3982d2a901b4454991766da295ab78822add5612a2df83"
    "bcee814cf50973e80d7ef38111b1bd87da2ae92438a2c8cbcc70b31ee319939a3b9c761dbc13b5c086d6b64bf7ae7dacc146"
    "22375d92a8ff9af7eb962162bbddebf90acb32adb5e4e4029f1c96019949ecfbfeffd7ac1e3fbcc6b6168c34be3d5a2e5999"
    "fcbb39bba7adbca78eab09b9bc39f7fa4b93411f4cc175e70c0a083e96bfaefb04a9580b4753c1738a6a760ae1afd851a1a4"
    "bdad231cf56e9284d832483df215a46c1c21bdf0c6cfe951c18f1ee4078c79c13d63edb6e14feaeffabc90ad317e4875fe64"
    "8101b0864097e998f0ca3025ef9638cd2b0caecd3770ab54a1d9c6ca959b0f5dcbc90caeefc4135baca6fd475224269bbe1b"
    "0203010001"
)


def encoded_key(key_type, library_key):
    der = library_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return varint_field(1, key_type) + bytes_field(2, der)


def test_the_published_ed25519_pair():
    private = PrivateKey.decode(ED25519_PRIVATE)
    assert private.public == PublicKey.decode(ED25519_PUBLIC)
    assert private.encode() == ED25519_PRIVATE
    assert private.public.verify(private.sign(b"data"), b"data")
    assert not private.public.verify(private.sign(b"data"), b"other")


def test_the_old_form_of_an_ed25519_private_key_repeats_the_public_key():
    data = ED25519_PRIVATE[4:]
    assert PrivateKey.decode(varint_field(1, 1) + bytes_field(2, data + data[32:])).encode() == ED25519_PRIVATE
    with pytest.raises(EncodingError, match="a public key that does not match"):
        PrivateKey.decode(varint_field(1, 1) + bytes_field(2, data + bytes(32)))


@pytest.mark.parametrize(
    ("encoded", "key_type", "secret", "curve"),
    [
        (SECP256K1_PUBLIC, KeyType.SECP256K1, SECP256K1_SECRET, ec.SECP256K1()),
        (ECDSA_PUBLIC, KeyType.ECDSA, ECDSA_SECRET, ec.SECP256R1()),
    ],
)
def test_the_published_elliptic_keys_verify_what_their_secrets_sign(encoded, key_type, secret, curve):
    key = PublicKey.decode(encoded)
    assert key.type is key_type
    signature = ec.derive_private_key(secret, curve).sign(b"data", ec.ECDSA(SHA256()))
    assert key.verify(signature, b"data")
    assert not key.verify(signature, b"other")
    assert not key.verify(b"junk", b"data")


def test_the_published_rsa_key_and_one_of_our_own():
    assert PublicKey.decode(RSA_PUBLIC).type is KeyType.RSA
    private = rsa.generate_private_key(65537, 2048)
    key = PublicKey.decode(encoded_key(KeyType.RSA, private.public_key()))
    assert key.verify(private.sign(b"data", PKCS1v15(), SHA256()), b"data")


def test_small_rsa_keys_are_refused():
    with pytest.raises(EncodingError, match="1024 bits"):
        PublicKey.decode(encoded_key(KeyType.RSA, rsa.generate_private_key(65537, 1024).public_key()))


@pytest.mark.parametrize("exponent", [2, 1, 65539, (1 << 31) - 1, (1 << 2040) + 1])
def test_invalid_and_large_rsa_exponents_are_refused(exponent):
    modulus = rsa.generate_private_key(65537, 2048).public_key().public_numbers().n
    valid = rsa.RSAPublicNumbers(65537, modulus).public_key()
    assert PublicKey.decode(encoded_key(KeyType.RSA, valid)).type is KeyType.RSA
    with pytest.raises(EncodingError, match="RSA key"):
        PublicKey.decode(varint_field(1, 0) + bytes_field(2, rsa_der(modulus, exponent)))


def rsa_der(modulus, exponent):
    """Return the DER of an RSA key, valid or not."""

    def item(tag, body):
        size = len(body)
        length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
        return bytes([tag]) + length + body

    def integer(value):
        return item(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))

    key = item(0x30, integer(modulus) + integer(exponent))
    return item(0x30, bytes.fromhex("300d06092a864886f70d0101010500") + item(3, b"\0" + key))


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_ecdsa_keys_on_the_curves_in_use_are_accepted(curve):
    private = ec.generate_private_key(curve)
    key = PublicKey.decode(encoded_key(KeyType.ECDSA, private.public_key()))
    assert key.verify(private.sign(b"data", ec.ECDSA(SHA256())), b"data")


@pytest.mark.parametrize("curve", [ec.BrainpoolP512R1(), ec.BrainpoolP256R1(), ec.SECP224R1(), ec.SECP256K1()])
def test_ecdsa_keys_on_other_curves_are_refused(curve):
    with pytest.raises(EncodingError, match=curve.name):
        PublicKey.decode(encoded_key(KeyType.ECDSA, ec.generate_private_key(curve).public_key()))


TORSION = (
    "0100000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
)
"""The eight points of Ed25519 whose order divides eight."""


@pytest.mark.parametrize("point", [*TORSION, "01" + "00" * 30 + "80", "ee" + "ff" * 30 + "7f", "f0" + "ff" * 31])
def test_ed25519_keys_of_small_order_or_in_a_second_encoding_are_refused(point):
    with pytest.raises(EncodingError, match="of small order"):
        PublicKey.decode(varint_field(1, 1) + bytes_field(2, bytes.fromhex(point)))


@pytest.fixture(params=["libsodium", "OpenSSL"])
def library(request, monkeypatch):
    if request.param == "OpenSSL":
        monkeypatch.setattr(keys, "_open_signed", None)
    elif keys._open_signed is None:
        pytest.skip("PyNaCl is not installed")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("point", TORSION)
def test_signatures_with_a_point_of_small_order_are_refused_by_both_libraries(point):
    """With the neutral point, the owner of a key can make a signature that OpenSSL alone accepts: s = h * a."""
    own = PrivateKey.from_seed(bytes(32))
    scalar = int.from_bytes(sha512(bytes(32)).digest()[:32], "little") & ((1 << 254) - 8) | 1 << 254
    order = (1 << 252) + 27742317777372353535851937790883648493
    encoded = bytes.fromhex(point)
    hashed = int.from_bytes(sha512(encoded + own.public.data + b"data").digest(), "little")
    signature = encoded + (hashed * scalar % order).to_bytes(32, "little")
    assert not own.public.verify(signature, b"data")
    assert own.public.is_disputed(signature)


@pytest.mark.usefixtures("library")
def test_both_libraries_accept_only_signatures_of_64_bytes():
    own = PrivateKey.from_seed(bytes(32))
    signature = own.sign(b"x" + b"data")
    assert own.public.verify(signature, b"xdata")
    assert not own.public.verify(signature + b"x", b"data")
    assert not own.public.verify(signature[:-1], signature[-1:] + b"xdata")
    assert not own.public.is_disputed(signature)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [
        (b"", "without type or data"),
        (varint_field(1, 9) + bytes_field(2, bytes(32)), "key type 9 is unknown"),
        (varint_field(1, 1) + bytes_field(2, bytes(31)), "not a ED25519 key"),
        (varint_field(1, 3) + RSA_PUBLIC[2:], "another type"),
        (bytes_field(2, ED25519_PUBLIC[4:]) + varint_field(1, 1), "not canonical"),
        (varint_field(1, 0) + bytes_field(2, bytes(3000)), "at most 2048"),
    ],
)
def test_invalid_keys_are_refused(encoded, complaint):
    with pytest.raises(EncodingError, match=complaint):
        PublicKey.decode(encoded)


def test_the_published_peer_ids():
    digest = "bafzbeie5745rpv2m6tjyuugywy4d5ewrqgqqhfnf445he3omzpjbx5xqxe"
    base58 = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
    assert peer_id.from_text(digest) == peer_id.from_text(base58)
    assert peer_id.to_text(peer_id.from_text(digest)) == base58
    inlined = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
    assert peer_id.to_text(peer_id.from_text(inlined)) == inlined
    key = peer_id.inlined_key(peer_id.from_text(inlined))
    assert key is not None
    assert peer_id.to_text(peer_id.peer_id_of(key)) == inlined


def test_short_keys_are_inlined_and_long_ones_hashed():
    assert peer_id.peer_id_of(PublicKey.decode(ED25519_PUBLIC)) == b"\x00\x24" + ED25519_PUBLIC
    assert peer_id.peer_id_of(PublicKey.decode(SECP256K1_PUBLIC)) == b"\x00\x25" + SECP256K1_PUBLIC
    hashed = peer_id.peer_id_of(PublicKey.decode(RSA_PUBLIC))
    assert hashed[:2] == b"\x12\x20"
    assert len(hashed) == 34
    assert peer_id.inlined_key(hashed) is None


def test_an_inlined_key_has_at_most_42_bytes():
    assert peer_id.check_peer_id(bytes((0, 42, *range(42)))) == bytes((0, 42, *range(42)))
    for length in (0, 43, 127, 255):
        with pytest.raises(EncodingError, match=f"unknown hash: type 0x00, {length} bytes"):
            peer_id.check_peer_id(bytes((0, length)) + bytes(length))


def test_a_text_is_measured_before_it_is_decoded():
    with pytest.raises(EncodingError, match="1…100 characters, not 1000000"):
        peer_id.from_text("1" * 1_000_000)


@pytest.mark.parametrize(
    "text", ["", "0", "Qm", "1", "x" * 101, "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"]
)
def test_invalid_texts_of_peer_ids_are_refused(text):
    with pytest.raises(EncodingError):
        peer_id.from_text(text)


@given(st.text(max_size=110) | st.text("123ABCbafzQm", max_size=110))
def test_any_text_is_a_peer_id_or_an_encoding_error(text):
    try:
        raw = peer_id.from_text(text)
    except EncodingError:
        return
    assert peer_id.from_text(peer_id.to_text(raw)) == raw


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda raw: ED25519_PUBLIC[:4] + raw))
def test_any_bytes_are_a_key_or_an_encoding_error(raw):
    with contextlib.suppress(EncodingError):
        assert PublicKey.decode(raw).encoded == raw


@given(st.binary(max_size=200), st.integers(0, 63), st.integers(0, 255), st.booleans())
def test_libsodium_and_openssl_accept_the_same_signatures(data, place, value, other_data):
    key = PrivateKey.from_seed(bytes(31) + bytes((value,)))
    signature = bytearray(key.sign(data))
    if place:
        signature[place] ^= value
    data += b"x" * other_data
    openssl_accepts = True
    try:
        Ed25519PublicKey.from_public_bytes(key.public.data).verify(bytes(signature), data)
    except InvalidSignature:
        openssl_accepts = False
    assert key.public.verify(bytes(signature), data) is openssl_accepts
    assert not key.public.verify(bytes(signature)[:-1], data)


def test_a_key_that_is_refused_is_parsed_once():
    brainpool = ec.generate_private_key(ec.BrainpoolP256R1()).public_key()
    before = keys._decode_long.cache_info()
    for _ in range(3):
        with pytest.raises(EncodingError, match="brainpool"):
            PublicKey.decode(encoded_key(KeyType.ECDSA, brainpool))
    after = keys._decode_long.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
