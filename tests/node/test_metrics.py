"""Metrics of real nodes, read over HTTP by the reference parser of OpenMetrics and compared with known events."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from http_client import connect, get
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_fd_to_metric_families
from waiting import run, until

from hearsay.core.language.actions import MessageRejected, Reason, TopicJoined
from hearsay.core.language.events import Verdict
from hearsay.core.language.rpc import Control, IDontWant, IHave, IWant, Message, Rpc, Subscription
from hearsay.core.language.sizes import part_sizes
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.node.config import NodeConfig, endpoint_of
from hearsay.node.measurements import (
    BOUNDS_S,
    CONTENT_TYPE,
    MOST_ASKED,
    TABLE,
    TOPICS,
    Durations,
    Family,
    Histogram,
    Kind,
    Traffic,
    exposition,
)
from hearsay.node.metrics_server import CONNECTIONS, FRESH_S
from hearsay.node.node import Node
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "operating.md"
QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50}
WITH_METRICS = NodeConfig(parameters=QUICK, metrics="0")


def parsed(text):
    """Values by name and labels, as the reference parser reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_fd_to_metric_families(StringIO(text, newline="\n"))
        for sample in family.samples
    }


class Figures:
    def __init__(self, text):
        self.values = parsed(text)

    def __call__(self, name, **labels):
        return self.values.get((name, frozenset(labels.items())))

    def names(self):
        return {name for name, _ in self.values}


async def figures(node):
    status, text, headers = await get(node.metrics_url)
    assert (status, headers["Content-Type"]) == (200, CONTENT_TYPE)
    return Figures(text)


async def figures_where(node, condition):
    """Return the figures of a node as soon as a condition holds for them."""
    while True:
        found = await figures(node)
        if condition(found):
            return found
        await asyncio.sleep(FRESH_S / 5)


@run
async def test_what_is_said_between_two_nodes_is_counted_at_both():
    async with Node(WITH_METRICS) as one, Node(WITH_METRICS) as other:
        subscription, said = await one.join("news"), await other.join("news")
        await other.connect(one.addresses[0])
        await until(lambda: one.mesh("news") and other.mesh("news"))
        await said.publish(b"x" * 100)
        await anext(subscription)
        at_one = await figures_where(one, lambda of: of("gossipsub_message_delivered_total", topic="news") == 1)
        at_other = await figures_where(other, lambda of: of("gossipsub_rpc_sent_total", message_type="publish") == 1)
        assert at_one("gossipsub_topic_msg_recv_counts_unfiltered_total", topic="news") == 1
        assert at_one("gossipsub_mesh_peer_counts", topic="news") == 1
        assert at_one("gossipsub_topic_peers_counts", topic="news") == 1
        assert at_one("gossipsub_rpc_received_total", message_type="subscribe") == 1
        assert at_one("libp2p_swarm_connections_opened_total", dir="inbound") == 1
        assert at_other("libp2p_swarm_connections_opened_total", dir="outbound") == 1
        assert at_one("libp2p_peers") == 1
        assert at_other("gossipsub_topic_msg_published_total", topic="news") == 1
        assert at_other("gossipsub_topic_msg_sent_counts_total", topic="news") == 1
        received = at_one("gossipsub_topic_msg_recv_bytes_unfiltered_total", topic="news")
        assert received == at_other("gossipsub_topic_msg_sent_bytes_total", topic="news") > 100
        assert at_one("gossipsub_rpc_recv_bytes_total") == one.statistics.bytes_received
        assert at_one("gossipsub_rpc_recv_count_total") == one.statistics.rpcs_received
        grafts = [of("gossipsub_peer_graft_total", topic="news") for of in (at_one, at_other)]
        assert any(grafts)
        assert at_one("hearsay_build_info", **dict(build_labels(at_one))) == 1
        other.disconnect(one.peer)
        gone = await figures_where(one, lambda of: of("libp2p_peers") == 0)
        assert gone("libp2p_swarm_connections_closed_total") == 1


def build_labels(found):
    return next(labels for name, labels in found.values if name == "hearsay_build_info")


async def open_and_send(host, node, *rpcs):
    host.handle("/meshsub/1.2.0", lambda stream: None)
    stream = await host.open_stream(await host.dial(node.addresses[0]), ["/meshsub/1.2.0"])
    for rpc in rpcs:
        stream.write(frame(encode_rpc(rpc)))
    return stream


