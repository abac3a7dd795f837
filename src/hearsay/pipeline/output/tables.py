"""The result tables: their names, columns and meaning. `docs/reference/metrics.md` says how each figure is computed.

Rules:

* `run` is the name of the run, `topic` its number (null: the run as a whole), times are integer microseconds of the
  run's clock, ratios lie between 0 and 1. Where there is nothing to count, a figure is null, never NaN.
* A table is written whole or not at all, as `metrics/NAME/*.parquet`, and a manifest names its files (`table_store`).
* Types are Spark's DDL names; `bigint` counts and times, `double` figures, `int` numbers of nodes, topics and hops.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay import metrics

METRICS_FOLDER = "metrics"

MESH_LAYER, NEIGHBOURS_LAYER, TREE_LAYER = "mesh", "neighbours", "tree"
"""Which links a row of `mesh`, `degrees` and `mesh_links` is about: a router has a mesh, or neighbours and a tree."""


@dataclass(frozen=True, slots=True)
class MetricTable:
    """A result table: columns in order, as (name, Spark type)."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def _table(name: str, title: str, columns: str) -> MetricTable:
    pairs = [column.split() for column in columns.split(",")]
    return MetricTable(name, title, tuple((column, kind) for column, kind in pairs))


MESSAGES = _table(
    "messages",
    "every message: who should have got it, who did, how fast, how many copies",
    """run string, topic int, message bigint, publisher int, published_us bigint, bytes bigint,
    eligible bigint, delivered_eligible bigint, ratio double,
    delivered bigint, away bigint, copies bigint, duplicates bigint, rejected bigint, by_iwant bigint,
    p50_us double, p90_us double, p99_us double, max_us bigint,
    t50_us bigint, t90_us bigint, t99_us bigint, t100_us bigint,
    hops_sum bigint, hops_max int, copies_per_delivery double""",
)
MEMBERSHIPS = _table(
    "memberships",
    "when which node was in which topic",
    "run string, topic int, node int, since_us bigint, until_us bigint",
)
LATENCY = _table(
    "latency",
    "deliveries away from the publisher, by latency, rounded down to its first digits, and by hops",
    "run string, topic int, latency_ms int, latency_us bigint, hops int, deliveries bigint",
)
TRAFFIC = _table(
    "traffic",
    "what every node sent and received, by topic and kind of RPC part",
    """run string, topic int, node int, kind string,
    parts_out bigint, ids_out bigint, bytes_out bigint, parts_in bigint, ids_in bigint, bytes_in bigint""",
)
CONTROL = _table(
    "control",
    "what was sent, by topic and kind, and its share of all bytes of the topic",
    "run string, topic int, kind string, parts bigint, ids bigint, bytes bigint, bytes_share double",
)
BALANCE = _table(
    "balance",
    "how evenly the bytes sent are spread over the nodes",
    """run string, topic int, nodes bigint, bytes_mean double, bytes_max bigint, max_over_mean double, gini double""",
)
MESH = _table(
    "mesh",
    "the mesh of a topic, or its active neighbours and its tree, at sampled times",
    """run string, topic int, layer string, time_us bigint, members bigint, links bigint,
    degree_mean double, degree_min int, degree_max int, symmetric_share double,
    components bigint, largest_share double, diameter int""",
)
DEGREES = _table(
    "degrees",
    "how many nodes have which degree at sampled times",
    "run string, topic int, layer string, time_us bigint, degree int, nodes bigint",
)
MESH_LINKS = _table(
    "mesh_links",
    "the links of the mesh at the last sampled time; of a large mesh those among a sample of its nodes",
    "run string, topic int, layer string, node int, remote int",
)
CHURN = _table(
    "churn",
    "stretch by stretch of the run: nodes up, comings and goings, and how the messages published then fared",
    """run string, topic int, second int, seconds int, nodes_up bigint, came bigint, went bigint,
    messages bigint, eligible bigint, delivered bigint, ratio double""",
)
DISTURBANCES = _table(
    "disturbances",
    "what went wrong in the run, as its scenario says or its trace shows",
    "run string, disturbance int, kind string, what string, since_us bigint, until_us bigint, source string",
)
RESILIENCE = _table(
    "resilience",
    "delivery before, during and after each disturbance and all of them together, and the time to heal",
    """run string, topic int, disturbance int, kind string, disturbances bigint, first_us bigint, last_us bigint,
    ratio_before double, ratio_during double, ratio_after double, heal_us bigint""",
)
STATE = _table(
    "state",
    "what a node keeps, over the nodes sampled at a time",
    """run string, time_us bigint, nodes bigint, entries_mean double, entries_max bigint,
    bytes_mean double, bytes_max bigint""",
)
QUALITY = _table(
    "quality",
    "what is odd about the trace itself, check by check",
    "run string, check string, rows bigint, detail string",
)
MEASURED = _table(
    "measured",
    "which figures the trace of a run can tell, and why not the others",
    "run string, figure string, measured boolean, reason string",
)
SPREAD = _table(
    "spread",
    "how one typical message of a topic spread: its first deliveries, of a large network a sample",
    "run string, topic int, message bigint, node int, remote int, after_us bigint, hops int, via string",
)
REFUSALS = _table(
    "refusals",
    "stretch by stretch of the run: parts of RPCs that were dropped on their way, or refused when they came",
    """run string, second int, seconds int, fate string, kind string, reason string,
    rows bigint, count bigint, bytes bigint""",
)
PROMISES = _table(
    "promises",
    "stretch by stretch of the run: messages asked for after gossip, those that came, and promises broken",
    "run string, second int, seconds int, requests bigint, asked bigint, answered bigint, broken bigint",
)
IDONTWANT = _table(
    "idontwant",
    "stretch by stretch of the run: what peers said they do not want, and the copies that this saved",
    """run string, second int, seconds int, told bigint, arrived bigint, refused bigint,
    withheld bigint, withheld_bytes bigint, withdrawn bigint, withdrawn_bytes bigint""",
)
EXCHANGE = _table(
    "exchange",
    "stretch by stretch of the run: dials of peers that PRUNEs named, and the connections that came of them",
    "run string, second int, seconds int, dials bigint, connections bigint, nodes bigint",
)
SCORES = _table(
    "scores",
    "what peers thought of each other at sampled times: quantiles of scores and of their parts, shares below bounds",
    """run string, topic int, part string, time_us bigint, pairs bigint,
    lowest double, p5 double, median double, p95 double, highest double,
    below_zero double, below_gossip double, below_publish double, below_graylist double""",
)
WORST_PEERS = _table(
    "worst_peers",
    "the peers with the lowest scores at the last sampled time",
    """run string, time_us bigint, peer int, observers bigint, median double, lowest double,
    below_zero_by bigint, graylisted_by bigint""",
)
HEADLINE = _table(
    "headline",
    "the answers, one line per run and topic",
    f"""run string, topic int, topic_name string, router string, nodes bigint, messages bigint,
    eligible bigint, delivered bigint, {", ".join(map(" ".join, metrics.COLUMNS))},
    ratio_before double, ratio_during double, ratio_after double, heal_us bigint,
    start_us bigint, seconds double, complete boolean""",
)

TABLES: dict[str, MetricTable] = {
    table.name: table
    for table in (
        HEADLINE,
        MESSAGES,
        MEMBERSHIPS,
        LATENCY,
        TRAFFIC,
        CONTROL,
        BALANCE,
        MESH,
        DEGREES,
        MESH_LINKS,
        CHURN,
        DISTURBANCES,
        RESILIENCE,
        STATE,
        QUALITY,
        MEASURED,
        SPREAD,
        REFUSALS,
        PROMISES,
        IDONTWANT,
        EXCHANGE,
        SCORES,
        WORST_PEERS,
    )
}
