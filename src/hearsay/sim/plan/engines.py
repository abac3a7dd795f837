"""Which engine runs a scenario.

The reference engine runs everything. The array engine gives the same trace, many times faster, for the four routers
that it has kernels for, with nearly all their parameters; it is compiled once on a machine, which small runs do not
pay for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from hearsay.core.mesh.judging_parameters import UnsubscribedGraft
from hearsay.core.mesh.mesh import MAX_UNSENT
from hearsay.core.mesh.mesh_parameters import MeshParameters
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.sections.network import TopologyKind
from hearsay.sim.scenario.sections.routers import RouterChoice
from hearsay.sim.scenario.sections.workload import TimedKind

EngineName: TypeAlias = Literal["reference", "array"]

WITH_KERNELS = ("floodsub", "randomsub", "meshsub", "gossipsub")
REFERENCE_ONLY: Mapping[str, str] = {
    "accept_exchange": "dials peers that a PRUNE names; with prune_backoff_ms",
    "allowed_topics": "a list: subscriptions to others are not heard",
    "allowed_topics_pattern": "a regular expression: subscriptions to other topics are not heard",
    "ask_again_heartbeats": "above 0: an id is not asked of others for so many heartbeats",
    "degree_out": "above 0: so many members are dialled ones",
    "degree_score": "above 0: so many with the best scores stay",
    "backoff_on_unsubscribe": "true: a member that unsubscribes is kept apart",
    "backoff_when_not_joined": "true: a PRUNE for a topic that is not joined starts a backoff",
    "direct_connect_ticks": "above 0: there are direct peers",
    "early_graft_ms": "above 0: a GRAFT may come so much too early",
    "exchange_always": "true: every PRUNE names others",
    "extensions": "true: the router speaks 1.3",
    "flood_publish": "true: one's own messages go to all of the topic",
    "gater": "a table: whose messages are looked at",
    "gossip_factor": "above 0: gossip to a share of the topic",
    "graft_on_subscribe": "true: who joins a topic is grafted at once",
    "idontwant_threshold_bytes": "above 0: the mesh is told what one has",
    "ihave_ids_of_rpc": "true: a bound of the ids in all IHAVEs of an RPC",
    "max_cached_bytes": "above 0: a bound of the message cache in memory",
    "max_ids_asked": "above 0: so many ids are asked of a peer",
    "max_ihave_messages": "above 0: so many RPCs with IHAVE are looked at",
    "max_iwant_messages": "above 0: so many RPCs with IWANT are looked at",
    "max_seen_bytes": "above 0: a bound of the seen cache in memory",
    "max_subscription_bytes": "above 0: a bound of all peers' subscriptions in memory",
    "max_subscription_bytes_per_peer": "above 0: a bound of one peer's subscriptions in memory",
    "max_subscriptions_per_rpc": "above 0: of an RPC with more nothing is looked at",
    "member_graft_is_judged": "true: a member may leave the mesh by its GRAFT",
    "mesh_before_gossip": "true: GRAFT and PRUNE before IHAVE and IWANT",
    "partial_messages": "true: parts of messages, before all of them are here",
    "places_per_address": "above 0: places by address",
    "score": "a table: peers are judged by what they do",
    "skip_senders": "true: no copy to a peer that sent one during validation",
    "test_extension": "true: peers send each other a test message",
    "unsubscribed_graft": "ignore or taken_in: GRAFTs of peers without a subscription",
}
"""Parameters that the array engine does not know but as switched off, and what switches on what it lacks."""
PART_OF = {
    "asked_peer_must_send": "score",
    "direct_graft": "direct_connect_ticks",
    "direct_peers": "direct_connect_ticks",
    "early_graft_penalty": "score",
    "exchange_dials": "accept_exchange",
    "flood_publish_mbit": "flood_publish",
    "graft_choice": "score",
    "graft_flood_ms": "score",
    "graylisted_subscriptions": "score",
    "heeds_idontwant": "idontwant_threshold_bytes",
    "idontwant_on_publish": "idontwant_threshold_bytes",
    "idontwant_ttl_heartbeats": "idontwant_threshold_bytes",
    "max_ids_per_idontwant": "idontwant_threshold_bytes",
    "max_idontwant_ids": "idontwant_threshold_bytes",
    "max_idontwants": "idontwant_threshold_bytes",
    "ihave_parts_count": "max_ihave_messages",
    "iwant_followup_ms": "score",
    "max_unwanted": "idontwant_threshold_bytes",
    "withdraw_unwanted": "idontwant_threshold_bytes",
    "late_extensions": "extensions",
    "supporters_told": "partial_messages",
    "max_groups_per_peer": "partial_messages",
    "max_metadata_bytes": "partial_messages",
    "max_peer_groups": "partial_messages",
    "median": "score",
    "partial_group_heartbeats": "partial_messages",
    "opportunistic_graft_peers": "score",
    "opportunity_choice": "score",
    "opportunistic_graft_ticks": "score",
    "outbound_repair": "degree_out",
    "outbound_when_full": "degree_out",
    "tracked_promises": "score",
    "unwelcome_graft": "score",
}
"""Parameters that say nothing as long as another one is off, which the array engine does not know."""
WORTH_COMPILING = 2_000_000
"""Events from which the array engine is faster although it may have to be compiled first."""


class CapacityExceeded(Exception):
    """Something in the array engine grew beyond what was set aside for it; says what."""


def unsupported(scenario: Scenario) -> list[str]:
    """What the array engine cannot do, by key; nothing when it can do all."""
    choices = {"router": scenario.router}
    for number, population in enumerate(scenario.population):
        choices[f"population.{number}.router"] = population.router
    missing = [problem for key, choice in choices.items() for problem in _without_kernel(key, choice)]
    if scenario.validation.invalid:
        missing.append("validation.invalid: only validation.reject_share")
    if scenario.links.uplink_queue_bytes and len(scenario.topic_names) > MAX_UNSENT:
        missing.append(f"links.uplink_queue_bytes: only with {MAX_UNSENT} topics, whose PRUNEs are all said again")
    for number, group in enumerate(scenario.topics):
        if group.goes_in_parts:
            missing.append(f"topics.{number}.partial: only without it")
    return missing


def _without_kernel(key: str, choice: RouterChoice) -> Iterator[str]:
    if choice.kind not in WITH_KERNELS:
        yield f"{key}.kind = {choice.kind!r}: only {', '.join(WITH_KERNELS)}"
    parameters = choice.parameters
    if isinstance(parameters, MeshParameters) and parameters.prune_backoff_ms and parameters.accept_exchange:
        yield f"{key}.accept_exchange = true: only without prune_backoff_ms, since nobody dials at a router's wish"
    for name in REFERENCE_ONLY:
        value = getattr(parameters, name, 0)
        if value and value is not UnsubscribedGraft.PRUNE and name != "accept_exchange":
            yield f"{key}.{name}{_only(value)}"


def _only(value: object) -> str:
    if isinstance(value, int | float):
        return f" = {str(value).lower()}: only {'false' if value is True else 0}"
    return ": only without it"


def choose_engine(scenario: Scenario, *, checked: bool = False) -> tuple[EngineName, str]:
    """The engine for a run, and why in a few words."""
    if checked:
        return "reference", "--check looks into the routers"
    missing = unsupported(scenario)
    if missing:
        return "reference", missing[0]
    events = estimated_events(scenario)
    if events < WORTH_COMPILING:
        return "reference", f"about {events:,} events, a small run"
    return "array", f"about {events:,} events"


def engine_for(scenario: Scenario, wanted: str) -> EngineName:
    """The engine that was asked for, if it can run this; `auto` takes what suits the run."""
    if wanted == "array":
        problems = unsupported(scenario)
        if problems:
            raise ScenarioError([f"engine array: {problem}" for problem in problems])
        return "array"
    return choose_engine(scenario)[0] if wanted == "auto" else "reference"


def estimated_events(scenario: Scenario) -> int:
    """Very roughly what a run's routers will have to handle."""
    degree = mean_degree(scenario)
    copies = degree if scenario.router.kind == "floodsub" else COPIES_PER_DELIVERY
    return int(scenario.network.nodes * (degree * 2 + publications(scenario) * copies + _run_s(scenario)))


def publications(scenario: Scenario) -> int:
    """The messages of a run: the workload's and those of [[timed]]."""
    timed = sum(timed.action is TimedKind.PUBLISH for timed in scenario.timed)
    return scenario.workload.messages + timed


def _run_s(scenario: Scenario) -> float:
    last_us = scenario.warmup_us + scenario.workload.messages * scenario.workload.interval_us
    return (max(last_us, *(timed.at_us for timed in scenario.timed), 0) + scenario.linger_us) / 1e6


COPIES_PER_DELIVERY = 7


def mean_degree(scenario: Scenario) -> int:
    network = scenario.network
    return network.nodes - 1 if network.topology is TopologyKind.COMPLETE else 2 * network.degree