@run
async def test_messages_are_counted_by_their_verdict_and_gossip_by_its_kind():
    async with Node(replace(WITH_METRICS, parameters={**QUICK, "idontwant_threshold_bytes": 1_000})) as node:
        await node.join("news")
        node.add_validator("news", lambda message: Verdict.REJECT if message.data == b"bad" else Verdict.ACCEPT)
        host = Host()
        author = Author(host.identity, 1)
        good, bad, stray = (
            author.write(topic, data, SignaturePolicy.STRICT_SIGN)
            for topic, data in (("news", b"good"), ("news", b"bad"), ("elsewhere", b"good"))
        )
        forged = replace(author.write("news", b"true", SignaturePolicy.STRICT_SIGN), data=b"false")
        control = Control(ihave=(IHave("news", (b"1", b"2", b"3")),), iwant=(IWant((b"4",)),))
        unwanted = Control(idontwant=(IDontWant((b"5", b"6")),))
        hello = Rpc((Subscription("news", True),))
        try:
            await open_and_send(
                host, node, hello, Rpc((), (good, bad, stray)), Rpc((), (good, forged)),
                Rpc(control=control), Rpc(control=unwanted),
            )  # fmt: skip
            found = await figures_where(node, lambda of: of("gossipsub_rpc_received_total", message_type="idontwant"))
        finally:
            await host.close()
        assert found("gossipsub_topic_msg_recv_counts_unfiltered_total", topic="news") == 4
        assert found("gossipsub_topic_msg_recv_counts_unfiltered_total") == 1
        assert found("gossipsub_message_delivered_total", topic="news") == 1
        assert found("gossipsub_message_duplicate_total", topic="news") == 1
        assert found("gossipsub_message_rejected_total", topic="news", reason="rejected") == 1
        assert found("gossipsub_message_rejected_total", topic="news", reason="bad_signature") == 1
        assert found("hearsay_offences_total", kind="forged") == 1
        for kind, ids in (("ihave", 3), ("iwant", 1), ("idontwant", 2)):
            assert found("gossipsub_rpc_received_total", message_type=kind) == 1
            assert found("hearsay_rpc_ids_received_total", message_type=kind) == ids
        assert "elsewhere" not in {value for _, labels in found.values for _, value in labels}
        assert found("gossipsub_peers_per_protocol", protocol="/meshsub/1.2.0") == 1


@run
async def test_silent_connections_of_an_address_deny_health_to_no_other():
    async with Node(WITH_METRICS) as node:
        parts = urlsplit(node.metrics_url)
        silent = [await connect((parts.hostname, parts.port), "127.0.0.2") for _ in range(CONNECTIONS)]
        assert (await get(node.metrics_url, "/health", "127.0.0.3"))[0] == 200
        for _, writer in silent:
            writer.close()


@run
async def test_what_takes_time_is_in_histograms():
    async with Node(WITH_METRICS) as one, Node(WITH_METRICS) as other:
        subscription, said = await one.join("news"), await other.join("news")
        answers = asyncio.Queue()

        async def slow(message):
            return await answers.get()

        one.add_validator("news", lambda message: Verdict.ACCEPT)
        one.add_validator("news", slow)
        await other.connect(one.addresses[0])
        await until(lambda: one.mesh("news") and other.mesh("news"))
        for data in (b"1", b"2"):
            await said.publish(data)
        await figures_where(one, lambda of: of("gossipsub_topic_msg_recv_counts_unfiltered_total", topic="news") == 2)
        validated = "gossipsub_async_validation_delay_from_first_seen"
        assert (await figures(one))(f"{validated}_count") == 0
        for _ in range(2):
            answers.put_nowait(True)
            await anext(subscription)
        one.remove_validator("news", slow)
        await said.publish(b"3")
        await anext(subscription)
        at_one = await figures_where(one, lambda of: of(f"{validated}_count") == 3)
        assert at_one(f"{validated}_sum") > 0
        assert at_one("hearsay_rpc_handling_seconds_count") == at_one("gossipsub_rpc_recv_count_total")
        assert at_one("hearsay_outgoing_queue_wait_seconds_count") == at_one("gossipsub_rpc_sent_count_total") > 0
        beats = at_one("gossipsub_heartbeat_duration_seconds_count")
        assert beats > 0
        await figures_where(one, lambda of: of("gossipsub_heartbeat_duration_seconds_count") > beats)
        assert at_one("gossipsub_iwant_promise_delivery_seconds_count") == 0


