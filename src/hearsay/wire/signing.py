"""Authors and signatures of messages (pubsub specification, "Message Signing").

Rules:

* StrictSign: every message must have an author, a sequence number and a valid signature. StrictNoSign: a message must
  have none of these, and no key. LaxSign signs the messages of this node, and LaxNoSign does not; both verify signed
  messages of peers and accept unsigned ones.
* The signature covers `libp2p-pubsub:` and the message without signature and key, as in go-libp2p-pubsub.
* A message of this node has a `key` only if the author's peer id does not contain the key. A key in a received
  message must match the author's peer id.
* Some messages are valid for one implementation and invalid for another. Honest peers that run the first
  implementation forward such a message; peers that run the second one would blame this node for forwarding it. So the
  message is refused without blame for its sender (`Reason.UNSUPPORTED`), and not marked as seen, because another copy
  may be valid. A message is accepted only if go, rust and js accept it, and its sender is blamed only if all three
  refuse it. They differ on keys, peer ids and ECDSA signatures that are not in the usual form, and on all authors
  with ECDSA keys.
* A sequence number has eight bytes, big endian. The first one after a start is the time in nanoseconds, and each
  further one is greater by 1. So sequence numbers increase across restarts, although none is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import Message
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey, PublicKey, verification_us
from hearsay.libp2p.names.peer_id import MAX_INLINE_BYTES, inlined_key, peer_id_of
from hearsay.wire.encode import signed_part

PREFIX = b"libp2p-pubsub:"
SEQNO_BYTES = 8
_HASHED_BYTES_PER_US = 250


class SignaturePolicy(StrEnum):
    """The requirements for authors and signatures of the messages in a topic, as the module describes them."""

    STRICT_SIGN = "strict_sign"
    STRICT_NO_SIGN = "strict_no_sign"
    LAX_SIGN = "lax_sign"
    LAX_NO_SIGN = "lax_no_sign"

    @property
    def signs(self) -> bool:
        return self in (SignaturePolicy.STRICT_SIGN, SignaturePolicy.LAX_SIGN)


class Author:
    """An identity that creates messages. `start_ns` is its first sequence number."""

    def __init__(self, identity: PrivateKey, start_ns: int) -> None:
        self._identity = identity
        self._count = start_ns
        self.peer = peer_id_of(identity.public)
        inlined = len(identity.public.encoded) <= MAX_INLINE_BYTES
        self._key = None if inlined else identity.public.encoded

    def write(self, topic: str, data: bytes, policy: SignaturePolicy) -> Message:
        """Return a new message without id. If the policy signs, it has author, sequence number and signature."""
        if not policy.signs:
            return Message(b"", topic, data)
        seqno = (self._count % (1 << 64)).to_bytes(SEQNO_BYTES, "big")
        self._count += 1
        bare = Message(b"", topic, data, self.peer, seqno)
        signature = self._identity.sign(PREFIX + signed_part(bare))
        return replace(bare, signature=signature, key=self._key)


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a message of a peer is refused."""

    why: str
    reason: Reason = Reason.BAD_SIGNATURE
    """`UNSUPPORTED` if some implementations accept the message; then its sender is not blamed."""
    forged: bool = False
    """True if no implementation forwards such a message, whatever its settings."""


def _disputed(why: str) -> Fault:
    return Fault(why, Reason.UNSUPPORTED)


def plain_fault(message: Message, policy: SignaturePolicy) -> Fault | None:
    """Return the fault of a message under a policy, apart from a wrong signature or key; None if it has none."""
    if policy is SignaturePolicy.STRICT_NO_SIGN:
        if message.source is None and message.seqno is None and message.signature is None and message.key is None:
            return None
        if message.signature is None:
            # go accepts author and sequence number unless it is configured without authors; js accepts an author;
            # rust accepts a key
            return _disputed("it has an author, a sequence number or a key, which this topic does not allow")
        return Fault("it is signed, which this topic does not allow")
    if message.signature is None:
        return Fault("it is not signed") if policy is SignaturePolicy.STRICT_SIGN else None
    if not isinstance(message.source, bytes):
        return Fault("it has a signature and no author")
    if policy is SignaturePolicy.STRICT_SIGN and (message.seqno is None or len(message.seqno) != SEQNO_BYTES):
        return _disputed(f"its sequence number does not have {SEQNO_BYTES} bytes")
    if message.has_more or not message.topic:
        # go verifies with unknown fields and an empty topic; rust drops unknown fields, js drops an empty topic
        return _disputed("implementations sign its fields differently")
    return None


def signature_fault(message: Message) -> Fault | None:
    """Return the fault of a message's signature or of its author's key; None if there is none.

    The message must have an author and a signature.
    """
    assert isinstance(message.source, bytes)
    assert message.signature is not None
    try:
        key = _key_of(message.source, message.key)
    except EncodingError as error:
        return _disputed(str(error))
    if isinstance(key, Fault):
        return key
    if key.is_disputed(message.signature):
        return _disputed("its signature is in an unusual form")
    if key.verify(message.signature, PREFIX + signed_part(message)):
        return None
    if not message.data:
        # rust relays a message without data with an empty data field, which its author did not sign
        return _disputed("its signature is wrong, or the relay added the empty data")
    return Fault("its signature is wrong", forged=True)


def signature_check_us(message: Message) -> int:
    """Return the approximate time in microseconds that `signature_fault` takes for a message."""
    key = message.key
    if key is None:
        assert isinstance(message.source, bytes)
        key = message.source[2:]
    return verification_us(key) + len(message.data) // _HASHED_BYTES_PER_US


def _key_of(author: bytes, given: bytes | None) -> PublicKey | Fault:
    """Return the author's key, or the fault of the key `given` in the message (None: no key).

    Raises `EncodingError` if the key or the author's peer id is not in the usual form.
    """
    inlined = inlined_key(author)
    if inlined is not None:
        if given is not None and given != inlined.encoded:
            # rust verifies with the key in the peer id if it cannot read the key in the message
            return _disputed("its key is not its author's")
        return inlined
    if given is None:
        return Fault("its author's key is missing", forged=True)
    key = PublicKey.decode(given)
    return key if peer_id_of(key) == author else Fault("its key is not its author's", forged=True)
