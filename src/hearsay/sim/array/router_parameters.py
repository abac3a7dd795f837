"""The parameters of routers as lines of numbers in `parameters` and other arrays, which kernels read.

Rule: each parameter of a router with kernels is carried by a column. A parameter without a column is an error when
the arrays are built: kernels would ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.episub.parameters import Broadcast, LeaveBy, Overlay, Repair, ViewSizes
from hearsay.core.language.sizes import SEEN_BYTES, length_of
from hearsay.core.mesh.parameters import (
    DirectGraft,
    FanoutTopUp,
    GossipsubParameters,
    GossipTargets,
    GraftChoice,
    LateExtensions,
    Median,
    OpportunityChoice,
    OutboundRepair,
    OutboundWhenFull,
    SeenBy,
    ShortMesh,
    SupportersTold,
    UnknownGraft,
    UnsubscribedGraft,
    UnwelcomeGraft,
)
from hearsay.core.rules import score_parts
from hearsay.core.scores.declarations import (
    InvalidCopies,
    MeshTimes,
    QuantumRounding,
    RetainedScores,
    TrackedPromises,
)
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.array.rules import direct, mesh, promises, upkeep
from hearsay.sim.array.world import layout as at
from hearsay.sim.plan.engines import WITH_KERNELS

_Value: TypeAlias = Callable[[Any], int]


class NoKernel(Exception):
    """A parameter that no column carries."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of `parameters`.

    It has its index, the names of the parameters that it carries, and the function that computes it from the router's
    parameters. If that is None, the value is that of the first name; milliseconds become microseconds.
    """

    place: int
    names: tuple[str, ...]
    value: _Value | None = None


def _by_time(given: Any) -> bool:
    return getattr(given, "seen_by", SeenBy.TIME) is SeenBy.TIME


_ID_BYTES = SEEN_BYTES + length_of(0)
"""The bytes in memory of an id in a seen cache; simulated ids are numbers."""


def _most_seen(given: RouterParameters) -> int:
    return min(given.max_seen, given.max_seen_bytes // _ID_BYTES) if given.max_seen_bytes else given.max_seen


_SHARED = (
    _Column(at.HELLO, ("hello",)),
    _Column(at.ANNOUNCE_AGAIN, ("announce_again_ms",)),
    _Column(at.COALESCE, ("coalesce",)),
    _Column(at.VALIDATE, ("validate",)),
    _Column(at.SEEN_TTL, ("seen_ttl_ms",), lambda given: given.seen_ttl_us if _by_time(given) else 0),
    _Column(at.MAX_SEEN, ("max_seen", "max_seen_bytes"), _most_seen),
    _Column(at.MAX_SUBSCRIPTIONS, ("max_subscriptions_per_peer",)),
    _Column(at.MAX_SUBSCRIPTION_BYTES, ("max_subscription_bytes",)),
    _Column(at.FILTERS, ("allowed_topics",), lambda given: bool(given.allowed_topics)),
    _Column(at.MAX_BYTES_OF_PEER, ("max_subscription_bytes_per_peer",)),
    _Column(at.MAX_MESSAGES, ("max_messages_per_rpc",)),
    _Column(at.MAX_CHANGES, ("max_subscriptions_per_rpc",)),
    _Column(at.MAX_CONTROL, ("max_control_per_rpc",)),
    _Column(at.MAX_PENDING, ("max_pending_validations",)),
)
_RANDOMSUB = (_Column(at.REACH, ("degree", "network_size"), lambda given: given.reach),)
_MESHSUB = (
    _Column(at.DEGREE, ("degree",)),
    _Column(at.DEGREE_LOW, ("degree_low",)),
    _Column(at.PRUNE_FROM, ("degree_high", "prune_trigger"), lambda given: given.prune_from),
    _Column(at.REFUSE_FROM, ("degree_high", "full_mesh"), lambda given: given.refuse_from),
    _Column(at.EXCHANGE, ("exchange_peers",)),
    _Column(at.DIALS_PER_PRUNE, ("accept_exchange", "exchange_dials"), lambda given: given.dials_per_prune),
    _Column(at.UNKNOWN_GRAFT_PRUNES, ("unknown_graft",), lambda given: given.unknown_graft is UnknownGraft.PRUNE),
    _Column(at.INTERVAL, ("heartbeat_interval_ms",)),
    _Column(at.FIRST_BEAT, ("first_heartbeat_ms",)),
    _Column(at.BEAT_SPREAD, ("first_heartbeat_spread_ms",)),
    _Column(at.BACKOFF, ("prune_backoff_ms",)),
    _Column(at.UNSUBSCRIBE_BACKOFF, ("unsubscribe_backoff_ms",)),
    _Column(at.MAX_BACKOFF, ("max_backoff_ms",)),
    _Column(at.BACKOFF_SLACK, ("backoff_slack_heartbeats",), lambda given: given.backoff_slack_us),
    _Column(at.MAX_BACKOFFS, ("max_backoffs",)),
    _Column(at.PLACES, ("places_per_address",)),
)
_GOSSIPSUB = (
    _Column(at.LAZY, ("degree_lazy",)),
    _Column(
        at.FILTER_FIRST,
        ("gossip_targets",),
        lambda given: given.gossip_targets is GossipTargets.FILTER_THEN_SELECT,
    ),
    _Column(at.HISTORY, ("history_length",)),
    _Column(at.GOSSIP_WINDOWS, ("history_gossip",)),
    _Column(
        at.SEEN_WINDOWS,
        ("seen_by", "history_length"),
        lambda given: 0 if _by_time(given) else given.history_length,
    ),
    _Column(at.FANOUT_TTL, ("fanout_ttl_ms",)),
    _Column(at.FANOUT_AT_PUBLISH, ("fanout_top_up",), lambda given: given.fanout_top_up is FanoutTopUp.PUBLISH),
    _Column(at.TOP_UP_MESH, ("short_mesh",), lambda given: given.short_mesh is ShortMesh.TOP_UP),
    _Column(at.GRAFT_ON_MISSING, ("graft_on_missing",)),
    _Column(at.MISSING_WINDOW, ("missing_window_heartbeats",)),
    _Column(at.MAX_IHAVE, ("max_ids_per_ihave",)),
    _Column(at.MAX_IWANT, ("max_ids_per_iwant",)),
    _Column(at.ANSWERS_LIMIT, ("iwant_answers_per_id",)),
    _Column(at.MAX_CACHED, ("max_cached_messages",)),
    _Column(at.MAX_CACHED_BYTES, ("max_cached_bytes",)),
)
_WHEN_FULL = {
    OutboundWhenFull.ALWAYS: score_parts.ALWAYS,
    OutboundWhenFull.QUOTA: score_parts.QUOTA,
    OutboundWhenFull.NEVER: score_parts.NEVER,
}
_MEDIANS = {Median.UPPER: score_parts.UPPER, Median.LOWER: score_parts.LOWER, Median.MEAN: score_parts.MEAN}
_OPPORTUNITY = {
    OpportunityChoice.DRAWN_ABOVE: upkeep.DRAWN_ABOVE,
    OpportunityChoice.FIRST_ABOVE: upkeep.FIRST_ABOVE,
    OpportunityChoice.FIRST_FROM: upkeep.FIRST_FROM,
}
_STRANGERS = {
    UnsubscribedGraft.PRUNE: mesh.STRANGER_IS_PRUNED,
    UnsubscribedGraft.IGNORE: mesh.STRANGER_IS_IGNORED,
    UnsubscribedGraft.TAKEN_IN: mesh.STRANGER_IS_TAKEN_IN,
}
_DIRECT_GRAFTS = {
    DirectGraft.PRUNE: direct.GRAFT_IS_PRUNED,
    DirectGraft.PENALISE: direct.GRAFT_IS_PENALISED,
    DirectGraft.IGNORE: direct.GRAFT_IS_IGNORED,
}
_TRACKED = {
    TrackedPromises.NONE: promises.TRACKS_NONE,
    TrackedPromises.ONE: promises.TRACKS_ONE,
    TrackedPromises.ALL: promises.TRACKS_ALL,
}
_GOSSIPSUB_11 = (
    _Column(at.TELL_FROM, ("idontwant_threshold_bytes",)),
    _Column(at.TELLS_OWN, ("idontwant_on_publish",)),
    _Column(at.HEEDS, ("heeds_idontwant",)),
    _Column(at.UNWANTED_TICKS, ("idontwant_ttl_heartbeats",)),
    _Column(at.MAX_UNWANTED_IDS, ("max_ids_per_idontwant",)),
    _Column(at.MAX_UNWANTED_RPCS, ("max_idontwants",)),
    _Column(at.MAX_UNWANTED_OF_PEER, ("max_idontwant_ids",)),
    _Column(at.MAX_UNWANTED, ("max_unwanted",)),
    _Column(at.WITHDRAWS, ("withdraw_unwanted",)),
    _Column(at.SKIPS_SENDERS, ("skip_senders",)),
    _Column(at.HAS_11, (), lambda given: given.uses_11),
    _Column(at.MAX_ASKED, ("max_ids_asked",), lambda given: given.max_ids_asked_per_peer),
    _Column(at.ASK_AGAIN, ("ask_again_heartbeats",)),
    _Column(at.DEGREE_SCORE, ("degree_score",)),
    _Column(at.DEGREE_OUT, ("degree_out",)),
    _Column(at.DIRECT_TICKS, ("direct_peers", "direct_connect_ticks"), lambda given: given.direct_connect_ticks),
    _Column(at.DIRECT_GRAFT, ("direct_graft",), lambda given: _DIRECT_GRAFTS[given.direct_graft]),
    _Column(at.WHEN_FULL, ("outbound_when_full",), lambda given: _WHEN_FULL[given.outbound_when_full]),
    _Column(
        at.REPAIR_TO,
        ("outbound_repair",),
        lambda given: given.degree if given.outbound_repair is OutboundRepair.TO_DEGREE else given.degree_out,
    ),
    _Column(at.OPPORTUNITY_TICKS, ("opportunistic_graft_ticks",)),
    _Column(at.OPPORTUNITY_PEERS, ("opportunistic_graft_peers",)),
    _Column(at.OPPORTUNITY_CHOICE, ("opportunity_choice",), lambda given: _OPPORTUNITY[given.opportunity_choice]),
    _Column(at.MEDIAN, ("median",), lambda given: _MEDIANS[given.median]),
    _Column(at.GRAFTS_BEST, ("graft_choice",), lambda given: given.graft_choice is GraftChoice.BEST),
    _Column(at.GRAFT_ON_SUBSCRIBE, ("graft_on_subscribe",)),
    _Column(
        at.TAKES_UNWELCOME,
        ("unwelcome_graft",),
        lambda given: given.unwelcome_graft is UnwelcomeGraft.TAKEN_IN,
    ),
    _Column(at.GRAFT_FLOOD, ("graft_flood_ms",)),
    _Column(at.EARLY_GRAFT, ("early_graft_ms",)),
    _Column(at.FLOOD_PUBLISH, ("flood_publish",)),
    _Column(at.FLOOD_RATE, ("flood_publish_mbit",)),
    _Column(at.MAX_IHAVE_RPCS, ("max_ihave_messages",)),
    _Column(at.COUNTS_IHAVES, ("ihave_parts_count",)),
    _Column(at.IHAVE_IDS_OF_RPC, ("ihave_ids_of_rpc",)),
    _Column(at.MAX_IWANT_RPCS, ("max_iwant_messages",)),
    _Column(at.FOLLOWUP, ("iwant_followup_ms",)),
    _Column(at.TRACKED, ("tracked_promises",), lambda given: _TRACKED[given.tracked_promises]),
    _Column(at.ASKED_MUST_SEND, ("asked_peer_must_send",)),
    _Column(at.UNSUBSCRIBED_GRAFT, ("unsubscribed_graft",), lambda given: _STRANGERS[given.unsubscribed_graft]),
    _Column(at.MEMBER_IS_JUDGED, ("member_graft_is_judged",)),
    _Column(at.BACKOFF_ON_UNSUBSCRIBE, ("backoff_on_unsubscribe",)),
    _Column(at.BACKOFF_NOT_JOINED, ("backoff_when_not_joined",)),
    _Column(at.BACKOFF_LASTS, ("backoff_until_forgotten",)),
    _Column(at.EXCHANGE_ALWAYS, ("exchange_always",)),
    _Column(at.MESH_FIRST, ("mesh_before_gossip",)),
    _Column(at.GRAYLISTED_SUBSCRIBE, ("graylisted_subscriptions",)),
    _Column(at.SCORES, ("score",), lambda given: given.score is not None),
    _Column(at.RETAIN, (), lambda given: _of_peer(given, lambda peer: peer.retain_ms * 1000)),
    _Column(at.NOT_POSITIVE_ONLY, (), lambda given: not _retains(given, RetainedScores.ALL)),
    _Column(at.UNTIL_RETURN, (), lambda given: _retains(given, RetainedScores.UNTIL_RETURN)),
    _Column(at.DECAYS_AWAY, (), lambda given: _of_peer(given, lambda peer: peer.decay_while_away)),
    _Column(at.MAX_RETAINED, (), lambda given: _of_peer(given, lambda peer: peer.max_retained_peers)),
    _Column(at.REFRESH, (), lambda given: _of_peer(given, lambda peer: peer.decay_interval_us)),
    _Column(at.TIMES_ARE_NOW, (), lambda given: _of_peer(given, lambda peer: peer.mesh_times is MeshTimes.NOW)),
    _Column(
        at.WHOLE_QUANTA,
        (),
        lambda given: _of_peer(given, lambda peer: peer.time_in_mesh_quanta is QuantumRounding.WHOLE),
    ),
    _Column(at.DEFICIT_AFTER, (), lambda given: _of_peer(given, lambda peer: peer.deficit_after_prune)),
    _Column(at.SECOND_PRUNE, (), lambda given: _of_peer(given, lambda peer: peer.second_prune_counts)),
    _Column(
        at.MEMBERS_BLAMED,
        (),
        lambda given: _of_peer(given, lambda peer: peer.invalid_copies is InvalidCopies.MEMBERS),
    ),
    _Column(at.RECORD_TTL, (), lambda given: _of_peer(given, lambda peer: peer.delivery_ttl_ms * 1000)),
    _Column(at.MAX_DELIVERIES, (), lambda given: _of_peer(given, lambda peer: peer.max_deliveries)),
    _Column(at.MAX_SENDERS, (), lambda given: _of_peer(given, lambda peer: peer.max_senders_per_delivery)),
    _Column(at.GATES, ("gater",), lambda given: given.gater is not None),
    _Column(at.GATER_EVERY, (), lambda given: _of_gater(given, lambda gater: gater.decay_interval_ms * 1000)),
    _Column(at.GATER_QUIET, (), lambda given: _of_gater(given, lambda gater: gater.quiet_ms * 1000)),
    _Column(at.GATER_RETAIN, (), lambda given: _of_gater(given, lambda gater: gater.retain_ms * 1000)),
    _Column(at.GATER_RETAINED, (), lambda given: _of_gater(given, lambda gater: gater.max_retained_addresses)),
)
_GOSSIPSUB_13 = (
    _Column(at.SPEAKS_13, ("extensions",), lambda given: given.speaks_13),
    _Column(
        at.OWN_FEATURES,
        ("partial_messages", "test_extension"),
        lambda given: at.EXCHANGES_PARTS * given.partial_messages + at.TESTS * given.test_extension,
    ),
    _Column(at.LATE_PENALISES, ("late_extensions",), lambda given: given.late_extensions is LateExtensions.PENALISE),
    _Column(at.TELLS_ALL, ("supporters_told",), lambda given: given.supporters_told is SupportersTold.BY_ALL),
    _Column(at.GROUP_BEATS, ("partial_group_heartbeats",)),
    _Column(at.MAX_PEER_GROUPS, ("max_peer_groups",)),
    _Column(at.MAX_GROUPS_OF_PEER, ("max_groups_per_peer",)),
    _Column(at.MAX_METADATA, ("max_metadata_bytes",)),
)
_OVERLAYS = {
    Overlay.CONNECTIONS: at.FIXED_OVERLAY,
    Overlay.EPISUB: at.SEEDS_OVERLAY,
    Overlay.HYPARVIEW: at.HYPARVIEW,
}
_EPISUB = (
    _Column(at.TREE_FLOODS, ("broadcast",), lambda given: given.broadcast is Broadcast.FLOOD),
    _Column(at.GRAFTS_ALL, ("repair",), lambda given: given.repair is Repair.EAGER),
    _Column(at.FLUSH, ("flush_ms",)),
    _Column(at.RECENT, ("announce_recent_ms",)),
    _Column(at.MISSING_TICK, ("missing_tick_ms",)),
    _Column(at.GRAFT_ATTEMPTS, ("graft_attempts",)),
    _Column(at.THRESHOLD, ("optimisation_threshold",)),
    _Column(at.PAYLOAD_TTL, ("payload_ttl_ms",)),
    _Column(at.MAX_CACHED, ("max_cached_messages",)),
    _Column(at.MAX_CACHED_BYTES, ("max_cached_bytes",)),
    _Column(at.MAX_MISSING, ("max_missing",)),
    _Column(at.MAX_ANNOUNCERS, ("max_announcers",)),
    _Column(at.MAX_PART_IDS, ("max_ids_per_part",)),
    _Column(at.ANSWERS_LIMIT, ("graft_answers_per_id",)),
    _Column(at.OVERLAY, ("overlay",), lambda given: _OVERLAYS[given.overlay]),
    _Column(at.RANDOM_LINKS, ("random_links",)),
    _Column(at.NEAR_LINKS, ("near_links",)),
    _Column(at.PASSIVE_SIZE, ("passive_size",)),
    _Column(at.IS_ESTIMATED, ("view_sizes",), lambda given: given.view_sizes is ViewSizes.ESTIMATED),
    _Column(at.SIZE_CONSTANT, ("size_constant",)),
    _Column(at.PASSIVE_FACTOR, ("passive_factor",)),
    _Column(at.ACTIVE_LIMIT, ("active_limit",)),
    _Column(at.JOIN_TTL, ("join_ttl",)),
    _Column(at.PASSIVE_TTL, ("passive_ttl",)),
    _Column(at.REPLY_TIMEOUT, ("reply_timeout_ms",)),
    _Column(at.STABILISE_MIN, ("stabilise_min_ms",)),
    _Column(at.STABILISE_MAX, ("stabilise_max_ms",)),
    _Column(at.ALPHA, ("alpha_percent",)),
    _Column(at.SHUFFLE_INTERVAL, ("shuffle_interval_ms",)),
    _Column(at.SHUFFLE_TTL, ("shuffle_ttl",)),
    _Column(at.SHUFFLE_ACTIVE, ("shuffle_active",)),
    _Column(at.SHUFFLE_PASSIVE, ("shuffle_passive",)),
    _Column(at.PROBE_INTERVAL, ("probe_interval_ms",)),
    _Column(at.PROBE_COUNT, ("probe_count",)),
    _Column(at.CONTACTS_INTERVAL, ("contacts_interval_ms",)),
    _Column(at.SAYS_LEAVE, ("leave_by",), lambda given: given.leave_by is LeaveBy.LEAVE),
    _Column(at.LEAVE_TTL, ("leave_ttl",)),
    _Column(at.IDLE_FOR, ("idle_ms",)),
    _Column(at.MAX_PART_PEERS, ("max_peers_per_part",)),
    _Column(at.MOST_DIALS, ("max_dials",)),
)
_REALS_OF = ("gossip_factor", "early_graft_penalty")
"""Parameters that `reals` carries, besides those of scores."""


def _of_peer(given: GossipsubParameters, value: Callable[[PeerScoreParameters], int]) -> int:
    return value(given.score.peer) if given.score is not None else 0


def _of_gater(given: GossipsubParameters, value: Callable[[GaterParameters], int]) -> int:
    return value(given.gater) if given.gater is not None else 0


def _retains(given: GossipsubParameters, which: RetainedScores) -> bool:
    return given.score is not None and given.score.peer.retained_scores is which


def reals_of(parameters: RouterParameters) -> list[float]:
    """Return a router's line in the table `reals`."""
    if not isinstance(parameters, GossipsubParameters):
        return [0.0] * at.REALS
    score, gater = parameters.score, parameters.gater
    line = [parameters.gossip_factor, parameters.early_graft_penalty]
    if score is not None:
        thresholds, peer = score.thresholds, score.peer
        line += [thresholds.gossip, thresholds.publish, thresholds.graylist, thresholds.opportunistic_graft]
        line += [peer.topic_cap, peer.misbehaviour_weight, peer.misbehaviour_threshold, peer.misbehaviour_decay]
        line += [peer.slow_peer_weight, peer.slow_peer_threshold, peer.slow_peer_decay, peer.decay_to_zero]
        line += [peer.application_weight, peer.shared_address_weight, peer.shared_address_threshold]
        line += [thresholds.accept_exchange]
    line += [0.0] * (at.GATER_THRESHOLD - len(line))
    if gater is not None:
        line += [gater.threshold, gater.global_decay, gater.source_decay, gater.decay_to_zero]
        line += [gater.duplicate_weight, gater.ignore_weight, gater.reject_weight]
    return list(map(float, line + [0.0] * (at.REALS - len(line))))


