"""Names of peers, topics and messages. The core only hashes, compares and measures such names.

All peers of a run have names of one type; so do all topics, and so do all messages. In the simulator, all names are
integers. In a node, peers and messages have byte strings as names, and topics have texts.
"""

from __future__ import annotations

from typing import TypeAlias

Identifier: TypeAlias = int | str | bytes
PeerId: TypeAlias = Identifier
TopicId: TypeAlias = Identifier
MessageId: TypeAlias = Identifier
Micros: TypeAlias = int
"""A time or a span in integer microseconds."""
