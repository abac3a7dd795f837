"""What things take in memory, roughly and always the same: for bounds in bytes.

Lengths are not enough. An empty name that is kept costs what surrounds it, and a peer may send a million of those.
The constants were measured on CPython 3.11, tables and their spare room included, and rounded up.
"""

from __future__ import annotations

from hearsay.core.language.identifiers import Identifier
from hearsay.core.language.rpc import Message

MESSAGE_BYTES = 512
"""A message beside its fields' lengths."""
SEEN_BYTES = 230
"""An id in the seen cache beside its length."""
SUBSCRIPTION_BYTES = 170
"""A peer's being in a topic, beside the length of the name."""
TOPIC_VIEW_BYTES = 400
"""What is kept of a topic once, whoever is in it."""
_NUMBER_BYTES = 32


def length_of(identifier: Identifier) -> int:
    """The bytes of an identifier's content. One character beyond ASCII may make all of a text four times as wide."""
    if type(identifier) is bytes:  # nearly all ids are
        return len(identifier)
    if isinstance(identifier, int):
        return _NUMBER_BYTES
    if isinstance(identifier, str) and not identifier.isascii():
        return 4 * len(identifier)
    return len(identifier)


def message_footprint(message: Message) -> int:
    """A message with all it holds on to, its own bytes as they came among that."""
    size = MESSAGE_BYTES + len(message.data) + length_of(message.id) + length_of(message.topic)
    if message.source is not None:
        size += length_of(message.source)
    if message.seqno is not None:
        size += len(message.seqno)
    if message.signature is not None:
        size += len(message.signature)
    if message.key is not None:
        size += len(message.key)
    return size if message.encoded is None else size + len(message.encoded)
