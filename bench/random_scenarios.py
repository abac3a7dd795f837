"""Random small scenarios with all routers and kinds of faults.

`scenario_texts` draws with hypothesis, which shrinks a failing scenario, but often chooses the same simple values.
`even_scenario` chooses all values with equal probability, and so produces more different scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

Pick = Callable[[Sequence[Any]], Any]

ROUTERS = ("gossipsub", "meshsub", "randomsub", "floodsub", "gossipsub", "episub")
IMPLEMENTATIONS = ("hardening", "go", "rust", "js", "nim", "jvm", "ethereum", "ethereum-prysm", "filecoin", "spec")
SCORED = {"hardening", "rust", "js", "nim", "jvm", "ethereum", "ethereum-prysm", "filecoin"}
PRESETS = {
    "gossipsub": ("r1", "simsub", "v1.1", "guide", *IMPLEMENTATIONS),
    "meshsub": ("r1", "simsub", "v1.1"),
    "randomsub": ("r1", "simsub"),
    "floodsub": ("r1", "simsub"),
    "episub": ("episub", "episub-single-source"),
}
DEGREES = ((6, 4, 12), (2, 1, 3), (3, 3, 3), (0, 0, 0), (4, 2, 5))


@st.composite
def scenario_texts(draw: Any) -> str:
    """Draw the text of a scenario file. Simple values are first in each list, because hypothesis shrinks to them."""
    return _scenario(lambda values: draw(st.sampled_from(values)))


def even_scenario(name: str) -> str:
    """Return the text of a scenario file. The name is the seed of all choices."""
    return _scenario(Random(name).choice)


def _scenario(pick: Pick) -> str:
    nodes = pick([5, 2, 20, 60, 120])
    topics = ["b", "a", "c10", "c9"][: pick([1, 2, 4])]
    router = _routers(pick)
    sends_hello = not any('preset = "simsub"' in line or "hello = false" in line for line in router)
    is_fault_free = pick([True, False, False])
    has_scores = any("score." in line or f'preset = "{name}"' in line for line in router for name in SCORED)
    has_partial_messages = any("partial_messages = true" in line for line in router)
    counts_addresses = any("gater." in line or "places_per_address" in line for line in router)
    return "\n".join(
        [
            *_times_and_links(pick, nodes),
            *([] if is_fault_free else _link_faults(pick)),
            *router,
            *_topics_and_workload(pick, topics, has_partial_messages),
            *_timed(pick, nodes, topics, ["join", "leave", "publish"] if sends_hello else ["publish"]),
            *([] if is_fault_free else _faults(pick)),
            f"[trace]\nstate_interval_s = {pick([0, 1, 10])}",
            *(_scores_and_ratings(pick) if has_scores else []),
            *(_addresses(pick) if has_scores or counts_addresses else []),
            *(_invalid(pick) if not has_partial_messages and pick([False, False, True]) else []),
        ]
    )


def _times_and_links(pick: Pick, nodes: int) -> list[str]:
    return [
        f"seed = {pick(range(1000))}\nwarmup_s = {pick([1, 0, 5])}\nlinger_s = {pick([1, 3, 8])}",
        f'[network]\nnodes = {nodes}\ntopology = "{pick(["random", "ring_random", "scale_free", "complete"])}"',
        f"degree = {pick([3, 0, 1, 10, 70])}\nnat_share = {pick([0, 0, 0.3])}",
        f"[validation]\ndelay_ms = {pick([0, 0, 20, 700])}\nreject_share = {pick([0, 0, 0.2])}",
        f'[links]\nlatency = "{pick(["uniform", "constant", "log_normal"])}"',
        f"min_ms = {pick([10, 1, 0])}\nmax_ms = {pick([150, 10, 900])}\nvalue_ms = {pick([50, 5, 0.3, 0])}",
    ]


def _invalid(pick: Pick) -> list[str]:
    """Draw publishers of invalid messages."""
    return [
        f"[[validation.invalid]]\nshare = {pick([0.2, 0.7])}\nmessage_share = {pick([1, 0.5])}",
        f'verdict = "{pick(["reject", "ignore"])}"\nforwards_invalid = {pick(["false", "true"])}',
    ]


def _link_faults(pick: Pick) -> list[str]:
    """Draw faults of links, as further lines of the table `links`, and of nodes."""
    return [
        f"jitter_ms = {pick([0, 0, 3, 20])}",
        f"uplink_mbit = {pick([0, 0, 1, 0.05, 0.05])}",
        f"uplink_queue_bytes = {pick([0, 500, 150, 5000])}",
        f"[loss]\nrate = {pick([0, 0, 0.05, 0.3])}\ncontrol = {pick(['false', 'true'])}",
        f"[service]\ntime_ms = {pick([0, 0, 0, 2])}",
    ]


def _routers(pick: Pick) -> list[str]:
    lines = ["[router]", *_router(pick)]
    if pick([False, False, False, True]):
        lines += ["[[population]]", f"share = {pick([0.2, 0.5])}", f"router = {{ {', '.join(_router(pick))} }}"]
    return lines


def _router(pick: Pick) -> list[str]:
    kind = pick(ROUTERS)
    preset = pick(PRESETS[kind])
    lines = [f'kind = "{kind}"', f'preset = "{preset}"']
    options = _options(kind)
    if kind == "episub":
        lines += [f'overlay = "{pick(["connections", "episub", "hyparview", "estimated"])}"']
        if lines[-1].endswith('"estimated"'):
            lines[-1:] = [
                'view_sizes = "estimated"',
                f"size_constant = {pick([3, 0])}",
                f"passive_factor = {pick([6, 2])}",
            ]
    if preset in IMPLEMENTATIONS:
        lines += [f"idontwant_threshold_bytes = {pick([0, 1000])}"]
        if pick([False, True]):
            return [*lines, f"heartbeat_interval_ms = {pick([50, 300])}"]
        lines += ["degree_out = 0", "degree_score = 0", *(_strict_score(pick) if pick([True, False]) else ())]
    if kind in ("gossipsub", "meshsub") and pick([False, True]):
        names = ("degree", "degree_low", "degree_high")
        lines += [f"{name} = {value}" for name, value in zip(names, pick(DEGREES), strict=True)]
    if kind == "gossipsub" and pick([False, False, True]):
        lines += ["history_length = 3", "history_gossip = 2"]
    if kind == "gossipsub" and preset not in IMPLEMENTATIONS and pick([False, False, True]):
        lines += ["idontwant_threshold_bytes = 100"]
    odds = [False] * pick([4, 1]) + [True]
    chosen = {name: pick(values) for name, values in options.items() if pick(odds)}
    if kind == "gossipsub" and pick([False, False, False, True]):
        chosen |= _gater(pick)
    if kind in ("gossipsub", "meshsub") and preset not in SCORED and not any("score." in line for line in lines):
        chosen |= {"places_per_address": pick([1, 2])} if pick([False, False, True]) else {}
    return [*lines, *(f"{name} = {value}" for name, value in chosen.items())]


def _options(kind: str) -> dict[str, Sequence[Any]]:
    """Return parameters of a router, each with values that differ from those of presets."""
    options: dict[str, Sequence[Any]] = {
        "hello": ["true", "false"],
        "announce_again_ms": [300, 3000],
        "coalesce": ["true", "false"],
        "seen_ttl_ms": [500, 2000],
        "max_seen": [1, 3],
        "max_seen_bytes": [100, 800],
        "max_subscriptions_per_peer": [1],
        "max_subscription_bytes_per_peer": [171, 172, 345],
        "max_subscription_bytes": [300, 600, 2000],
        "max_messages_per_rpc": [1],
        "max_subscriptions_per_rpc": [1],
        "max_control_per_rpc": [1, 2],
        "max_pending_validations": [1],
        "allowed_topics": ['["a", "c*"]', '["b", "a"]'],
    }
    if kind == "randomsub":
        options |= {"degree": [1, 3], "network_size": [100]}
    if kind in ("gossipsub", "meshsub"):
        options |= {
            "prune_trigger": ['"at_high"'],
            "full_mesh": ['"refuse"', '"accept"'],
            "unknown_graft": ['"prune"', '"ignore"'],
            "heartbeat_interval_ms": [50, 50, 300],
            "first_heartbeat_ms": [0, 100],
            "first_heartbeat_spread_ms": [0, 50],
            "prune_backoff_ms": [500, 3000, 3000],
            "unsubscribe_backoff_ms": [200],
            "max_backoffs": [1, 2, 2],
            "max_backoff_ms": [300],
            "exchange_peers": [3, 3, 1],
            "accept_exchange": ["true"],
            "exchange_dials": [1, 2],
        }
    if kind == "episub":
        options |= {
            "broadcast": ['"flood"'],
            "repair": ['"lazy"', '"eager"'],
            "flush_ms": [10, 40, 700],
            "announce_recent_ms": [0, 100, 2000],
            "missing_tick_ms": [20, 60, 500],
            "graft_attempts": [1, 2],
            "optimisation_threshold": [0, 1, 2],
            "payload_ttl_ms": [100, 800],
            "max_cached_messages": [1, 2],
            "max_cached_bytes": [600, 1500, 5000],
            "max_missing": [1, 2],
            "max_announcers": [1, 2],
            "max_ids_per_part": [1, 2],
            "graft_answers_per_id": [1, 2],
        } | _options_of_overlays()
    if kind == "gossipsub":
        options |= {
            "degree_lazy": [0, 1, 20],
            "gossip_targets": ['"filter_then_select"'],
            "seen_by": ['"history"', '"time"'],
            "fanout_ttl_ms": [500],
            "fanout_top_up": ['"publish"'],
            "short_mesh": ['"top_up"'],
            "graft_on_missing": [1, 2, 2],
            "missing_window_heartbeats": [1, 3, 20],
            "max_ids_per_ihave": [1, 2],
            "max_ids_per_iwant": [1, 3],
            "iwant_answers_per_id": [0, 1],
            "max_cached_messages": [1, 2],
            "max_cached_bytes": [600, 1500, 5000],
        }
        options |= _options_of_1_1() | _options_of_1_2() | _options_of_1_3()
    return options


def _scores_and_ratings(pick: Pick) -> list[str]:
    """Draw the interval of score samples, and ratings."""
    lines = [f"[scores]\nevery_s = {pick([0.5, 0, 3])}"]
    for _ in range(pick([0, 0, 1, 2])):
        lines.append(f"[[ratings]]\nrating = {pick([-1, 0, 2.5])}\nshare = {pick([0.2, 0.7])}")
        lines.append(pick(["", "by = [0, 1]"]))
    return lines


def _addresses(pick: Pick) -> list[str]:
    """Draw addresses that several nodes share."""
    if not pick([False, True]):
        return []
    return [
        f"[addresses]\nnodes_per_address = {pick([2, 5, 0])}\nshared = {pick([[], [], [[0, 2, 4]]])}",
        f'form = "{pick(["ipv4", "ipv6", "ipv6_prefix"])}"',
    ]


def _strict_score(pick: Pick) -> list[str]:
    """Draw scores that fall below all thresholds within seconds."""
    topic = {
        "topic": '"any"',
        "topic_weight": 1,
        "time_in_mesh_weight": 0.1,
        "time_in_mesh_quantum_ms": 700,
        "time_in_mesh_cap": 10,
        "first_deliveries_weight": pick([1, 0.1]),
        "first_deliveries_decay": 0.5,
        "first_deliveries_cap": 3,
        "mesh_deliveries_weight": pick([-0.5, -2]),
        "mesh_deliveries_decay": 0.5,
        "mesh_deliveries_cap": pick([2, 5]),
        "mesh_deliveries_threshold": 2,
        "mesh_deliveries_window_ms": pick([50, 1]),
        "mesh_deliveries_activation_ms": 1000,
        "mesh_failure_weight": -0.5,
        "mesh_failure_decay": 0.5,
        "invalid_messages_weight": -0.7,
        "invalid_messages_decay": 0.5,
        "gater_weight": pick([1, 3.5]),
    }
    peer = {
        "topic_cap": pick([0, 2]),
        "misbehaviour_weight": -0.6,
        "misbehaviour_threshold": pick([0, 1]),
        "misbehaviour_decay": 0.9,
        "slow_peer_weight": -0.2,
        "slow_peer_threshold": 1.5,
        "slow_peer_decay": 0.5,
        "decay_interval_ms": 1000,
        "decay_to_zero": 0.1,
        "time_in_mesh_quanta": pick(['"whole"', '"fraction"']),
        "mesh_times": pick(['"last-refresh"', '"now"']),
        "deficit_after_prune": pick(["true", "false"]),
        "second_prune_counts": pick(["true", "false"]),
        "invalid_copies": pick(['"all"', '"members"']),
        "application_weight": pick([0, 1]),
        "shared_address_weight": -0.3,
        "shared_address_threshold": 1,
        "ipv6_addresses": pick(['"whole-and-prefix"', '"whole"', '"prefix"', '"not"']),
        "retain_ms": pick([0, 500, 5000]),
        "retained_scores": pick(['"not-positive"', '"all"', '"until-return"']),
        "decay_while_away": pick(["false", "true"]),
        "max_retained_peers": pick([1, 2, 100]),
        "max_deliveries": pick([100_000, 1, 4]),
        "thresholds": f"{{ gossip = -0.5, publish = -1, graylist = -3, opportunistic_graft = 1, "
        f"accept_exchange = {pick([0, 0.2])} }}",
        "topics": f"[{{ {', '.join(f'{name} = {value}' for name, value in topic.items())} }}]",
    }
    return [f"score.{name} = {value}" for name, value in peer.items()]


def _gater(pick: Pick) -> dict[str, Any]:
    """Draw a gater that keeps messages out, because few can wait for validation."""
    return {
        "validate": pick(["true", "true", "false"]),
        "max_pending_validations": pick([1, 2, 5]),
        "gater.threshold": pick([0.05, 0.4]),
        "gater.global_decay": pick([0.5, 0.95]),
        "gater.source_decay": pick([0.6, 0.99]),
        "gater.decay_interval_ms": pick([1000, 1500]),
        "gater.decay_to_zero": pick([0.01, 0.3]),
        "gater.quiet_ms": pick([60_000, 1000]),
        "gater.retain_ms": pick([0, 500, 5000]),
        "gater.duplicate_weight": pick([0.125, 1.5]),
        "gater.ignore_weight": 1,
        "gater.reject_weight": pick([1, 16]),
        "gater.max_retained_addresses": pick([1, 2, 100]),
    }


def _options_of_1_1() -> dict[str, Sequence[Any]]:
    return {
        "outbound_when_full": ['"quota"', '"never"'],
        "outbound_repair": ['"to_degree"'],
        "opportunistic_graft_ticks": [1, 3],
        "opportunistic_graft_peers": [0, 1],
        "median": ['"lower"', '"mean"'],
        "opportunity_choice": ['"first_above"', '"first_from"'],
        "graft_choice": ['"best"'],
        "graft_on_subscribe": ["true"],
        "unwelcome_graft": ['"taken_in"'],
        "graft_flood_ms": [100, 3000],
        "early_graft_ms": [400],
        "flood_publish": ["true", "false"],
        "flood_publish_mbit": [1],
        "gossip_factor": [0.25, 0.7],
        "max_ihave_messages": [1, 2],
        "ihave_parts_count": ["true"],
        "ihave_ids_of_rpc": ["true"],
        "max_iwant_messages": [1],
        "iwant_followup_ms": [60, 300],
        "tracked_promises": ['"all"', '"one"', '"none"'],
        "asked_peer_must_send": ["true"],
        "unsubscribed_graft": ['"ignore"', '"taken_in"'],
        "member_graft_is_judged": ["true"],
        "backoff_on_unsubscribe": ["true"],
        "backoff_when_not_joined": ["true"],
        "backoff_until_forgotten": ["true"],
        "exchange_always": ["true"],
        "mesh_before_gossip": ["true"],
        "max_ids_asked": [1, 2],
        "ask_again_heartbeats": [1, 3],
        "direct_connect_ticks": [1, 3],
        "direct_peers": ["[[0, 1]]", "[[0, 1], [2, 0], [1, 0]]"],
        "direct_graft": ['"penalise"', '"ignore"'],
    }


def _options_of_overlays() -> dict[str, Sequence[Any]]:
    return {
        "random_links": [1, 2],
        "near_links": [0, 1, 2],
        "passive_size": [1, 3, 8],
        "join_ttl": [3, 4],
        "reply_timeout_ms": [100, 300, 900],
        "stabilise_min_ms": [50, 300],
        "stabilise_max_ms": [1000, 3000],
        "alpha_percent": [100, 50],
        "shuffle_interval_ms": [200, 1000],
        "shuffle_ttl": [0, 1, 2],
        "shuffle_active": [0, 1],
        "shuffle_passive": [0, 2],
        "probe_interval_ms": [200, 1000],
        "probe_count": [0, 1, 4],
        "contacts_interval_ms": [0, 300, 2000],
        "leave_by": ['"disconnect"', '"leave"'],
        "leave_ttl": [0, 1],
        "idle_ms": [50, 300],
        "max_peers_per_part": [1, 2, 5],
        "max_dials": [1, 2, 4],
    }


def _options_of_1_2() -> dict[str, Sequence[Any]]:
    return {
        "idontwant_on_publish": ["true"],
        "idontwant_ttl_heartbeats": [1, 2],
        "max_ids_per_idontwant": [1, 2],
        "max_idontwants": [1, 2],
        "max_idontwant_ids": [1, 3],
        "heeds_idontwant": ["false"],
        "max_unwanted": [1, 2, 5],
        "withdraw_unwanted": ["true"],
        "skip_senders": ["true"],
    }


def _options_of_1_3() -> dict[str, Sequence[Any]]:
    return {
        "extensions": ["true"],
        "partial_messages": ["true"],
        "test_extension": ["true"],
        "late_extensions": ['"ignore"'],
        "supporters_told": ['"by_all"'],
        "partial_group_heartbeats": [1, 2, 10],
        "max_peer_groups": [0, 1, 3],
        "max_groups_per_peer": [0, 1, 2],
        "max_metadata_bytes": [1, 10],
    }


def _parts(pick: Pick) -> list[str]:
    """Draw the parts of a topic's messages."""
    count = pick([8, 1, 3, 64, 70, 130])
    return [
        f'partial.use = "{pick(["requests", "requests", "supports", "none"])}"',
        f"partial.parts = {count}\npartial.known_parts = {pick([0, 0, 1, count - 1, count])}",
        f'partial.eager = {pick(["false", "true"])}\npartial.asks = "{pick(["all", "one"])}"',
    ]


