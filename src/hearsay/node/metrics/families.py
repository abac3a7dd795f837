"""The metrics of a node, and the source of each figure. docs/guide/operating.md has a table of them.

A metric has the name that another program uses for the same figure. The order of preference is: rust-libp2p and
Ethereum's clients, js-libp2p, the draft of libp2p's specifications (libp2p/specs#695). Names of metrics that only
this node has begin with `hearsay_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import PartKind
from hearsay.node.driver import Driver
from hearsay.node.metrics.measurements import (
    WITH_IDS,
    ConnectionCounts,
    Durations,
    LoopDelay,
    TopicTraffic,
    Traffic,
    process_families,
)
from hearsay.node.metrics.openmetrics import Family, Kind, Labels
from hearsay.version import __version__

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_COUNTER, _GAUGE = Kind.COUNTER, Kind.GAUGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The objects from which the figures are read."""

    driver: Driver
    traffic: Traffic
    connections: ConnectionCounts
    durations: Durations
    loop_delay: LoopDelay
    about: Labels
    """Labels with the router, its preset and the host."""


def families(observed: Observed) -> Iterator[Family]:
    yield Family("hearsay_build", Kind.INFO, "Version and router").add(1, (("version", __version__), *observed.about))
    yield from _topics(observed.driver, observed.traffic)
    yield from _parts(observed.traffic)
    yield from _counters(observed.driver)
    yield from _peers(observed.driver)
    yield from observed.connections.families()
    yield from observed.durations.families()
    yield observed.loop_delay.late.family("hearsay_event_loop_delay_seconds", "Delay of a timer of the event loop")
    yield from process_families()


def _topics(driver: Driver, traffic: Traffic) -> Iterator[Family]:
    router = driver.router
    subscribed = Family(
        "gossipsub_topic_peers_counts", _GAUGE, "Connected peers that are subscribed to a joined topic"
    )
    mesh = Family(
        "gossipsub_mesh_peer_counts", _GAUGE, "Peers that exchange full messages of a joined topic with this node"
    )
    for topic in [topic for topic in traffic.topics if topic in router.joined]:
        view, label = router.peers.in_topic(topic), _topic(topic)
        subscribed.add(len(view.native) + len(view.flood), label)
        mesh.add(len(router.strategy.mesh_peers(topic)), label)
    yield from (subscribed, mesh)
    for name, text, count in _OF_TOPICS:
        family = Family(name, _COUNTER, text)
        for label, counts in _all_topics(traffic):
            family.add(count(counts), label)
        yield family
    rejected = Family("gossipsub_message_rejected", _COUNTER, "Messages rejected or ignored, by reason")
    for label, counts in _all_topics(traffic):
        for reason, number in sorted(counts.rejected.items()):
            rejected.add(number, (*label, ("reason", reason.name.lower())))
    yield rejected


_OF_TOPICS: Sequence[tuple[str, str, Callable[[TopicTraffic], int]]] = (
    ("gossipsub_topic_msg_recv_counts_unfiltered", "Messages received, duplicates included", lambda of: of.received),
    ("gossipsub_topic_msg_recv_bytes_unfiltered", "Bytes of messages received", lambda of: of.received_bytes),
    ("gossipsub_topic_msg_sent_counts", "Copies of messages sent to peers", lambda of: of.sent),
    ("gossipsub_topic_msg_sent_bytes", "Bytes of copies of messages sent", lambda of: of.sent_bytes),
    ("gossipsub_topic_msg_published", "Messages published by this node", lambda of: of.published),
    ("gossipsub_message_delivered", "Messages delivered to the application", lambda of: of.delivered),
    ("gossipsub_message_duplicate", "Duplicates of messages received", lambda of: of.duplicates),
    ("gossipsub_peer_graft", "GRAFTs sent", lambda of: of.grafts_sent),
    ("gossipsub_peer_prune", "PRUNEs sent", lambda of: of.prunes_sent),
)


def _all_topics(traffic: Traffic) -> Iterator[tuple[Labels, TopicTraffic]]:
    """Yield the counts of each topic with its label, and without a label those of all other topics."""
    yield (), traffic.others
    for topic, counts in traffic.topics.items():
        yield _topic(topic), counts


def _topic(topic: TopicId) -> Labels:
    return (("topic", str(topic)),)


def _parts(traffic: Traffic) -> Iterator[Family]:
    for way, parts, ids in (
        ("received", traffic.parts_received, traffic.ids_received),
        ("sent", traffic.parts_sent, traffic.ids_sent),
    ):
        yield _of_kinds(f"gossipsub_rpc_{way}", f"Parts of RPCs {way}, by kind", parts, tuple(PartKind))
        yield _of_kinds(f"hearsay_rpc_ids_{way}", f"Message ids in IHAVE, IWANT and IDONTWANT {way}", ids, WITH_IDS)