def topic_of(parameters: RouterParameters, topic: str) -> tuple[list[float], list[int]]:
    """Return a router's lines for a topic in the tables `topic_reals` and `topic_times`."""
    score = parameters.score if isinstance(parameters, GossipsubParameters) else None
    scored = None if score is None else score.of_topic(topic)
    numbers = TopicNumbers() if scored is None else scored.numbers()
    times = ("quantum", "window", "activation")
    line = [value for name, value in numbers._asdict().items() if name not in times]
    line.append(1.0 if scored is None else float(scored.gater_weight))
    return line, [int(scored is not None), *(getattr(numbers, name) for name in times)]


_COLUMNS = {
    "floodsub": _SHARED,
    "randomsub": (*_SHARED, *_RANDOMSUB),
    "episub": (*_SHARED, *_EPISUB),
    "meshsub": (*_SHARED, *_MESHSUB),
    "gossipsub": (*_SHARED, *_MESHSUB, *_GOSSIPSUB, *_GOSSIPSUB_11, *_GOSSIPSUB_13),
}


def columns_of(router: str, parameters: RouterParameters) -> NDArray[np.int64]:
    """Return a router's line in the table `parameters`; raise `NoKernel` if no column carries a parameter."""
    columns = _COLUMNS[router]
    carried = {name for column in columns for name in column.names}
    missing = set(parameters.names()) - carried - set(_REALS_OF)
    if missing:
        raise NoKernel(f"{router}: no column carries {', '.join(sorted(missing))}")
    line = np.zeros(at.PARAMETERS, dtype=np.int64)
    line[at.ROUTER_KIND] = WITH_KERNELS.index(router)
    for column in columns:
        line[column.place] = column.value(parameters) if column.value else _number(parameters, column.names[0])
    return line


def _number(parameters: RouterParameters, name: str) -> int:
    return (1000 if name.endswith("_ms") else 1) * getattr(parameters, name)
