"""The arrays for extensions and partial messages, built from the plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hearsay.core.language.rpc import PartialUse
from hearsay.core.rules.partial_rules import NO_USE
from hearsay.partial.exchange import Asking
from hearsay.partial.formats import Claim, group_named
from hearsay.sim.array.machine.memory import lines_at_most, zeros
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import part_lines
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.partial_messages import PartialTopic

_LEAST_LINES = 1 << 18


def set_features(arrays: Arrays, plan: Plan, order: Sequence[int]) -> None:
    w = arrays.world
    threads, nodes, topics = int(w[at.THREADS]), int(w[at.NODES]), int(w[at.TOPICS])
    arrays["traits"] = zeros((int(w[at.SLOTS]), 1 + topics), np.uint8)
    arrays["alone"] = zeros((threads, lines_at_most(1 << 18, 16), 2), np.int64)
    if not w[at.PART_WORDS]:
        return
    scenario = plan.scenario
    settings: dict[str, list[int]] = {}
    for group in scenario.topics:
        if group.partial is not None and group.goes_in_parts:
            topic = PartialTopic(group.partial, group.size_bytes or scenario.workload.size_bytes)
            line = [list(PartialUse).index(topic.use), group.partial.parts, group.partial.known_parts]
            line += [int(group.partial.eager), int(group.partial.asks is Asking.ONE), topic.form.part_bytes]
            nothing = group_named(0)
            line += [len(topic.form.encode(nothing, {})), len(topic.form.encode_claim(nothing, Claim(0, 0)))]
            settings |= dict.fromkeys(group.names, line)
    whole = [NO_USE] * 8
    arrays["part_topics"] = np.array([settings.get(plan.topics[topic], whole) for topic in order], dtype=np.int64)
    arrays["part_heads"] = zeros((nodes, topics, 8), np.int32)
    arrays["group_of"] = zeros(arrays["cells"].shape, np.int32)
    words = part_lines.SETS * int(w[at.PART_WORDS])
    lines = min(lines_at_most(_LEAST_LINES + 64 * nodes, 8 * (11 + words)), (1 << 31) - 1)
    arrays["part_lines"] = zeros((lines, 11), np.int64)
    arrays["part_sets"] = zeros((lines, words), np.uint64)
    arrays["handed"] = zeros((threads, int(w[at.MESSAGES]) + 1), np.int64)