@run
async def test_what_was_asked_for_is_timed_until_it_comes():
    async with Node(replace(WITH_METRICS, parameters={**QUICK, "idontwant_threshold_bytes": 1_000})) as node:
        await node.join("news")
        host = Host()
        message = Author(host.identity, 1).write("news", b"good", SignaturePolicy.STRICT_SIGN)
        number = WITH_METRICS.message_id("news", message.source, message.seqno, message.data)
        expected = Control(ihave=(IHave("news", (number, b"never comes")),))
        try:
            stream = await open_and_send(host, node, Rpc((Subscription("news", True),)), Rpc(control=expected))
            await figures_where(node, lambda of: of("hearsay_rpc_ids_sent_total", message_type="iwant") == 2)
            for _ in range(2):
                stream.write(frame(encode_rpc(Rpc((), (message,)))))
            found = await figures_where(node, lambda of: of("gossipsub_message_duplicate_total", topic="news") == 1)
        finally:
            await host.close()
        assert found("gossipsub_iwant_promise_delivery_seconds_count") == 1
        assert found("gossipsub_iwant_promise_delivery_seconds_sum") > 0


def test_what_was_asked_for_is_remembered_within_bounds():
    durations = Durations()
    for number in range(10):
        durations.asked_for([IWant(tuple(b"%d %d" % (number, each) for each in range(1000)))])
    durations.copies_received(
        Message(b"%d %d" % (number, each), "news", b"") for number in range(10) for each in range(1000)
    )
    assert sum(durations.asking.counts) == MOST_ASKED
    durations.copies_received([Message(b"9 999", "news", b"")])
    assert sum(durations.asking.counts) == MOST_ASKED


@given(st.lists(st.floats(0, 100), max_size=30))
def test_each_duration_is_in_the_buckets_that_reach_it(noted):
    histogram = Histogram()
    for duration in noted:
        histogram.note(duration)
    found = Figures(exposition([Family("a_seconds", Kind.HISTOGRAM, "x").add_histogram(histogram)]).decode())
    for bound in BOUNDS_S:
        assert found("a_seconds_bucket", le=repr(bound)) == sum(duration <= bound for duration in noted)
    assert found("a_seconds_count") == found("a_seconds_bucket", le="+Inf") == len(noted)
    assert found("a_seconds_sum") == pytest.approx(sum(noted))


@run
async def test_scores_are_shown_as_quantiles_and_below_thresholds():
    config = replace(WITH_METRICS, preset="ethereum", parameters={**QUICK, "validators": 500_000})
    async with Node(config) as node, Node(replace(config, metrics=None)) as peer:
        await node.join("news")
        await peer.connect(node.addresses[0])
        await until(lambda: node.peers)
        node.scores.rate(peer.peer, -1.0)
        score = node.scores.all[peer.peer].score
        assert score < 0
        found = await figures_where(node, lambda of: of("gossipsub_peer_score", quantile="0.5") == score)
        assert found("gossipsub_peer_score", quantile="0") == found("gossipsub_peer_score", quantile="1") == score
        reached = [found("gossipsub_peers_by_score_threshold_count", threshold=name) for name in ("graylist", "mesh")]
        assert reached == [1, 0]


@run
async def test_a_node_is_ready_when_it_listens_and_has_a_bootstrap_peer():
    async with Node(WITH_METRICS) as point:
        assert (await get(point.metrics_url, "/health"))[:2] == (200, "ok\n")
        assert (await get(point.metrics_url, "/ready"))[:2] == (200, "ready\n")
        address = point.addresses[0]
        dead = "/ip4/127.0.0.1/tcp/1"
        async with Node(replace(WITH_METRICS, bootstrap=(dead,))) as lonely:
            assert (await get(lonely.metrics_url, "/ready"))[:2] == (503, "none of 1 bootstrap peers is connected\n")
            assert (await get(lonely.metrics_url, "/health"))[0] == 200
            failed = await figures_where(lonely, lambda of: of("libp2p_swarm_dial_errors_total"))
            assert failed("libp2p_peers") == 0
        async with Node(replace(WITH_METRICS, bootstrap=(dead, address))) as node:
            while (await get(node.metrics_url, "/ready"))[0] != 200:
                await asyncio.sleep(0.01)
            assert address in {news.address for news in node.address_news}
    async with Node(replace(WITH_METRICS, listen=())) as silent:
        assert (await get(silent.metrics_url, "/ready"))[0] == 200


