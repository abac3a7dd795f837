"""Signatures: policies, what is covered, what forwarding keeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from protobuf_reference import ReferenceRpc

from hearsay.core.language.rpc import Message, Rpc
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_message, encode_rpc
from hearsay.wire.limits import RpcLimits
from hearsay.wire.message_ids import by_author
from hearsay.wire.signing import Author, SignaturePolicy, fault_of

STRICT, UNSIGNED = SignaturePolicy.STRICT_SIGN, SignaturePolicy.STRICT_NO_SIGN
ALICE, BOB = (PrivateKey.from_seed(bytes([number]) * 32) for number in (1, 2))


def received(data):
    """The message in these bytes, as a peer's."""
    (message,) = decode_rpc(bytes_field(2, data), by_author, RpcLimits()).rpc.messages
    return message


def test_what_is_signed_is_accepted_and_forwarded_as_it_was():
    message = Author(ALICE, 1_700_000_000_000_000_000).write("t", b"data", STRICT)
    data = encode_message(message)
    there = received(data)
    assert fault_of(there, STRICT) is None
    assert encode_rpc(Rpc(messages=(there,))) == bytes_field(2, data)
    assert there.id == peer_id_of(ALICE.public) + there.seqno
    assert there.key is None


def test_the_signature_covers_prefix_and_all_fields_but_signature_and_key():
    message = Author(ALICE, 7).write("t", b"data", STRICT)
    reference = ReferenceRpc.FromString(encode_rpc(Rpc(messages=(message,)))).publish[0]
    signature = reference.signature
    reference.ClearField("signature")
    assert ALICE.public.verify(signature, b"libp2p-pubsub:" + reference.SerializeToString())


def test_sequence_numbers_count_up_from_the_start():
    author = Author(ALICE, 1_700_000_000_000_000_000)
    numbers = [author.write("t", b"", STRICT).seqno for _ in range(3)]
    assert [int.from_bytes(number, "big") - 1_700_000_000_000_000_000 for number in numbers] == [0, 1, 2]
    assert {len(number) for number in numbers} == {8}


def test_a_signature_over_a_message_without_data_field():
    """js-libp2p leaves out an empty data field; encoding it again would break the signature."""
    signed = bytes_field(1, peer_id_of(ALICE.public)) + bytes_field(3, b"12345678") + bytes_field(4, b"t")
    data = signed + bytes_field(5, ALICE.sign(b"libp2p-pubsub:" + signed))
    assert fault_of(received(data), STRICT) is None
    assert encode_message(received(data)) == data


def test_fields_added_on_the_way_are_neither_signed_nor_forwarded():
    data = encode_message(Author(ALICE, 7).write("t", b"data", STRICT))
    there = received(data + bytes_field(9, b"added"))
    assert fault_of(there, STRICT) is None
    assert encode_message(there) == data


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"data": b"other"}, "signature is wrong"),
        ({"topic": "other"}, "signature is wrong"),
        ({"seqno": b"87654321"}, "signature is wrong"),
        ({"source": peer_id_of(BOB.public)}, "signature is wrong"),
        ({"signature": None}, "not signed"),
        ({"source": None}, "no author"),
        ({"source": b"\x00\x01x"}, "cut off|longer"),
        ({"source": b"junk"}, "peer id"),
        ({"seqno": None}, "8 bytes"),
        ({"seqno": b"1"}, "8 bytes"),
        ({"key": BOB.public.encoded}, "not its author's"),
        ({"key": b"junk"}, "."),
    ],
)
def test_strict_sign_refuses(change, complaint):
    message = replace(Author(ALICE, 7).write("t", b"data", STRICT), **change)
    fault = fault_of(received(encode_message(message)), STRICT)
    assert fault is not None

    assert re.search(complaint, fault.why)


def test_a_key_that_does_not_fit_into_the_peer_id_comes_along():
    secret = ec.generate_private_key(ec.SECP256R1())
    der = secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    key = PublicKey.decode(varint_field(1, 3) + bytes_field(2, der))
    signed = (
        bytes_field(1, peer_id_of(key)) + bytes_field(2, b"data") + bytes_field(3, b"12345678") + bytes_field(4, b"t")
    )
    signature = bytes_field(5, secret.sign(b"libp2p-pubsub:" + signed, ec.ECDSA(SHA256())))
    assert fault_of(received(signed + signature + bytes_field(6, key.encoded)), STRICT) is None
    assert fault_of(received(signed + signature), STRICT).why == "its author's key is missing"


def test_strict_no_sign_sends_none_of_it_and_refuses_all_of_it():
    bare = Author(ALICE, 7).write("t", b"data", UNSIGNED)
    assert encode_message(bare) == bytes_field(2, b"data") + bytes_field(4, b"t")
    assert fault_of(received(encode_message(bare)), UNSIGNED) is None
    for extra in (bytes_field(1, b"x"), bytes_field(3, b"x"), bytes_field(5, b"x"), bytes_field(6, b"x")):
        assert "does not allow" in fault_of(received(encode_message(bare) + extra), UNSIGNED).why


@pytest.mark.parametrize("policy", [SignaturePolicy.LAX_SIGN, SignaturePolicy.LAX_NO_SIGN])
def test_lax_forms_take_unsigned_messages_and_verify_signed_ones(policy):
    assert (Author(ALICE, 7).write("t", b"", policy).signature is not None) is policy.signs
    assert fault_of(Message(b"", "t", b"data"), policy) is None
    signed = Author(ALICE, 7).write("t", b"data", STRICT)
    assert fault_of(signed, policy) is None
    assert fault_of(replace(signed, data=b"other"), policy).why == "its signature is wrong"


def test_what_others_may_take_for_right_is_refused_and_nobody_is_blamed_for_it():
    """go-libp2p-pubsub keeps fields that it does not know, and what is signed with them is right for it."""
    message = Author(ALICE, 1).write("t", b"data", STRICT)
    more = bytes_field(9, b"more")
    bare = encode_message(replace(message, signature=None, encoded=None))
    with_more = ALICE.sign(b"libp2p-pubsub:" + bare + more)
    for strange in (bare + bytes_field(5, with_more) + more, bare + more + bytes_field(5, with_more)):
        fault = fault_of(received(strange), STRICT)
        assert (fault.why, fault.forged) == ("its signature is wrong", False)
    assert fault_of(received(bare + bytes_field(5, with_more)), STRICT).forged


def test_a_key_written_in_another_way_is_refused_and_nobody_is_blamed_for_it():
    """go-libp2p-pubsub writes it anew before it compares it with the author's peer id."""
    message = Author(ALICE, 1).write("t", b"data", STRICT)
    swapped = bytes_field(2, ALICE.public.data) + varint_field(1, 1)
    fault = fault_of(replace(message, key=swapped), STRICT)
    assert "not encoded in the one way" in fault.why
    assert not fault.forged
