"""The picture of a run agrees with plain sums over its rows, in batches of any size, at any time of joining."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.language.rows import no_rows
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.watch.broadcast import History
from hearsay.watch.links import MOST_JOINS_AND_LEAVES, DrawnNodes, Links
from hearsay.watch.picture import BYTES, COPIES, DELIVERED, PUBLISHED, Picture
from hearsay.watch.spreads import CELLS, LATENCY_EDGES_MS, MOST_FORGOTTEN, MOST_MESSAGES


def simulated_rows(*changes):
    found = []
    scenario = load_scenario(None, "churn-30", [("network.nodes", "25"), ("workload.messages", "15"), *changes])
    Simulation(scenario, watcher=lambda rows: found.append(rows.copy())).run()
    return np.concatenate(found)


@pytest.fixture(scope="module")
def rows():
    return simulated_rows(("faults.churn.mean_session_s", "5"))


class Page:
    """The state that a browser keeps, in plain sets and sums."""

    def __init__(self):
        self.nodes, self.topics, self.up, self.links = [], [], set(), set()
        self.messages, self.steps, self.reached = {}, {}, {}
        self.rates, self.latencies, self.state = np.zeros(7, dtype=int), Counter(), {}

    def apply(self, news, whole=False):
        if whole:
            self.nodes, self.topics, self.up, self.links = [], [], set(), set()
        self.nodes += news.get("nodes", [])
        self.topics += news.get("topics", [])
        self.up |= set(news.get("up", []))
        self.up -= set(news.get("down", []))
        self.links |= set(zip(*[iter(news.get("linked", []))] * 3, strict=True))
        self.links -= set(zip(*[iter(news.get("unlinked", []))] * 3, strict=True))
        for message in news.get("messages", []):
            self.messages[message[0]] = message
        for serial, reached, *steps in news.get("spread", []):
            self.reached[serial] = reached
            self.steps[serial] = steps if whole else self.steps.get(serial, []) + steps
        self.rates += news.get("rates", np.zeros(7, dtype=int))
        classes = news.get("latencies", [])
        self.latencies.update(dict(zip(classes[::2], classes[1::2], strict=True)))
        self.state |= {key: news[key] for key in ("now", "alive", "lost", "refused", "members", "run") if key in news}

    def seen(self):
        return self.nodes, self.topics, self.up, self.links, self.messages, self.steps, self.reached, self.state


@given(cuts=st.lists(st.integers(0, 30_000), max_size=12), joined=st.integers(0, 12), most=st.sampled_from([8, 1000]))
def test_a_late_viewer_sees_the_same(rows, cuts, joined, most):
    picture = Picture(DrawnNodes(25, most))
    early, late = Page(), Page()
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for number, (start, stop) in enumerate(pairwise(places)):
        picture.add_rows(rows[start:stop])
        early.apply(news := picture.changes(stop))
        if number == min(joined, len(places) - 2):
            late.apply(picture.whole(stop), whole=True)
        elif number > joined:
            late.apply(news)
    assert late.seen() == early.seen()


@given(most=st.integers(1, 40), size=st.integers(300, 3000))
@settings(deadline=None)
def test_the_history_of_a_run_is_bounded_and_ends_with_the_current_state(rows, most, size):
    picture, complete, history = Picture(DrawnNodes(25)), Page(), History(most)
    for start in range(0, len(rows), size):
        picture.add_rows(rows[start : start + size])
        complete.apply(news := picture.changes(start + 1))
        history.add(news)
        history.add({"number": 0, "now": start + 1, "rates": [0] * 7})  # nothing happens
    past, page = history.whole(), Page()
    for frame in past:
        page.apply({**frame, "spread": []})
        page.reached |= dict(frame.get("spread", []))
    assert len(past) <= most + 1
    times = [frame["now"] for frame in past]
    assert times == sorted(set(times))
    assert max([0, *(after - before for before, after in pairwise(times))]) <= 4 * max(len(rows) / most, size)
    assert (page.up, page.links, page.reached, page.latencies) == (
        complete.up, complete.links, complete.reached, complete.latencies)  # fmt: skip
    assert page.rates.tolist() == complete.rates.tolist()
    assert page.state == complete.state


def test_a_large_network_is_shown_by_cells(rows):
    """With a maximum of 8 drawn nodes, 25 nodes are a large network. A density includes the rows until then."""
    picture = Picture(DrawnNodes(25, 8))
    picture.add_rows(rows)
    for spread in picture.spreads.by_number.values():
        whole = picture.spreads.density(spread.serial, 1 << 60)
        assert sum(whole["due"]) == spread.due.count
        assert sum(whole["arrived"]) == spread.reached
        of_message = rows[
            (rows[:, Column.MESSAGE] == int(spread.name)) & (rows[:, Column.EVENT] == TraceEvent.DELIVER)
        ]
        for edge_ms in LATENCY_EDGES_MS[200:300:10]:
            early = of_message[of_message[:, 0] - spread.published_us < edge_ms * 1000]
            cells = {
                cell
                for cell, many in enumerate(picture.spreads.density(spread.serial, edge_ms * 1000 - 1)["arrived"])
                if many
            }
            due = {cell for cell, many in enumerate(whole["due"]) if many}
            assert (
                cells
                == {node * CELLS // 25 for node in early[early[:, Column.REMOTE] >= 0, Column.PEER].tolist()} & due
            )
    assert picture.spreads.density(10**6, 0) is None
    assert Picture(DrawnNodes(25)).spreads.density(0, 0) is None


def test_the_sums_are_those_of_the_rows(rows):
    picture, page = Picture(DrawnNodes(25)), Page()
    for start in range(0, len(rows), 700):
        picture.add_rows(rows[start : start + 700])
        page.apply(picture.changes(start))
    events = Counter(rows[:, Column.EVENT].tolist())
    sent = rows[rows[:, Column.EVENT] == TraceEvent.SEND_RPC]
    delivered = rows[(rows[:, Column.EVENT] == TraceEvent.DELIVER) & (rows[:, Column.REMOTE] >= 0)]
    assert page.rates[PUBLISHED] == events[TraceEvent.PUBLISH]
    assert page.rates[DELIVERED] == len(delivered)
    assert page.rates[COPIES] == np.count_nonzero(sent[:, Column.KIND] == 1)
    assert page.rates[BYTES] == np.maximum(sent[:, Column.BYTES], 0).sum()
    assert sum(page.latencies.values()) == len(delivered)
    assert 0 < page.state["run"]["reached"] <= sum(page.reached.values())
    assert sum(page.state["lost"].values()) == events[TraceEvent.DROP_RPC]
    assert sum(len(steps) // 4 for steps in page.steps.values()) == len(delivered)
    up = set()
    for event, peer in rows[np.argsort(rows[:, 0], kind="stable")][:, [Column.EVENT, Column.PEER]].tolist():
        if event == TraceEvent.NODE_UP:
            up.add(peer)
        elif event == TraceEvent.NODE_DOWN:
            up.discard(peer)
    assert page.up == up
    assert page.state["alive"] == len(up)


@pytest.mark.parametrize("batch", [1, 700, 1 << 30])
def test_a_message_reaches_nodes_that_were_in_the_topic_each_once(rows, batch):
    picture, page = Picture(DrawnNodes(25)), Page()
    for start in range(0, len(rows), batch):
        picture.add_rows(rows[start : start + batch])
        page.apply(picture.changes(start))
    members, expected, twice, late = set(), {}, 0, 0
    for row in rows[np.argsort(rows[:, 0], kind="stable")].tolist():
        event, peer, remote, message = (row[at] for at in (Column.EVENT, Column.PEER, Column.REMOTE, Column.MESSAGE))
        if event == TraceEvent.JOIN:
            members.add(peer)
        elif event in (TraceEvent.LEAVE, TraceEvent.NODE_DOWN):
            members.discard(peer)
        elif event == TraceEvent.PUBLISH:
            expected[message] = members - {peer}, set()
        elif event == TraceEvent.DELIVER and remote >= 0:
            due, reached = expected[message]
            twice += peer in reached
            late += peer not in due
            reached |= {peer} & due
    assert twice
    assert late
    news = {int(message[1]): (message[5], page.reached[serial]) for serial, message in page.messages.items()}
    assert news == {message: (len(due), len(reached)) for message, (due, reached) in expected.items()}


def test_links_are_those_of_grafts_and_prunes(rows):
    picture = Picture(DrawnNodes(25))
    picture.add_rows(rows)
    mesh = set()
    for row in rows[np.argsort(rows[:, 0], kind="stable")].tolist():
        event, peer, remote, topic = (row[at] for at in (Column.EVENT, Column.PEER, Column.REMOTE, Column.TOPIC))
        if event == TraceEvent.GRAFT:
            mesh.add((topic, peer, remote))
        elif event == TraceEvent.PRUNE:
            mesh.discard((topic, peer, remote))
        elif event == TraceEvent.NODE_DOWN:
            mesh = {link for link in mesh if link[1] != peer}
    assert {link for link in picture.links.links if link[0] >= 0} == mesh
    degrees = Counter(Counter(peer for _, peer, _ in mesh).values())
    news = picture.links.degrees(0)
    assert {links: many for links, many in enumerate(news) if many and links} == degrees


def test_a_peer_without_a_trace_is_up_while_any_node_is_connected_to_it():
    links = Links(DrawnNodes(3))
    up = []
    for event, node in (("ADD", 0), ("ADD", 1), ("REMOVE", 0), ("REMOVE", 1), ("ADD", 0)):
        row = np.full((1, 13), -1, dtype=np.int64)
        row[:, [Column.EVENT, Column.PEER, Column.REMOTE]] = TraceEvent[f"{event}_PEER"], node, 2
        links.add_rows(row)
        up.append(2 in links.up)
    assert up == [True, True, True, False, True]


def test_a_sample_is_drawn_of_many_and_all_are_counted():
    drawn = DrawnNodes(5000, 100)
    assert len(drawn.numbers) == len(set(drawn.numbers)) == 100
    assert drawn.places(np.array([*drawn.numbers, -1, 10**12])).tolist() == [*range(100), -1, -1]
    assert max(drawn.numbers) > 2500


def test_nodes_that_are_met_are_drawn_until_there_are_enough():
    drawn = DrawnNodes(most=3)
    drawn.draw_new(np.array([7, 4, -1]))
    drawn.draw_new(np.array([4, 9, 12, 10**15]))
    assert drawn.numbers == [4, 7, 9]


def published(count):
    rows = np.full((count, 13), -1, dtype=np.int64)
    rows[:, Column.TIME_US] = np.arange(count)
    rows[:, Column.EVENT] = TraceEvent.PUBLISH
    rows[:, [Column.PEER, Column.TOPIC, Column.BYTES]] = 0
    rows[:, Column.MESSAGE] = np.arange(count)
    return rows


def test_nothing_grows_with_the_run():
    picture = Picture(DrawnNodes(2))
    picture.add_rows(published(3 * MOST_MESSAGES))
    assert len(picture.spreads.by_number) == MOST_MESSAGES
    assert len(picture.changes(0)["messages"]) == MOST_MESSAGES
    picture.add_rows(no_rows())
    assert "messages" not in picture.changes(0)
    picture.add_rows(published(MOST_FORGOTTEN + 3 * MOST_MESSAGES))
    assert len(picture.spreads.forgotten) == MOST_FORGOTTEN
    joins = published(MOST_JOINS_AND_LEAVES + 5)
    joins[:, Column.EVENT] = TraceEvent.JOIN
    joins[:, Column.PEER] = np.arange(len(joins))
    picture.add_rows(joins)
    assert len(picture.links.joins_and_leaves) == MOST_JOINS_AND_LEAVES
    assert len(picture.links.members_at(0, len(joins))) == len(joins)


def test_the_figures_of_the_run_are_those_of_its_summary():
    picture = Picture(DrawnNodes(60))
    scenario = load_scenario(None, "r1", [("network.nodes", "60"), ("workload.messages", "8"), ("loss.rate", "0.2")])
    summary = Simulation(scenario, watcher=picture.add_rows).run().summary
    run = picture.changes(0)["run"]
    assert run["latency_ms"] == pytest.approx(list(summary.latency_ms.values()), rel=0.001)
    assert run["reached"] / run["due"] == pytest.approx(summary.delivery_ratio)
    assert run["due"] == 8 * 60


def test_a_message_that_still_spreads_is_not_due_yet():
    picture = Picture(DrawnNodes(60))
    ratios = set()

    def add_ratio(rows):
        picture.add_rows(rows)
        run = picture.changes(0).get("run", {"due": 0})
        ratios.add(run["reached"] / run["due"] if run["due"] > 60 else 1.0)

    scenario = load_scenario(None, "r1", [("network.nodes", "60"), ("workload.messages", "8")])
    Simulation(scenario, watcher=add_ratio).run()
    assert ratios == {1.0}


def test_a_late_delivery_of_a_forgotten_message_has_its_latency_and_begins_none():
    picture = Picture(DrawnNodes(2))
    rows = published(2 * MOST_MESSAGES)
    late = rows[:1].copy()
    late[:, [Column.EVENT, Column.TIME_US, Column.PEER, Column.REMOTE]] = TraceEvent.DELIVER, 3_000_000, 1, 0
    picture.add_rows(np.concatenate([rows, late]))
    news = picture.changes(3_000_000)
    assert [message[4] for message in news["messages"]] == list(range(MOST_MESSAGES, 2 * MOST_MESSAGES))
    place, many = news["latencies"]
    assert (LATENCY_EDGES_MS[place - 1] <= 3000 < LATENCY_EDGES_MS[place], many) == (True, 1)
    assert len(picture.spreads.by_number) == MOST_MESSAGES


def test_arbitrary_rows_raise_no_error():
    picture = Picture(DrawnNodes())
    rng = np.random.default_rng(5)
    rows = rng.integers(-5, 40, (4000, 13))
    rows[:, Column.EVENT] = rng.integers(0, 40, 4000)
    rows[::7, Column.MESSAGE] = 1 << 62
    rows[::9, Column.PEER] = 1 << 40
    picture.add_rows(rows)
    assert len(picture.changes(5)["nodes"]) <= 1000
