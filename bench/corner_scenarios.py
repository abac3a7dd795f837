"""Scenarios of what random ones hardly ever reach, because many things have to come together."""

from __future__ import annotations

from collections.abc import Iterator

SEEDS = 8
CORNERS = 7

FANOUT = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
topology = "complete"
[router]
preset = "guide"
degree = 4
degree_low = 2
degree_high = 6
[[topics]]
name = "a"
subscribers_share = 0.5
[workload]
messages = 40
interval_s = 0.1
publishers = "non_subscribers"
publisher_count = 3
[faults]
detection_s = 0.2
redial = 20
[faults.churn]
away_share = 0.4
mean_session_s = 2
"""
"""Publishers outside of the topic lose peers of their fan-outs, and others come."""

NEWS = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
degree = 6
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
heartbeat_interval_ms = 100
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
graft_on_missing = 2
missing_window_heartbeats = 20
max_ids_per_iwant = 2
[loss]
rate = 0.4
[workload]
messages = 60
interval_s = 0.05
publishers = "any"
[faults]
detection_s = 0.1
redial = 12
[faults.churn]
away_share = 0.2
mean_session_s = 2
"""
"""Messages are lost, so the same peers have news again and again, and come and go between."""

BACKOFFS = """
warmup_s = 0
linger_s = 5
[network]
nodes = 16
topology = "complete"
[links]
min_ms = 1
max_ms = 20
[router]
preset = "v1.1"
degree = 2
degree_low = 2
degree_high = 3
heartbeat_interval_ms = 50
first_heartbeat_ms = 50
first_heartbeat_spread_ms = 50
prune_backoff_ms = 3000
unsubscribe_backoff_ms = 200
max_backoff_ms = 300
max_backoffs = 2
[workload]
messages = 3
"""
"""Long and short backoffs next to each other, and more than are kept."""

MANY_IDS = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
degree = 6
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
max_ids_per_ihave = 2
max_ids_per_iwant = 1
[[population]]
share = 0.5
router = { kind = "gossipsub", preset = "r1", degree = 2, degree_low = 1, degree_high = 3, degree_lazy = 8 }
[loss]
rate = 0.4
[workload]
messages = 60
interval_s = 0.05
publishers = "any"
"""
"""Some say and ask for more ids than others hear and answer."""

REFUSED = """
warmup_s = 1
linger_s = 5
[network]
nodes = 16
degree = 6
[links]
uplink_mbit = 0.02
uplink_queue_bytes = 90
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
heartbeat_interval_ms = 300
unsubscribe_backoff_ms = 1500
prune_backoff_ms = 2000
[workload]
messages = 30
interval_s = 0.1
size_bytes = 20
publishers = "any"
"""
"""Uplinks refuse SUBSCRIBE, GRAFT and PRUNE, which are said again."""

SLOW = """
warmup_s = 1
linger_s = 2
[network]
nodes = 40
degree = 6
[links]
min_ms = 10
max_ms = 900
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
heartbeat_interval_ms = 100
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
[workload]
messages = 40
interval_s = 0.05
publishers = "any"
"""
"""Gossip is faster than the mesh; no node leaves, so that what is surely known need not travel."""

FORGETFUL = """
warmup_s = 1
linger_s = 2
[network]
nodes = 12
degree = 2
[links]
min_ms = 10
max_ms = 900
[router]
preset = "r1"
seen_ttl_ms = 700
[workload]
messages = 5
interval_s = 0.3
publishers = "any"
"""
"""Copies are under way for longer than messages are remembered."""


def corner_scenarios() -> Iterator[str]:
    """Each with some seeds; in all but two, nodes leave their topic for a moment."""
    for seed in range(1, SEEDS + 1):
        for topic, text in (("a", FANOUT), *(("topic", text) for text in (NEWS, BACKOFFS, MANY_IDS, REFUSED))):
            yield f"seed = {seed}\n{text}" + "".join(_leaves_and_joins(seed, topic))
        yield from (f"seed = {seed}\n{text}" for text in (SLOW, FORGETFUL))


def _leaves_and_joins(seed: int, topic: str) -> Iterator[str]:
    for step in range(96):
        action = ("leave", "join")[step // 8 % 2]
        at_s = f"{1 + step // 8 * 0.35 + seed * 0.011:.3f}"
        yield f'[[timed]]\nat_s = {at_s}\nnode = {step % 8}\naction = "{action}"\ntopic = "{topic}"\n'
