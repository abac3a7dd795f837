"""Random small scenarios for the four routers, with everything that a scenario may say; for hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Pick = Callable[[Sequence[Any]], Any]

ROUTERS = ("gossipsub", "meshsub", "randomsub", "floodsub")
PRESETS = {
    "gossipsub": ("r1", "simsub", "v1.1", "guide"),
    "meshsub": ("r1", "simsub", "v1.1"),
    "randomsub": ("r1", "simsub"),
    "floodsub": ("r1", "simsub"),
}
DEGREES = ((6, 4, 12), (2, 1, 3), (3, 3, 3), (0, 0, 0), (4, 2, 5))


@st.composite
def scenario_texts(draw: Any) -> str:
    """The text of a scenario file. Simple choices stand first, so that hypothesis shrinks towards them."""

    def pick(values: Sequence[Any]) -> Any:
        return draw(st.sampled_from(values))

    nodes = pick([5, 2, 20, 60, 120])
    topics = ["b", "a", "c10", "c9"][: pick([1, 2, 4])]
    router = _router(pick)
    says_hello = not any('preset = "simsub"' in line or line == "hello = false" for line in router)
    return "\n".join(
        [
            *_times_and_links(pick, nodes),
            *router,
            *_topics_and_workload(pick, topics),
            *_timed(pick, draw, nodes, topics, ["join", "leave", "publish"] if says_hello else ["publish"]),
            *_faults(pick),
            f"[trace]\nstate_interval_s = {pick([0, 1, 10])}",
        ]
    )


def _times_and_links(pick: Pick, nodes: int) -> list[str]:
    return [
        f"seed = {pick(range(1000))}\nwarmup_s = {pick([1, 0, 5])}\nlinger_s = {pick([1, 3, 8])}",
        f'[network]\nnodes = {nodes}\ntopology = "{pick(["random", "ring_random", "scale_free", "complete"])}"',
        f"degree = {pick([3, 0, 1, 10, 70])}\nnat_share = {pick([0, 0, 0.3])}",
        f'[links]\nlatency = "{pick(["uniform", "constant", "log_normal"])}"',
        f"min_ms = {pick([10, 1, 0])}\nmax_ms = {pick([150, 10])}\nvalue_ms = {pick([50, 5, 0.3, 0])}",
        f"jitter_ms = {pick([0, 0, 3, 20])}",
        f"uplink_mbit = {pick([0, 0, 1, 0.05])}\nuplink_queue_bytes = {pick([0, 500, 5000])}",
        f"[loss]\nrate = {pick([0, 0, 0.05, 0.3])}\ncontrol = {pick(['false', 'true'])}",
        f"[service]\ntime_ms = {pick([0, 0, 0, 2])}",
        f"[validation]\ndelay_ms = {pick([0, 0, 20])}\nreject_share = {pick([0, 0, 0.2])}",
    ]


def _router(pick: Pick) -> list[str]:
    kind = pick(ROUTERS)
    has_mesh = kind in ("gossipsub", "meshsub")
    lines = ["[router]", f'kind = "{kind}"', f'preset = "{pick(PRESETS[kind])}"']
    options: dict[str, Sequence[Any]] = {
        "hello": ["true", "false"],
        "announce_again_ms": [300, 3000],
        "coalesce": ["true", "false"],
        "seen_ttl_ms": [500, 2000],
        "max_seen": [1, 3],
        "max_subscriptions_per_peer": [1],
        "max_messages_per_rpc": [1],
        "max_control_per_rpc": [1, 2],
        "max_pending_validations": [1],
    }
    if kind == "randomsub":
        options |= {"degree": [1, 3], "network_size": [100]}
    if has_mesh:
        options |= {
            "prune_trigger": ['"at_high"'],
            "full_mesh": ['"refuse"', '"accept"'],
            "unknown_graft": ['"prune"', '"ignore"'],
            "heartbeat_interval_ms": [50, 300],
            "first_heartbeat_ms": [0, 100],
            "first_heartbeat_spread_ms": [0, 50],
            "prune_backoff_ms": [500, 3000],
            "unsubscribe_backoff_ms": [200],
            "max_backoffs": [1, 2],
            "max_backoff_ms": [300],
            "exchange_peers": [3],
        }
        if pick([False, True]):
            names = ("degree", "degree_low", "degree_high")
            lines += [f"{name} = {value}" for name, value in zip(names, pick(DEGREES), strict=True)]
    if kind == "gossipsub":
        options |= {
            "degree_lazy": [0, 1, 20],
            "gossip_targets": ['"filter_then_select"'],
            "seen_by": ['"history"', '"time"'],
            "fanout_ttl_ms": [500],
            "fanout_top_up": ['"publish"'],
            "short_mesh": ['"top_up"'],
            "graft_on_missing": [1, 2],
            "missing_window_heartbeats": [1, 3],
            "max_ids_per_ihave": [1, 2],
            "max_ids_per_iwant": [1, 3],
            "iwant_answers_per_id": [0, 1],
            "max_cached_messages": [1, 2],
        }
        if pick([False, False, True]):
            lines += ["history_length = 3", "history_gossip = 2"]
    lines += [f"{name} = {pick(values)}" for name, values in options.items() if pick([False] * 4 + [True])]
    if pick([False, False, False, True]):
        other_kind = pick(ROUTERS)
        other = f'kind = "{other_kind}", preset = "{pick(PRESETS[other_kind])}"'
        lines += ["[[population]]", f"share = {pick([0.2, 0.5])}", f"router = {{ {other} }}"]
    return lines


def _topics_and_workload(pick: Pick, topics: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for topic in topics:
        lines += ["[[topics]]", f'name = "{topic}"']
        if pick([False, False, True]):
            lines.append("subscribers_share = 0.5")
    return [
        *lines,
        f"[workload]\nmessages = {pick([3, 0, 10, 30])}\ninterval_s = {pick([0.3, 0.05, 1])}",
        f'arrivals = "{pick(["interval", "poisson"])}"\ntopic_choice = "{pick(["round_robin", "random"])}"',
        f'publishers = "{pick(["script", "subscribers", "any", "non_subscribers"])}"',
        f"publisher_count = {pick([0, 0, 2])}\ninject = {pick([1, 5])}\nsize_bytes = {pick([100, 3000])}",
    ]


def _timed(pick: Pick, draw: Any, nodes: int, topics: Sequence[str], actions: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for _ in range(pick([0, 0, 3, 8])):
        at_ms = draw(st.integers(0, 8000))
        lines += [
            "[[timed]]",
            f"at_s = {at_ms / 1000}\nnode = {pick(range(nodes))}",
            f'action = "{pick(actions)}"\ntopic = "{pick(topics)}"',
        ]
    return lines


def _faults(pick: Pick) -> list[str]:
    lines = [f"[faults]\ndetection_s = {pick([1, 0, 0.2])}\nredial = {pick([2, 0, 10])}"]
    if pick([False, False, True]):
        lines.append(
            f"[faults.churn]\naway_share = {pick([0.1, 0.3, 0.6])}\nmean_session_s = {pick([5, 1])}\n"
            f"goodbye = {pick(['false', 'true'])}\nstart_s = {pick([0, 1])}"
        )
    if pick([False] * 4 + [True]):
        lines.append(f"[[faults.crash]]\nat_s = {pick([1, 2.5])}\nshare = {pick([0.2, 0.5])}")
        lines.append(pick(["", "rejoin_after_s = 1"]))
    if pick([False] * 4 + [True]):
        lines.append(f"[[faults.partition]]\nat_s = {pick([0.5, 2])}\nheal_s = {pick([3, 4])}\nshare = 0.4")
    if pick([False] * 4 + [True]):
        lines.append(f"[[faults.cut]]\nat_s = {pick([0.5, 2])}\nshare = 0.3")
        lines.append(pick(["", "heal_s = 3"]))
    return lines
