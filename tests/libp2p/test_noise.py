"""Noise XX against a published vector (cacophony), libp2p's identities on top, and attacks on both."""

from __future__ import annotations

import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

from hearsay.libp2p.names import peer_id
from hearsay.libp2p.names.errors import NoiseError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.noise import MAX_HANDSHAKE_BYTES, MAX_PLAINTEXT_BYTES, XX, Handshake

ALICE, BOB, EVE = (PrivateKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
LOW_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
"""The points of Curve25519 whose shared secret is zero, whatever the private key (cr.yp.to/ecdh.html)."""


def x25519(text):
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def test_the_published_vector():
    prologue = bytes.fromhex("4a6f686e2047616c74")
    alice = XX(
        True,
        x25519("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"),
        x25519("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"),
        prologue,
    )
    bob = XX(
        False,
        x25519("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"),
        x25519("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"),
        prologue,
    )
    handshake = [
        (
            "4c756477696720766f6e204d69736573",
            "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79444c756477696720766f6e204d69736573",
        ),
        (
            "4d757272617920526f746862617264",
            "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884381cbad1f276e038c48378ffce2b65285"
            "e08d6b68aaa3629a5a8639392490e5b9bd5269c2f1e4f488ed8831161f19b7815528f8982ffe09be9b5c412f8a0db50f"
            "8814c7194e83f23dbd8d162c9326ad",
        ),
        (
            "462e20412e20486179656b",
            "c7195ffacac1307ff99046f219750fc47693e23c3cb08b89c2af808b444850a80ae475b9df0f169ae80a89be0865b57f"
            "58c9fea0d4ec82a286427402f113e4b6ae769a1d95941d49b25030",
        ),
    ]
    writer, reader = alice, bob
    for payload, ciphertext in handshake:
        assert writer.write(bytes.fromhex(payload)).hex() == ciphertext
        assert reader.read(bytes.fromhex(ciphertext)).hex() == payload
        writer, reader = reader, writer
    assert alice.hash == bob.hash
    assert alice.hash.hex() == "c8e5f64e846193be2a834104c2a009868d6c9f3bd3c186299888b488b2f1f58e"
    (a_seals, a_opens), (b_seals, b_opens) = alice.split(), bob.split()
    assert b_seals.encrypt(b"Carl Menger").hex() == "96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"
    third = "3e40f15f6f3a46ae446b253bf8b1d9ffb6ed9b174d272328ff91a7e2e5c79c07f5"
    assert a_seals.encrypt(b"Jean-Baptiste Say").hex() == third
    assert b_opens.decrypt(bytes.fromhex(third)) == b"Jean-Baptiste Say"
    fourth = "eb3f3515110702e047a6c9da4478b6ead94873c11c0f2d710ddb3f09fce024b3a58502ae3f"
    a_opens.decrypt(bytes.fromhex("96763ed773f8e47bb3712f0e29b3060ffc956ffc146cee53d5e1df"))
    assert a_opens.decrypt(bytes.fromhex(fourth)) == b"Eugen B\xf6hm von Bawerk"


def shake_hands(dialer, listener):
    """Return the channels of both sides after the handshake."""
    to_dialer = listener.receive(dialer.start())
    listener.receive(dialer.receive(to_dialer))
    return dialer.channel, listener.channel


def test_both_sides_learn_the_peer_id_of_the_other():
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    assert alice.peer == peer_id.peer_id_of(BOB.public)
    assert bob.peer == peer_id.peer_id_of(ALICE.public)
    for size in (0, 1, MAX_PLAINTEXT_BYTES, MAX_PLAINTEXT_BYTES + 1, 200_000):
        data = bytes(size)
        assert bob.open(alice.seal(data)) == data
        assert alice.open(bob.seal(data)) == data


def test_wrong_peer_id_is_refused_with_both_names():
    bob, eve = (peer_id.peer_id_of(key.public) for key in (BOB, EVE))
    with pytest.raises(NoiseError) as caught:
        shake_hands(Handshake(ALICE, True, expected=bob), Handshake(EVE, False))
    assert str(caught.value) == f"expected {peer_id.to_text(bob)}, got {peer_id.to_text(eve)}"


def test_a_wrong_payload_signature_is_refused():
    liar = Handshake(EVE, False)
    liar._payload = liar._payload.replace(EVE.public.encoded, BOB.public.encoded)
    with pytest.raises(NoiseError, match="signature"):
        shake_hands(Handshake(ALICE, True), liar)


def test_reflection_of_our_own_handshake_is_refused():
    alice = Handshake(ALICE, True)
    with pytest.raises(NoiseError, match="our own ephemeral key"):
        alice.receive(alice.start())
    with pytest.raises(NoiseError, match="our own identity"):
        shake_hands(Handshake(ALICE, True), Handshake(ALICE, False))


def test_a_replayed_handshake_is_refused():
    alice, bob = Handshake(ALICE, True), Handshake(BOB, False)
    first = alice.start()
    third = alice.receive(bob.receive(first))
    assert bob.receive(third) == b""
    again = Handshake(BOB, False)
    again.receive(first)
    with pytest.raises(NoiseError, match="not authentic"):
        again.receive(third)


@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point):
    raw = bytes.fromhex(point)
    with pytest.raises(NoiseError, match="low order"):
        Handshake(BOB, False).receive(b"\x00\x20" + raw)


