"""Names of peers, topics and messages. For the core they are only hashable and comparable.

A run uses one type for each (integers in the simulator, byte strings in a real node), never a mixture.
"""

from __future__ import annotations

from typing import TypeAlias

Identifier: TypeAlias = int | str | bytes
PeerId: TypeAlias = Identifier
TopicId: TypeAlias = Identifier
MessageId: TypeAlias = Identifier
Micros: TypeAlias = int
"""A time or a span in integer microseconds."""