def _topics_and_workload(pick: Pick, topics: Sequence[str], has_partial_messages: bool) -> list[str]:
    lines: list[str] = []
    for topic in topics:
        lines += ["[[topics]]", f'name = "{topic}"']
        if pick([False, True]):
            lines.append("subscribers_share = 0.5")
        if has_partial_messages and pick([True, True, False]):
            lines += _parts(pick)
    return [
        *lines,
        f"[workload]\nmessages = {pick([3, 0, 10, 30])}\ninterval_s = {pick([0.3, 0.05, 1])}",
        f'arrivals = "{pick(["interval", "poisson"])}"\ntopic_choice = "{pick(["round_robin", "random"])}"',
        f'publishers = "{pick(["script", "subscribers", "any", "non_subscribers"])}"',
        f"publisher_count = {pick([0, 2])}\ninject = {pick([1, 5])}\nsize_bytes = {pick([100, 3000])}",
    ]


def _timed(pick: Pick, nodes: int, topics: Sequence[str], actions: Sequence[str]) -> list[str]:
    lines: list[str] = []
    busy = range(pick([nodes, min(nodes, 3)]))
    for _ in range(pick([0, 0, 3, 8, 30])):
        lines += [
            "[[timed]]",
            f"at_s = {pick(range(8000)) / 1000}\nnode = {pick(busy)}",
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
        lines.append(pick(["", "rejoin_after_s = 1", "rejoin_after_s = 0.1"]))
    if pick([False] * 4 + [True]):
        lines.append(f"[[faults.partition]]\nat_s = {pick([0.5, 2])}\nheal_s = {pick([3, 4])}\nshare = 0.4")
    if pick([False] * 4 + [True]):
        lines.append(f"[[faults.cut]]\nat_s = {pick([0.5, 2])}\nshare = 0.3")
        lines.append(pick(["", "heal_s = 3"]))
    return lines