def test_truncated_messages_are_refused_or_waited_for():
    alice, bob = Handshake(ALICE, True), Handshake(BOB, False)
    answer = bob.receive(alice.start())
    assert alice.receive(answer[:-1]) == b""
    assert alice.channel is None
    shorter = Handshake(ALICE, True)
    shorter.start()
    with pytest.raises(NoiseError, match="too short"):
        shorter.receive(b"\x00\x05hello")


def test_a_length_that_is_declared_and_never_sent_is_bounded():
    with pytest.raises(NoiseError, match=f"at most {MAX_HANDSHAKE_BYTES}"):
        Handshake(BOB, False).receive(b"\xff\xff")


def test_replayed_reordered_modified_and_short_frames_are_refused():
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    one = alice.seal(b"one")
    assert bob.open(one) == b"one"
    with pytest.raises(NoiseError):
        bob.open(one)
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    first, second = alice.seal(b"first"), alice.seal(b"second")
    with pytest.raises(NoiseError):
        bob.open(second + first)
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    sealed = alice.seal(b"one")
    with pytest.raises(NoiseError):
        bob.open(sealed[:-1] + bytes([sealed[-1] ^ 1]))
    _, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    with pytest.raises(NoiseError, match="shorter"):
        bob.open(b"\x00\x03abc")


@given(st.lists(st.binary(max_size=50), max_size=9), st.integers(1, 300))
def test_frames_are_opened_a_few_at_a_time(payloads, at_most):
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    bob.feed(b"".join(map(alice.seal, payloads)))
    opened = []
    while bob.has_frame:
        before = bob.buffered_bytes
        opened.append(bob.open(at_most=at_most))
        assert before - bob.buffered_bytes < at_most + 2 + 50 + 16
    assert b"".join(opened) == b"".join(payloads)
    assert (bob.frames, bob.buffered_bytes) == (len(payloads), 0)


@given(st.lists(st.binary(max_size=500), max_size=5), st.lists(st.integers(0, 3000), max_size=12))
def test_what_is_opened_does_not_depend_on_how_the_stream_is_cut(payloads, cuts):
    alice, bob = shake_hands(Handshake(ALICE, True), Handshake(BOB, False))
    sealed = b"".join(map(alice.seal, payloads))
    edges = [0, *sorted(min(cut, len(sealed)) for cut in cuts), len(sealed)]
    opened = b"".join(bob.open(sealed[a:b]) for a, b in itertools.pairwise(edges))
    assert opened == b"".join(payloads)


@examples(1.5)
@given(st.data())
def test_a_mutated_handshake_ends_in_a_noise_error_or_waits(data):
    alice, bob = Handshake(ALICE, True), Handshake(BOB, False)
    message = alice.start()
    spoiled = data.draw(st.integers(0, 2))
    for turn, reader in enumerate((bob, alice, bob)):
        if turn == spoiled:
            raw = bytearray(message)
            for _ in range(data.draw(st.integers(1, 4))):
                raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
            assume(bytes(raw) != message)
            message = bytes(raw)
        try:
            message = reader.receive(message)
        except NoiseError:
            break
    assert alice.channel is None or bob.channel is None