@run
async def test_a_topic_keeps_its_counts_and_loses_its_gauges_when_it_is_left():
    async with Node(WITH_METRICS) as node:
        name = 'with "quotes", \\ and\nlines \r\u2028'
        await node.join(name)
        await node.publish(name, b"x")
        await figures_where(node, lambda of: of("gossipsub_mesh_peer_counts", topic=name) == 0)
        await node.leave(name)
        left = await figures_where(node, lambda of: of("gossipsub_mesh_peer_counts", topic=name) is None)
        assert left("gossipsub_topic_msg_published_total", topic=name) == 1


@run
async def test_a_taken_port_ends_the_start_in_one_line():
    async with Node(WITH_METRICS) as node:
        port = node.metrics_url.rpartition(":")[2].removesuffix("/metrics")
        with pytest.raises(
            OSError,
            match=r"metrics: cannot listen at .* port [0-9]+: Address .*; use another port",
        ):
            async with Node(replace(WITH_METRICS, metrics=port)):
                pass
    with pytest.raises(OSError, match=r"metrics: "):
        async with Node(replace(WITH_METRICS, metrics="no-such-host.invalid:0")):
            pass


def test_topics_beyond_the_bound_and_those_of_others_are_counted_together():
    traffic = Traffic()
    for number in range(TOPICS + 10):
        traffic.happened(TopicJoined(f"topic {number}"))
    assert len(traffic.topics) == TOPICS
    for number in range(10_000):
        message = Message(b"%d" % number, f"strange {number}", b"x")
        traffic.received(Rpc((), (message,)))
        traffic.happened(MessageRejected(message, b"peer", Reason.NOT_SUBSCRIBED))
    assert len(traffic.topics) == TOPICS
    assert traffic.others.received == traffic.others.rejected[Reason.NOT_SUBSCRIBED] == 10_000


def test_bytes_of_a_message_are_those_that_it_takes_in_an_rpc():
    message = Message(b"id", "news", b"x" * 500, source=b"peer", seqno=b"1", signature=b"s" * 64)
    traffic = Traffic()
    traffic.happened(TopicJoined("news"))
    traffic.received(Rpc((), (message,)))
    traffic.sent(part_sizes(Rpc((), (message, message))))
    size = len(encode_rpc(Rpc((), (message,))))
    assert (traffic.of("news").received_bytes, traffic.of("news").sent_bytes) == (size, 2 * size)


NAMES = st.from_regex("[a-z][a-z_]{0,8}[a-z]", fullmatch=True)


@given(
    st.dictionaries(st.text(), st.integers(0, 1 << 70) | st.floats(0, 1e300), min_size=1),
    st.text(),
    st.sampled_from([Kind.COUNTER, Kind.GAUGE]),
)
def test_any_text_and_number_comes_back_from_the_reference_parser(samples, help_text, kind):
    family = Family("a", kind, help_text)
    for label, value in samples.items():
        family.add(value, (("topic", label),))
    text = exposition([family, Family("empty", kind, "")]).decode()
    (read,) = text_fd_to_metric_families(StringIO(text, newline="\n"))
    assert read.documentation == help_text
    assert {sample.labels["topic"]: sample.value for sample in read.samples} == pytest.approx(samples)


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3), st.floats(0, 1e9))
def test_histograms_add_up(counts, total):
    histogram = Histogram((0.5, 1.0))
    histogram.counts, histogram.total_s = counts, total
    found = Figures(exposition([Family("a_seconds", Kind.HISTOGRAM, "x").add_histogram(histogram)]).decode())
    assert found("a_seconds_bucket", le="+Inf") == found("a_seconds_count") == sum(counts)
    assert found("a_seconds_bucket", le="0.5") == counts[0]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:9464", ("::1", 9464)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_endpoints_are_parsed(text, place):
    assert endpoint_of(text) == place


@pytest.mark.parametrize(
    "text", ["", ":9464", "x", "1:2:3", "::1", "[::1]", "localhost:", "1.2.3.4:65536", "-1", "a b:1", "٣"]
)
def test_texts_that_are_no_endpoint_are_refused(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        endpoint_of(text)
    with pytest.raises(ValueError, match="HOST:PORT"):
        NodeConfig(metrics=text)


def test_the_guide_has_a_row_for_every_metric_and_no_other():
    """The guide names samples, whose suffixes the names of families lack."""
    shown = {name for families in TABLE.values() for name in families}
    expected = set(
        re.findall(r"^\|`([a-z0-9]+_[a-z0-9_]+?)(?:_total|_info)?`", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert shown == expected
