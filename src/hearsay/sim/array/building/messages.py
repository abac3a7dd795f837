"""Topics, and the messages that will be published in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hearsay.core.language.rpc import Message, Rpc
from hearsay.core.language.sizes import message_size, part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.core.shell.randomness import key_of
from hearsay.sim.array.machine.memory import zeros
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.plan import Plan


def set_topics(arrays: Arrays, plan: Plan, order: Sequence[int]) -> None:
    names = [plan.topics[topic] for topic in order]
    arrays["topics"] = np.array(
        [[topic, len(name.encode())] for topic, name in zip(order, names, strict=True)], dtype=np.int64
    )
    arrays["topic_keys"] = np.array([key_of(name) for name in names], dtype=np.uint64)


def set_messages(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """One line more than messages, whose INJECT_FROM ends the last one's."""
    table = np.zeros((len(plan.publications) + 1, 8), dtype=np.int64)
    sizes: dict[tuple[int, int], tuple[int, int, int]] = {}
    injected = 0
    for publication in plan.publications:
        key = (publication.topic, publication.size_bytes)
        if key not in sizes:
            sizes[key] = _message_sizes(plan.topics[publication.topic], publication.size_bytes)
        alone, part, held = sizes[key]
        table[publication.message] = (
            place_of[publication.topic], publication.publisher, publication.time_us, publication.size_bytes,
            alone, part, held, injected,
        )  # fmt: skip
        injected += len(publication.inject)
    table[-1, at.INJECT_FROM] = injected
    arrays["messages"] = table
    judged = len(plan.publications) if plan.scenario.validation.reject_millionths else 0
    arrays["verdicts"] = zeros((judged + 1, 3), np.int64)
    targets = [target for publication in plan.publications for target in publication.inject]
    arrays["inject_targets"] = np.array(targets or [0], dtype=np.int64)


def _message_sizes(topic: str, size_bytes: int) -> tuple[int, int, int]:
    """Of a simulated message: as a whole RPC with its length, as a part, and by itself."""
    message = Message(0, topic, bytes(size_bytes), 0)
    alone = Rpc(messages=(message,))
    parts = part_sizes(alone)
    return framed_size(alone, parts), parts[0][2], message_size(message)
