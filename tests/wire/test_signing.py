"""Signatures: policies, the signed bytes, and the bytes that forwarding keeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from message_faults import fault_of
from protobuf_reference import ReferenceRpc
from signers import Rsa

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import Message, Rpc
from hearsay.libp2p.names.keys import PrivateKey, PublicKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_message, encode_rpc
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_author
from hearsay.wire.signing import Author, SignaturePolicy

STRICT, UNSIGNED = SignaturePolicy.STRICT_SIGN, SignaturePolicy.STRICT_NO_SIGN
ALICE, BOB = (PrivateKey.from_seed(bytes([number]) * 32) for number in (1, 2))


def received(data):
    """Return the message in these bytes, as received from a peer."""
    (message,) = decode_rpc(bytes_field(2, data), by_author, RpcLimits()).rpc.messages
    return message


def test_a_signed_message_is_accepted_and_forwarded_unchanged():
    message = Author(ALICE, 1_700_000_000_000_000_000).write("t", b"data", STRICT)
    data = encode_message(message)
    decoded = received(data)
    assert fault_of(decoded, STRICT) is None
    assert encode_rpc(Rpc(messages=(decoded,))) == bytes_field(2, data)
    assert decoded.id == peer_id_of(ALICE.public) + decoded.seqno
    assert decoded.key is None


def test_the_signature_covers_prefix_and_all_fields_but_signature_and_key():
    message = Author(ALICE, 7).write("t", b"data", STRICT)
    reference = ReferenceRpc.FromString(encode_rpc(Rpc(messages=(message,)))).messages[0]
    signature = reference.signature
    reference.ClearField("signature")
    assert ALICE.public.verify(signature, b"libp2p-pubsub:" + reference.SerializeToString())


def test_sequence_numbers_count_up_from_the_start():
    author = Author(ALICE, 1_700_000_000_000_000_000)
    numbers = [author.write("t", b"", STRICT).seqno for _ in range(3)]
    assert [int.from_bytes(number, "big") - 1_700_000_000_000_000_000 for number in numbers] == [0, 1, 2]
    assert {len(number) for number in numbers} == {8}


def test_a_signature_of_a_message_without_a_data_field_is_valid():
    """js-libp2p leaves out an empty data field; a new encoding with this field would break the signature."""
    signed = bytes_field(1, peer_id_of(ALICE.public)) + bytes_field(3, b"12345678") + bytes_field(4, b"t")
    data = signed + bytes_field(5, ALICE.sign(b"libp2p-pubsub:" + signed))
    assert fault_of(received(data), STRICT) is None
    assert encode_message(received(data)) == data


UNKNOWN_FIELDS = {
    "bytes": bytes_field(9, b"more"),
    "varint": varint_field(9, 1),
    "fixed64": b"\x49" + bytes(8),
    "fixed32": b"\x4d" + bytes(4),
    "group": b"\x4b\x4c",
    "deep groups": b"\x4b" * 5000 + b"\x4c" * 5000,
    "data as varint": varint_field(2, 1),
}


@pytest.mark.parametrize("more", UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS)
def test_a_signed_message_with_unknown_fields_is_refused_without_blame(more):
    """go verifies signatures with the unknown fields and relays these fields; rust drops them before verification."""
    message = Author(ALICE, 1).write("t", b"data", STRICT)
    bare = encode_message(replace(message, signature=None, encoded=None))
    for signed in (bare, bare + more):
        signature = bytes_field(5, ALICE.sign(b"libp2p-pubsub:" + signed))
        for strange in (bare + signature + more, bare + more + signature):
            fault = fault_of(received(strange), STRICT)
            assert (fault.reason, fault.forged) == (Reason.UNSUPPORTED, False)


def test_an_unsigned_message_with_unknown_fields_is_forwarded_without_them():
    data = encode_message(Author(ALICE, 7).write("t", b"data", UNSIGNED))
    decoded = received(data + bytes_field(9, b"added"))
    assert fault_of(decoded, UNSIGNED) is None
    assert encode_message(decoded) == data


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
    secret = Rsa.of(2048)
    key = PublicKey.decode(secret.encoded)
    signed = (
        bytes_field(1, peer_id_of(key)) + bytes_field(2, b"data") + bytes_field(3, b"12345678") + bytes_field(4, b"t")
    )
    signature = bytes_field(5, secret.sign(b"libp2p-pubsub:" + signed))
    assert fault_of(received(signed + signature + bytes_field(6, key.encoded)), STRICT) is None
    assert fault_of(received(signed + signature), STRICT).why == "its author's key is missing"


def test_strict_no_sign_neither_sends_nor_accepts_signature_fields():
    bare = Author(ALICE, 7).write("t", b"data", UNSIGNED)
    assert encode_message(bare) == bytes_field(2, b"data") + bytes_field(4, b"t")
    assert fault_of(received(encode_message(bare)), UNSIGNED) is None
    for number, reason in ((1, Reason.UNSUPPORTED), (3, Reason.UNSUPPORTED), (5, Reason.BAD_SIGNATURE)):
        fault = fault_of(received(encode_message(bare) + bytes_field(number, b"x")), UNSIGNED)
        assert "does not allow" in fault.why
        assert (fault.reason, fault.forged) == (reason, False)
    keyed = fault_of(received(encode_message(bare) + bytes_field(6, b"x")), UNSIGNED)
    assert keyed.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize("policy", [SignaturePolicy.LAX_SIGN, SignaturePolicy.LAX_NO_SIGN])
def test_lax_policies_accept_unsigned_messages_and_verify_signed_messages(policy):
    assert (Author(ALICE, 7).write("t", b"", policy).signature is not None) is policy.signs
    assert fault_of(Message(b"", "t", b"data"), policy) is None
    signed = Author(ALICE, 7).write("t", b"data", STRICT)
    assert fault_of(signed, policy) is None
    assert fault_of(replace(signed, data=b"other"), policy).why == "its signature is wrong"


def test_an_empty_data_field_that_a_relay_added_is_refused_without_blame():
    """rust relays a message without data as one with an empty data field."""
    author, rest = bytes_field(1, peer_id_of(ALICE.public)), bytes_field(3, b"12345678") + bytes_field(4, b"t")
    signature = bytes_field(5, ALICE.sign(b"libp2p-pubsub:" + author + rest))
    assert fault_of(received(author + rest + signature), STRICT) is None
    fault = fault_of(received(author + bytes_field(2, b"") + rest + signature), STRICT)
    assert (fault.reason, fault.forged) == (Reason.UNSUPPORTED, False)


def test_a_wrong_signature_is_blamed():
    message = replace(Author(ALICE, 1).write("t", b"data", STRICT), signature=BOB.sign(b"other"))
    fault = fault_of(message, STRICT)
    assert (fault.why, fault.reason, fault.forged) == ("its signature is wrong", Reason.BAD_SIGNATURE, True)


def test_a_key_next_to_an_inlined_one_is_refused_without_blame():
    """go refuses a message whose key it cannot read; rust uses the key in the peer id."""
    message = Author(ALICE, 1).write("t", b"data", STRICT)
    assert fault_of(replace(message, key=ALICE.public.encoded), STRICT) is None
    for key in (b"", b"junk", BOB.public.encoded, bytes_field(2, ALICE.public.data) + varint_field(1, 1)):
        fault = fault_of(replace(message, key=key), STRICT)
        assert (fault.reason, fault.forged) == (Reason.UNSUPPORTED, False)
