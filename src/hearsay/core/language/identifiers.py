"""Names of peers, topics and messages. The core only hashes, compares and measures such names.

All peers of a run have names of one type; so do all topics, and so do all messages. Names of topics are texts. Names
of peers and messages are integers in the simulator, and byte strings in a node.
"""

from __future__ import annotations

from typing import TypeAlias

Identifier: TypeAlias = int | str | bytes
PeerId: TypeAlias = Identifier
TopicId: TypeAlias = Identifier
MessageId: TypeAlias = Identifier
Micros: TypeAlias = int
"""A time or a span in integer microseconds."""