_USUAL = frozenset(range(PartKind.PUBLISH, PartKind.IDONTWANT + 1))
"""Kinds of parts that are shown from the start, so that their rates begin at zero."""


def _of_kinds(name: str, text: str, counts: Mapping[PartKind, int], kinds: Sequence[PartKind]) -> Family:
    shown = [(kind.name.lower(), counts.get(kind, 0)) for kind in kinds if kind in counts or kind in _USUAL]
    return Family(name, _COUNTER, text).add_each("message_type", shown)


def _counters(driver: Driver) -> Iterator[Family]:
    of = driver.statistics
    plain = (
        ("gossipsub_rpc_recv_count", "RPCs received", of.rpcs_received),
        ("gossipsub_rpc_recv_bytes", "Bytes of RPCs received", of.bytes_received),
        ("gossipsub_rpc_sent_count", "RPCs sent", of.rpcs_sent),
        ("gossipsub_rpc_sent_bytes", "Bytes of RPCs sent", of.bytes_sent),
        ("gossipsub_rpc_data_err_count", "Malformed RPCs received", of.malformed_rpcs),
        (
            "hearsay_messages_withdrawn",
            "Copies not sent because the peer sent IDONTWANT",
            of.messages_withdrawn,
        ),
        ("hearsay_validations_timed_out", "Messages whose validators took too long", of.validations_timed_out),
        ("hearsay_rpcs_abandoned", "RPCs handled only in part because the peer was gone", of.abandoned_rpcs),
        ("hearsay_replays", "Messages whose sequence number was used before", of.replays),
        ("hearsay_messages_missed", "Messages that the application did not take in time", of.missed),
        ("hearsay_publishes_given_up", "Own messages dropped while they waited for a peer", of.gave_up_waiting),
        ("hearsay_peers_slowed", "Pauses in reading from a peer because of offences", of.slowed),
        ("hearsay_peers_kept_out", "Bans of peers and addresses", of.put_out),
    )
    for name, text, value in plain:
        yield Family(name, _COUNTER, text).add(value)
    dropped = (("message", of.messages_dropped), ("control", of.control_dropped), ("gossip", of.gossip_dropped))
    ignored = [(reason.name.lower(), count) for reason, count in sorted(of.dropped_because.items())]
    offences = sorted((offence.name.lower(), count) for offence, count in of.offences.items())
    for name, text, label, values in (
        ("hearsay_queue_dropped", "Messages and RPCs without room in a peer's queue, by kind", "kind", dropped),
        (
            "hearsay_rpc_parts_dropped",
            "Parts of received RPCs that were ignored, by reason",
            "reason",
            ignored,
        ),
        ("hearsay_offences", "Offences of peers, by kind", "kind", offences),
    ):
        yield Family(name, _COUNTER, text).add_each(label, values)


def _peers(driver: Driver) -> Iterator[Family]:
    router = driver.router
    spoken = Counter(peer.protocol for peer in router.connected.values())
    protocols = Family("gossipsub_peers_per_protocol", _GAUGE, "Connected peers, by pubsub protocol")
    yield protocols.add_each("protocol", [(protocol, spoken[protocol]) for protocol in driver.protocols])
    queued = sum(link.queue.bytes for link in driver.links.of.values())
    yield Family("hearsay_outgoing_queue_bytes", _GAUGE, "Bytes that wait to be sent to peers").add(queued)
    if router.strategy.keeps_scores:
        yield from _scores(sorted(parts.score for _, parts in router.strategy.scores()), router.parameters)


def _scores(scores: Sequence[float], parameters: object) -> Iterator[Family]:
    """Yield the figures of scores as gauges, because OpenMetrics forbids negative quantiles in a summary."""
    score = Family("gossipsub_peer_score", _GAUGE, "Scores of connected peers: minimum, quantiles, maximum")
    places = [(f"{quantile:g}", round(quantile * (len(scores) - 1))) for quantile in QUANTILES if scores]
    yield score.add_each("quantile", [(quantile, scores[place]) for quantile, place in places])
    thresholds = getattr(getattr(parameters, "score", None), "thresholds", None)
    limits = [(name, float(getattr(thresholds, name))) for name in ("graylist", "publish", "gossip") if thresholds]
    reached = Family("gossipsub_peers_by_score_threshold_count", _GAUGE, "Peers whose score reaches a threshold")
    limits.append(("mesh", 0.0))
    yield reached.add_each("threshold", [(name, sum(each >= limit for each in scores)) for name, limit in limits])
