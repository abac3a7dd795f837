"""The HTTP server of a node's metrics, health and readiness.

The metrics are computed from measurements (`measurements.py`). `families.toml` and docs/guide/operating.md have all
names. A metric has the name that another program uses for the same quantity. If several programs have a name, the
order of preference is: rust-libp2p and Ethereum's clients, js-libp2p, the draft of libp2p's specifications
(libp2p/specs#695). Names of metrics that only this node has begin with `hearsay_`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import PartKind
from hearsay.http_server import PATIENCE_S, TEXT, BadRequest, HttpServer, Request, response
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.node_host import NodeHost
from hearsay.node.conduct import Statistics
from hearsay.node.config import NodeConfig
from hearsay.node.driver import Driver
from hearsay.node.measurements import (
    CONTENT_TYPE,
    TABLE,
    WITH_IDS,
    ConnectionCounts,
    Durations,
    Family,
    Kind,
    Labels,
    LoopDelay,
    TopicTraffic,
    Traffic,
    exposition,
    family,
    process_families,
)
from hearsay.node.meeting.address_book import AddressBoard, AddressState
from hearsay.version import __version__

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
CONNECTIONS = 16
FRESH_S = 0.25
"""Minimum seconds between two computations of the metrics, for any number of requests."""
_USUAL = frozenset(range(PartKind.PUBLISH, PartKind.IDONTWANT + 1))
"""Kinds of parts that have samples even if none was counted, so that their rates begin at zero."""


class MetricsServer:
    """The server of a node's metrics, health and readiness.

    Traffic and connections are counted from its creation on, so create it before the host has connections.
    """

    def __init__(self, config: NodeConfig, host: NodeHost, driver: Driver, board: AddressBoard) -> None:
        kind, _ = config.router_parameters()
        self._about = (("router", kind.name), ("preset", config.preset_of(kind)), ("host", config.host))
        self._traffic = driver.observers.traffic = Traffic()
        self._durations = driver.observers.durations = Durations()
        self._connections = ConnectionCounts(host)
        self._loop_delay = LoopDelay()
        self._config = config
        self._host = host
        self._driver = driver
        self._board = board
        self._server = answering({"/metrics": self._metrics, "/health": self._health, "/ready": self._ready})
        self._shown = Answer(b"")
        self._stale_s = 0.0
        self.url = ""
        """The URL of the metrics; empty before `listen`."""

    async def listen(self, host: str, port: int) -> None:
        """Listen at an address. Raises `OSError` with the reason if the server cannot listen."""
        try:
            name, port = await self._server.listen(host, port)
        except OSError as error:
            raise OSError(error.errno, f"metrics: {error.strerror or error}") from None
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{port}/metrics"

    async def close(self) -> None:
        self._loop_delay.close()
        await self._server.close()

    def _metrics(self) -> Answer:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._stale_s:
            self._stale_s = now_s + FRESH_S
            self._shown = Answer(exposition(self._families()), content_type=CONTENT_TYPE)
        return self._shown

    def _families(self) -> Iterator[Family]:
        yield family("hearsay_build").add(1, (("version", __version__), *self._about))
        yield from _topics(self._driver, self._traffic)
        yield from _parts(self._traffic)
        yield from _counters(self._driver.statistics)
        yield from _peers(self._driver)
        yield from self._connections.families()
        for name, (figure, text) in TABLE["durations"].items():
            yield Family(name, Kind.HISTOGRAM, text).add_histogram(getattr(self._durations, figure))
        yield family("hearsay_event_loop_delay_seconds").add_histogram(self._loop_delay.late)
        yield from process_families()

    def _health(self) -> Answer:
        failure = self._driver.failure
        return _ok("ok") if failure is None else _unavailable(str(failure))

    def _ready(self) -> Answer:
        """Return status 200 if the router has not failed, the node listens, and a peer of `bootstrap` is connected.

        A node without addresses in `listen` need not listen. A node without addresses of other nodes in `bootstrap`
        need not be connected.
        """
        if self._driver.failure is not None:
            return self._health()
        if self._config.listen and not self._host.addresses:
            return _unavailable("the node does not listen")
        states = {news.address: news.state for news in self._board.latest}
        bootstrap = {str(Multiaddr.parse(address)) for address in self._config.bootstrap}
        named = [state for address in bootstrap if (state := states.get(address)) is not AddressState.OWN]
        if named and AddressState.CONNECTED not in named:
            return _unavailable(f"none of {len(named)} bootstrap peers is connected")
        return _ok("ready")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response to a GET request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


def answering(answers: Mapping[str, Callable[[], Answer]], patience_s: float = PATIENCE_S) -> HttpServer:
    """Return a server that answers GET and HEAD requests for the paths in `answers`, and others with 404 or 405."""

    async def respond(request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.method not in ("GET", "HEAD"):
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", "Allow: GET, HEAD")
        if request.path not in answers:
            raise BadRequest(HTTPStatus.NOT_FOUND, "not found")
        answer = answers[request.path]()
        writer.write(response(request.method, answer.status, answer.content_type, answer.body))

    return HttpServer(respond, CONNECTIONS, patience_s=patience_s)


def _ok(word: str) -> Answer:
    return Answer(f"{word}\n".encode())


def _unavailable(why: str) -> Answer:
    return Answer(f"{why.splitlines()[0]}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)


def _topics(driver: Driver, traffic: Traffic) -> Iterator[Family]:
    router = driver.router
    subscribed, mesh = family("gossipsub_topic_peers_counts"), family("gossipsub_mesh_peer_counts")
    for topic in [topic for topic in traffic.topics if topic in router.joined]:
        view, label = router.peers.in_topic(topic), _topic_label(topic)
        subscribed.add(len(view.native) + len(view.flood), label)
        mesh.add(len(router.strategy.mesh_peers(topic)), label)
    yield from (subscribed, mesh)
    all_topics: list[tuple[Labels, TopicTraffic]] = [((), traffic.others)]
    all_topics += [(_topic_label(topic), counts) for topic, counts in traffic.topics.items()]
    for name, (figure, text) in TABLE["topics"].items():
        counter = Family(name, Kind.COUNTER, text)
        for label, counts in all_topics:
            counter.add(getattr(counts, figure), label)
        yield counter
    rejected = family("gossipsub_message_rejected")
    for label, counts in all_topics:
        for reason, number in sorted(counts.rejected.items()):
            rejected.add(number, (*label, ("reason", reason.name.lower())))
    yield rejected


def _topic_label(topic: TopicId) -> Labels:
    return (("topic", str(topic)),)


def _parts(traffic: Traffic) -> Iterator[Family]:
    yield _of_kinds("gossipsub_rpc_received", traffic.parts_received, tuple(PartKind))
    yield _of_kinds("hearsay_rpc_ids_received", traffic.ids_received, WITH_IDS)
    yield _of_kinds("gossipsub_rpc_sent", traffic.parts_sent, tuple(PartKind))
    yield _of_kinds("hearsay_rpc_ids_sent", traffic.ids_sent, WITH_IDS)


def _of_kinds(name: str, counts: Mapping[PartKind, int], kinds: Sequence[PartKind]) -> Family:
    shown = [(kind.name.lower(), counts.get(kind, 0)) for kind in kinds if kind in counts or kind in _USUAL]
    return family(name).add_each("message_type", shown)


def _counters(of: Statistics) -> Iterator[Family]:
    for name, (figure, text) in TABLE["statistics"].items():
        yield Family(name, Kind.COUNTER, text).add(getattr(of, figure))
    dropped = (("message", of.messages_dropped), ("control", of.control_dropped), ("gossip", of.gossip_dropped))
    yield family("hearsay_queue_dropped").add_each("kind", dropped)
    ignored = [(reason.name.lower(), count) for reason, count in sorted(of.dropped_because.items())]
    yield family("hearsay_rpc_parts_dropped").add_each("reason", ignored)
    offences = sorted((offence.name.lower(), count) for offence, count in of.offences.items())
    yield family("hearsay_offences").add_each("kind", offences)


def _peers(driver: Driver) -> Iterator[Family]:
    router = driver.router
    spoken = Counter(peer.protocol for peer in router.connected.values())
    peers = [(protocol, spoken[protocol]) for protocol in driver.protocols]
    yield family("gossipsub_peers_per_protocol").add_each("protocol", peers)
    queued = sum(link.queue.bytes for link in driver.links.by_peer.values())
    yield family("hearsay_outgoing_queue_bytes").add(queued)
    if router.strategy.keeps_scores:
        yield from _scores(sorted(parts.score for _, parts in router.strategy.scores()), router.parameters)


def _scores(scores: Sequence[float], parameters: object) -> Iterator[Family]:
    """Yield the metrics of the ascending `scores` of connected peers. The metrics are gauges, because OpenMetrics
    forbids negative quantiles in a summary."""
    places = [(f"{quantile:g}", round(quantile * (len(scores) - 1))) for quantile in QUANTILES if scores]
    yield family("gossipsub_peer_score").add_each("quantile", [(name, scores[place]) for name, place in places])
    thresholds = getattr(getattr(parameters, "score", None), "thresholds", None)
    limits = [(name, float(getattr(thresholds, name))) for name in ("graylist", "publish", "gossip") if thresholds]
    reaching = [(name, sum(each >= limit for each in scores)) for name, limit in (*limits, ("mesh", 0.0))]
    yield family("gossipsub_peers_by_score_threshold_count").add_each("threshold", reaching)
