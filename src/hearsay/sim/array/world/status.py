"""Why a call of the kernels returned: the values of STATUS."""

from __future__ import annotations

(
    OK, QUEUE_FULL, POOL_FULL, ARENA_FULL, ROWS_WAIT, OUTBOX_FULL, NEEDS_COLUMNS, NEEDS_SLOTS, NEEDS_LINKS, FINISHED,
    ROWS_FULL,
) = range(11)  # fmt: skip
LIMIT_WORDS = {
    QUEUE_FULL: "so many events at once",
    POOL_FULL: "so many entries of short lists",
    ARENA_FULL: "so many RPCs under way",
    OUTBOX_FULL: "so many parts of one node at once",
    ROWS_FULL: "so much that happens at once",
}
"""What there is no room for, in words."""
