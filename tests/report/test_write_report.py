"""Texts and charts of reports of runs, from result tables with known values."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from commands import hearsay as run_command
from result_tables import HOSTILE, write_empty_run, write_run, write_table

from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, read_table, stored_files
from hearsay.report import palette
from hearsay.report.html import ReportError
from hearsay.report.run_page import definitions, write_report
from hearsay.report.runs import MAX_TOPICS, all_topics, open_runs
from hearsay.trace.folder.manifest import RunFolderError

MOST_BYTES = 5_000_000


class ParsedPage(HTMLParser):
    """The tags, texts and scripts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        (self.scripts if self._open[-1:] == ["script"] else self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ").split())

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])

    def figure(self, name: str) -> dict:
        return next(figure for figure in self.data["figures"] if figure["id"] == name)


def report(tmp_path: Path, *runs: Path) -> ParsedPage:
    out = tmp_path / "report.html"
    write_report(runs, out)
    assert out.stat().st_size < MOST_BYTES
    return ParsedPage(out.read_text(encoding="utf-8"))


def test_the_table_has_a_column_for_each_question(tmp_path):
    text = report(tmp_path, write_run(tmp_path / "ring")).text
    table = text[text.index("Does every message arrive?") : text.index("Delivery latency")]
    assert table.endswith("ring 99.5 % 50 ms 100 ms 1.5 12.5 % 1.23 kB 2.5 1.5 kB ")


def test_disturbances_are_named_with_delivery_before_during_and_after(tmp_path):
    run = write_run(tmp_path / "ring")
    cut_off = "40 % of the nodes cut off from the others from 4 s to 6 s"
    named = [
        {"disturbance": 0, "kind": "loss", "what": "5 % of messages lost on links throughout", "source": "scenario"},
        {"disturbance": 1, "kind": "partition", "what": cut_off, "source": "scenario"},
    ]
    write_table(run, "disturbances", [{"run": run.name, **row} for row in named])
    measured = [
        {"disturbances": 1, "ratio_before": 0.99, "ratio_during": 0.6, "ratio_after": 1.0},
        {"disturbance": 0, "kind": "loss", "disturbances": 1, "ratio_during": 0.9},
        {"disturbance": 1, "kind": "partition", "disturbances": 1, "ratio_before": 0.99, "ratio_during": 0.6,
         "ratio_after": 1.0, "heal_us": 2_000_000},
    ]  # fmt: skip
    write_table(run, "resilience", [{"run": run.name, "topic": 0, **row} for row in measured])
    text = report(tmp_path, run).text
    assert "5 % of messages lost on links throughout – 90 % – –" in text
    assert f"{cut_off} 99 % 60 % 100 % 2 s" in text
    assert "1 disturbance " not in text


def test_a_value_that_the_trace_lacks_is_not_measured_instead_of_zero(tmp_path):
    run = write_run(tmp_path / "ring")
    (row,) = [dict(row) for row in read_table(run, "headline").to_pylist()]
    unknown = ("bytes_out_mean", "bytes_out_max_over_mean", "bytes_out_gini", "control_bytes_share", "hops_mean")
    write_table(run, "headline", [row | dict.fromkeys(unknown)])
    reasons = {"bytes_out": "sizes are not in it", "evenness": "sizes are not in it", "hops": "hops are not in it"}
    lines = [{"figure": figure, "measured": False, "reason": reason} for figure, reason in reasons.items()]
    write_table(run, "measured", [{"run": run.name, **line} for line in lines])
    sent = read_table(run, "traffic").to_pylist()
    write_table(run, "traffic", [row | {"bytes_out": None} for row in sent])
    page = report(tmp_path, run)
    reasons = [attributes["title"] for name, attributes in page.tags if name == "span" and "title" in attributes]
    assert reasons.count("not measured: sizes are not in it") == 3 + 4
    assert reasons.count("not measured: hops are not in it") == 1
    assert "load" not in {figure["id"] for figure in page.data["figures"]}
    assert 'href="#load"' not in (tmp_path / "report.html").read_text()
    load = report(tmp_path, run, write_run(tmp_path / "other")).figure("load")  # one of the two runs has data
    assert [line["reason"] for line in load["absent"] if line["run"] == 0] == ["not measured: sizes are not in it."]
    assert "Rings are hops" not in page.text


def test_a_figure_that_is_not_measured_has_no_panel(tmp_path):
    run = write_run(tmp_path / "nodes")
    write_table(run, "measured", [{"run": "nodes", "figure": "state", "measured": False, "reason": "no rows"}])
    write_table(run, "state", [])
    copies = [row | {"copies_per_delivery": 1.0} for row in read_table(run, "headline").to_pylist()]
    write_table(run, "headline", copies)
    page = report(tmp_path, run)
    assert "state" not in {figure["id"] for figure in page.data["figures"]}
    assert not any(attributes.get("href") == "#state" for _, attributes in page.tags)


def test_charts_of_real_nodes_start_at_the_first_row(tmp_path):
    run = write_run(tmp_path / "ring")
    begins = 1_795_305_812_061_905
    (row,) = [dict(row) for row in read_table(run, "headline").to_pylist()]
    write_table(run, "headline", [row | {"start_us": begins}])
    messages = read_table(run, "messages").to_pylist()
    write_table(run, "messages", [row | {"published_us": row["published_us"] + begins} for row in messages])
    page = report(tmp_path, run)
    assert page.figure("latency-over-time")["series"][0]["x"] == list(range(10))
    assert page.figure("churn")["series"][0]["x"] == [0, 2, 4, 6, 8]


def test_charts_hold_the_figures_of_the_tables(tmp_path):
    page = report(tmp_path, write_run(tmp_path / "ring"))
    (latency,) = page.figure("latency")["series"]
    assert latency["x"] == [10 * hops for hops in range(1, 11)]
    assert latency["y"] == pytest.approx([2 * hops / 19 for hops in range(1, 10)] + [1], abs=1e-4)
    p50, p99 = page.figure("latency-over-time")["series"]
    assert (p50["x"], p50["y"], p99["y"]) == (list(range(10)), [50] * 10, [100] * 10)
    (copies,) = page.figure("copies")["series"]
    assert copies["values"] == pytest.approx([180 / 190, 10 / 190, 90 / 190, 0], abs=1e-4)
    control = page.figure("control")["series"][0]
    assert dict(zip(control["categories"], control["values"], strict=True)) == {"ihave": 3, "iwant": 2}
    (load,) = page.figure("load")["series"]
    assert load["y"] == [160, *(100 * node for node in range(2, 21))]
    (mesh,) = page.figure("mesh")["series"]
    assert (set(mesh["low"]), set(mesh["y"]), set(mesh["high"])) == ({1}, {2}, {3})
    (degrees,) = page.figure("degrees")["series"]
    assert degrees["x"] == [1, 1, 2, 3]
    assert degrees["y"] == pytest.approx([0, 0.05, 0.95, 1])
    ratio, up = page.figure("churn")["series"]
    assert up["y"] == [20, 20, 20, 20, 17, 17, 20, 20, 20, 20]
    assert (ratio["x"], ratio["y"]) == ([0, 2, 4, 6, 8], [0.95, 1, 1, 1, 1])
    (picture,) = page.figure("picture")["series"]
    assert (len(picture["nodes"]), set(picture["degree"]), len(picture["links"])) == (20, {2}, 40)
    (spread,) = page.figure("spread")["series"]
    (typical,) = spread["messages"]
    assert (typical["number"], typical["count"], len(typical["rings"])) == (1, 20, 11)


def test_neighbours_and_tree_are_shown_where_there_is_no_mesh(tmp_path):
    run = write_run(tmp_path / "episub")
    samples = [
        {"run": run.name, "topic": 0, "layer": layer, "time_us": 10**6, "members": 20, "links": 20 * degree,
         "degree_mean": degree, "degree_min": degree, "degree_max": degree, "components": 1, "largest_share": 1.0}
        for layer, degree in (("neighbours", 7), ("tree", 2))
    ]  # fmt: skip
    write_table(run, "mesh", samples)
    counts = [{"layer": "neighbours", "degree": 7, "nodes": 20}, {"layer": "tree", "degree": 2, "nodes": 20}]
    write_table(run, "degrees", [{"run": run.name, "topic": 0, "time_us": 10**6, **row} for row in counts])
    links = [("neighbours", 0, 1), ("neighbours", 1, 2), ("neighbours", 2, 0), ("tree", 0, 1), ("tree", 1, 2)]
    rows = [{"run": run.name, "topic": 0, "layer": layer, "node": a, "remote": b} for layer, a, b in links]
    write_table(run, "mesh_links", rows)
    page = report(tmp_path, run)
    mesh = page.figure("mesh")
    assert [(line["panel"], line["y"]) for line in mesh["series"]] == [(0, [7]), (1, [2])]
    assert [panel["y"]["label"] for panel in mesh["panels"]] == [
        "links per node (mean and range)",
        "tree links per node (mean and range)",
    ]
    assert "tree at the end: connected" in page.text
    (degrees,) = page.figure("degrees")["series"]
    assert (degrees["x"], degrees["y"]) == ([7, 7], [0, 1])
    (picture,) = page.figure("picture")["series"]
    assert len(picture["links"]) == 2 * 2


def test_differences_other_than_the_router_are_listed(tmp_path):
    runs = [write_run(tmp_path / "small"), write_run(tmp_path / "large", nodes=40, slow=3)]
    page = report(tmp_path, *runs)
    assert "The runs differ in: nodes 20 ( small ) · 40 ( large )" in page.text
    assert page.data["runs"] == ["small", "large"]
    assert [line["run"] for line in page.figure("latency")["series"]] == [0, 1]
    both = [write_run(tmp_path / "one"), change_headlines(write_run(tmp_path / "two"), router="episub", seconds=99.0)]
    assert "Not only the router differs: length 10 s ( one ) · 99 s ( two )" in report(tmp_path, *both).text
    report(tmp_path, both[0])
    assert 'id="differ"' not in (tmp_path / "report.html").read_text()


def test_routers_have_their_colours(tmp_path):
    routers = ["episub", "gossipsub", "gossipsub", "mine", "floodsub"]
    runs = [change_headlines(write_run(tmp_path / f"run-{place}"), router=name) for place, name in enumerate(routers)]
    assert report(tmp_path, *runs).data["colours"] == [4, 3, 5, 6, 0]
    assert report(tmp_path, runs[1], runs[0]).data["colours"] == [3, 4]
    assert palette.numbers_of(map(str, range(20))) == [5, 6, 7, 0, 1, 2, 3, 4, *range(8, 20)]


def test_a_run_without_measurements_is_reported_with_the_reason(tmp_path):
    page = report(tmp_path, write_empty_run(tmp_path / "empty"))
    assert "the run was interrupted" in page.text
    assert "router unknown nodes unknown length unknown" in page.text
    assert ">incomplete</a>" in (tmp_path / "report.html").read_text()
    assert not any(figure["series"] for figure in page.data["figures"])
    assert "nan" not in page.text.lower().split()
    assert "None" not in page.text


def test_hostile_names_are_text(tmp_path):
    run = write_run(tmp_path / "<img src=x onerror=alert(1)>&", topics=("ok", HOSTILE))
    write_table(run, "quality", [{"run": run.name, "check": HOSTILE, "rows": 3, "detail": HOSTILE}])
    page = report(tmp_path, run)
    assert HOSTILE.replace("\u202e", "\\u202e") in page.text
    assert run.name in page.text
    assert len(page.scripts) == 2
    assert not any(name == "img" for name, _ in page.tags)
    assert {name for name, _ in page.tags} >= {"title", "main", "figure"}
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_hostile_words_in_charts_stay_in_the_data(tmp_path):
    run = write_run(tmp_path / "ring")
    kind = "</script><script>alert(1)</script><!--<script>"
    write_table(
        run, "control", [{"run": "ring", "topic": 0, "kind": kind, "parts": 1, "bytes": 20, "bytes_share": 1.0}]
    )
    page = report(tmp_path, run)
    assert len(page.scripts) == 2
    assert page.figure("control")["series"][0]["categories"] == [kind]


def test_all_links_lead_to_places_in_the_page(tmp_path):
    page = report(tmp_path, write_run(tmp_path / "ring"))
    identities = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    for name, attributes in page.tags:
        assert "src" not in attributes, name
        if "href" in attributes:
            assert attributes["href"][0] == "#"
            assert attributes["href"][1:] in identities


def test_every_figure_has_its_definition(tmp_path):
    page = report(tmp_path, write_run(tmp_path / "ring"))
    identities = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {figure["id"] for figure in page.data["figures"]} <= identities
    assert set(definitions()) - {"delivery", "eligible"} <= set(TABLES)


def test_a_peer_with_the_role_script_is_not_counted_as_a_node(tmp_path):
    run = write_run(tmp_path / "ring")
    (run / "dictionary").mkdir()
    roles = pa.table({"peer": pa.array([19, 7], pa.int32()), "role": ["script", "node"]})
    pa.parquet.write_table(roles, run / "dictionary" / "peers.parquet")
    (load,) = report(tmp_path, run).figure("load")["series"]
    assert load["y"][-1] == 1900


def test_all_topics_come_first_then_the_worst_topics_and_the_others_are_counted(tmp_path):
    names = [f"topic-{number:02}" for number in range(40)]
    run = write_run(tmp_path / "many", topics=names)
    headlines = pa.parquet.read_table(run / METRICS_FOLDER / "headline").drop_columns(["run"]).to_pylist()
    headlines[37] |= {"delivered": 150, "delivery_ratio": 0.75}
    write_table(run, "headline", [{"run": run.name, **row} for row in headlines])
    page = report(tmp_path, run)
    options = [attributes["value"] for name, attributes in page.tags if name == "option"]
    assert options == [str(place) for place in range(MAX_TOPICS + 1)]
    assert "Topic all topics topic-37 topic-00" in page.text
    assert f"{40 - MAX_TOPICS} other topics only in the table" in page.text
    assert names[-1] in page.text
    missing = 50 + 39
    first = page.text[page.text.index("How much does a node keep, over time?") :]
    assert first.index(f" {100 - 100 * missing / 8000:.1f} %") < first.index("topic-37") < first.index(" 75 %")


def test_the_line_of_all_topics_equals_that_of_a_single_topic(tmp_path):
    run = open_runs([write_run(tmp_path / "ring")]).runs[0]
    (own,) = run.headlines
    whole = all_topics(run)
    for name in ("messages", "eligible", "delivered", "delivery_ratio", "latency_p50_ms", "latency_p99_ms", "nodes"):
        assert whole[name] == own[name], name
    assert whole["copies_per_delivery"] == pytest.approx(28 / 19)
    loads = [100 * (node + 1) + (100 if node == 0 else 0) for node in range(20)]
    mean = sum(loads) / 20
    apart = sum(abs(a - b) for a in loads for b in loads)
    assert whole["bytes_out_mean"] == pytest.approx(mean)
    assert whole["bytes_out_gini"] == pytest.approx(apart / (2 * 20 * 20 * mean))


def simulated(folder: Path, router: str) -> Path:
    """Simulate a run, for its scenario and its summary, and write the tables of the ring into its folder."""
    command = ["simulate", "--preset", "r1", "--router", router, "--nodes", "9", "--messages", "1", "--trace", "none"]
    done = run_command(*command, "--out", folder)
    assert done.returncode == 0, done.stderr
    return change_headlines(write_run(folder), router=router)


def test_the_report_lists_what_ran(tmp_path):
    runs = [simulated(tmp_path / router, router) for router in ("gossipsub", "floodsub")]
    text = report(tmp_path, *runs).text
    assert "2 runs only the router differs 9 nodes 1 message of 100 bytes one seed: 1 " in text
    assert "The runs differ in: router.kind" in text
    assert 'id="differ"' not in (tmp_path / "report.html").read_text()
    for run in runs:
        assert json.loads((run / "summary.json").read_text())["trace_hash"] in text
    assert f"hearsay simulate {runs[1] / 'scenario.toml'}" in text
    alone = report(tmp_path, runs[0]).text
    assert " router.heartbeat_interval_ms = 1000 " in alone
    assert "sampled every 10 s; messages stay in the cache for 5 s" in alone


def change_headlines(run: Path, **changed) -> Path:
    """Change columns in all rows of the run's table `headline`; return the run."""
    lines = pa.parquet.read_table(run / METRICS_FOLDER / "headline").drop_columns(["run"]).to_pylist()
    write_table(run, "headline", [{"run": run.name, **line, **changed} for line in lines])
    return run


def test_the_best_and_the_worst_of_a_column_are_marked(tmp_path):
    whole = change_headlines(write_run(tmp_path / "whole"), delivered=200, delivery_ratio=1.0, latency_p99_ms=101.0)
    text = report(tmp_path, whole, write_run(tmp_path / "short")).text
    table = text[text.index("Does every message arrive?") : text.index("Delivery latency")]
    assert "100 % best 50 ms 101 ms worst" in table
    assert "99.5 % worst 50 ms 100 ms best" in table
    assert table.count("best") == table.count("worst") == 2


def test_a_run_that_ended_early_is_neither_best_nor_worst(tmp_path):
    slow = change_headlines(write_run(tmp_path / "slow"), latency_p99_ms=300.0)
    fast = change_headlines(write_run(tmp_path / "fast"), latency_p99_ms=200.0)
    early = change_headlines(write_run(tmp_path / "early"), latency_p99_ms=100.0, complete=False)
    text = report(tmp_path, slow, fast, early).text
    table = text[text.index("Does every message arrive?") : text.index("Delivery latency")]
    assert "300 ms worst" in table
    assert "200 ms best" in table
    assert "100 ms best" not in table


def classes_of_bars(page: ParsedPage) -> list[str]:
    """Return the CSS classes that set the widths of the bars, in the order of the page."""
    classes = [str(attributes.get("class")).split() for _, attributes in page.tags]
    return [names[1] for names in classes if names[:1] == ["amount"]]


def test_bars_begin_at_the_least_possible_value_and_delivered_shares_have_none(tmp_path):
    loads = {"even": 1.0, "nearly": 1.001, "half": 1.5, "worst": 2.0}
    unknown = dict.fromkeys(
        ("latency_p50_ms", "latency_p99_ms", "copies_per_delivery", "control_bytes_share", "bytes_out_mean",
         "state_bytes_mean")
    )  # fmt: skip
    runs = [
        change_headlines(write_run(tmp_path / name), bytes_out_max_over_mean=load, **unknown)
        for name, load in loads.items()
    ]
    assert classes_of_bars(report(tmp_path, *runs)) == ["w-1", "w-25", "w-50"]


def test_a_small_share_of_control_has_a_bar_and_none_has_none(tmp_path):
    shares = {"none": 0.0, "small": 0.001, "all": 1.0}
    unknown = dict.fromkeys(
        ("latency_p50_ms", "latency_p99_ms", "copies_per_delivery", "bytes_out_max_over_mean", "bytes_out_mean",
         "state_bytes_mean")
    )  # fmt: skip
    runs = [
        change_headlines(write_run(tmp_path / name), control_bytes_share=share, **unknown)
        for name, share in shares.items()
    ]
    assert classes_of_bars(report(tmp_path, *runs)) == ["w-1", "w-50"]


def test_rows_are_called_routers_if_runs_have_their_names(tmp_path):
    runs = [change_headlines(write_run(tmp_path / name), router=name) for name in ("episub", "floodsub")]
    assert " router delivered Does every message arrive? " in report(tmp_path, *runs).text
    assert " run delivered " in report(tmp_path, runs[0], write_run(tmp_path / "other")).text


def test_the_header_counts_the_seeds(tmp_path):
    runs = [simulated(tmp_path / router, router) for router in ("gossipsub", "floodsub")]
    summary = runs[1] / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"seed": 2}))
    text = report(tmp_path, *runs).text
    assert "2 runs 9 nodes 1 message of 100 bytes 2 seeds " in text
    assert "Not only the router differs: seed 1" in text


def test_runs_of_equal_routers_do_not_differ_in_the_router_only(tmp_path):
    runs = [simulated(tmp_path / name, "gossipsub") for name in ("a", "b")]
    assert "only the router differs" not in report(tmp_path, *runs).text


def test_the_heading_says_that_the_router_is_unknown(tmp_path):
    assert (
        "go router unknown 20 nodes"
        in report(tmp_path, change_headlines(write_run(tmp_path / "go"), router="unknown")).text
    )


def test_nothing_is_marked_for_a_single_run(tmp_path):
    page = report(tmp_path, write_run(tmp_path / "small"))
    assert not {"best", "worst"} & {attributes.get("class") for _, attributes in page.tags}


def test_a_quiet_run_has_no_chart_of_nodes(tmp_path):
    run = write_run(tmp_path / "quiet")
    quiet = [{"run": "quiet", "second": second, "nodes_up": 20} for second in range(10)]
    due = [
        {"run": "quiet", "topic": 0, "second": s, "eligible": 20, "delivered": 20, "ratio": 1.0} for s in range(10)
    ]
    write_table(run, "churn", [*quiet, *due])
    churn = report(tmp_path, run).figure("churn")
    assert [(line["panel"], line["y"]) for line in churn["series"]] == [(0, [1] * 10)]


def test_scores_promises_and_idontwant_are_drawn_if_their_tables_have_rows(tmp_path):
    run = write_run(tmp_path / "judging")
    ids = {figure["id"] for figure in report(tmp_path, run).data["figures"]}
    assert ids.isdisjoint({"scores", "promises", "idontwant", "exchange"})
    (run / "scenario.toml").write_text(
        "[router.score.thresholds]\ngossip = -10\npublish = -50\ngraylist = -900\n", encoding="utf-8"
    )
    quantiles = {"lowest": -30.0, "p5": -20.0, "median": 1.5, "p95": 2.0, "highest": 3.0}
    shares = {"below_zero": 0.25, "below_gossip": 0.125, "below_publish": 0.0, "below_graylist": 0.0}
    samples = [
        {"run": "judging", "part": "score", "time_us": second * 10**6, "pairs": 40, **quantiles, **shares}
        for second in (2, 4)
    ]
    write_table(run, "scores", samples)
    requested = {"run": "judging", "seconds": 1, "requests": 2, "asked": 4, "answered": 3, "broken": 1}
    write_table(run, "promises", [{**requested, "second": second} for second in (1, 3)])
    saved = {"told": 30, "withheld": 5, "withheld_bytes": 5_000, "withdrawn": 1, "withdrawn_bytes": 1_000}
    write_table(run, "idontwant", [{"run": "judging", "second": 2, "seconds": 2, **saved}])
    moved = {"run": "judging", "seconds": 1, "dials": 5, "connections": 3, "nodes": 2}
    write_table(run, "exchange", [moved | {"second": 4, "nodes": 0}, moved | {"second": 6, "connections": 1}])
    page = report(tmp_path, run)
    middle, lowest, below, *thresholds = page.figure("scores")["series"]
    assert (middle["y"], middle["low"], middle["high"]) == ([1.5, 1.5], [-20, -20], [2, 2])
    assert (lowest["x"], lowest["y"], below["y"]) == ([2, 4], [-30, -30], [0.25, 0.25])
    assert [each["y"][0] for each in thresholds] == [-50, -10]
    assert "at the end 25 % of 40 scores are below 0, 12.5 % below -10 (gossip)" in page.text.replace("\xa0", " ")
    asked, answered, broken = page.figure("promises")["series"]
    assert (asked["x"], asked["y"], answered["y"], broken["y"]) == ([1, 2, 3], [4, 0, 4], [3, 0, 3], [1, 0, 1])
    assert [each["y"] for each in page.figure("idontwant")["series"]] == [[2500], [500]]
    dialled, connected = page.figure("exchange")["series"]
    assert (dialled["x"], dialled["y"], connected["y"]) == ([4, 5, 6], [5, 0, 5], [3, 0, 1])
    assert "in all: dials 10, connections 4, nodes 2" in page.text
    assert "withheld 5, withheld_bytes 5,000, withdrawn 1, withdrawn_bytes 1,000" in page.text


def test_the_typical_message_of_each_run_is_shown(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    same = report(tmp_path, *runs)
    assert [one["lists"]["typical"] for one in same.figure("spread")["series"]] == [1, 1]
    other = pa.parquet.read_table(runs[1] / METRICS_FOLDER / "spread").to_pylist()
    write_table(runs[1], "spread", [{**row, "message": 7} for row in other])
    page = report(tmp_path, *runs)
    assert [one["lists"]["typical"] for one in page.figure("spread")["series"]] == [1, 7]


def test_notes_below_a_figure_name_their_run(tmp_path):
    text = report(tmp_path, write_run(tmp_path / "small"), write_run(tmp_path / "large", nodes=40)).text
    assert re.search(r"small\s*: at the end: ", text)
    assert re.search(r"large\s*: at the end: ", text)


def test_runs_of_one_name_stay_distinct(tmp_path):
    runs = [write_run(tmp_path / "a" / "run"), write_run(tmp_path / "b" / "run")]
    labels = {f"run ({run})" for run in runs}
    page = report(tmp_path, *runs, runs[0])
    assert all(label in page.text for label in labels)
    assert f"run ({runs[0]}) #2" in page.text


def test_the_same_tables_give_the_same_bytes(tmp_path):
    run = write_run(tmp_path / "ring")
    files = [tmp_path / "one.html", tmp_path / "two.html"]
    for file in files:
        write_report([run], file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_report_of_a_million_nodes_stays_small(tmp_path):
    run = write_run(tmp_path / "big")
    nodes = 1_000_000
    node = np.arange(nodes, dtype=np.int32)
    columns = {
        "run": pa.array(["big"] * nodes), "topic": pa.array(np.zeros(nodes, dtype=np.int32)), "node": pa.array(node),
        "kind": pa.array(["publish"] * nodes),
        **{name: pa.array(node.astype(np.int64)) for name in TABLES["traffic"].names[4:]},
    }  # fmt: skip
    write_table(run, "traffic", pa.table(columns))
    latencies = [
        {"run": "big", "topic": 0, "latency_us": 1000 * latency, "hops": hops, "deliveries": 1000 + latency}
        for latency in range(5000)
        for hops in range(3)
    ]
    write_table(run, "latency", latencies)
    page = report(tmp_path, *[run] * 5)
    (load, *_) = page.figure("load")["series"]
    assert len(load["x"]) <= 500
    assert load["y"][-1] == nodes - 1
    assert len(page.figure("latency")["series"][0]["x"]) <= 400


def report_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_command("report", *arguments)


def test_the_command_names_the_report(tmp_path):
    run = write_run(tmp_path / "ring")
    done = report_command(run)
    assert (done.returncode, done.stdout) == (0, f"report: {run / 'report.html'}\n"), done.stderr
    assert (run / "report.html").stat().st_size > 0


def require_one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_the_command_refuses_in_one_line(tmp_path):
    run, bare = write_run(tmp_path / "ring"), tmp_path / "bare"
    bare.mkdir()
    assert "several runs need --out" in require_one_line(report_command(run, run), 2)
    assert f"run `hearsay analyze {bare}` first" in require_one_line(report_command(bare), 1)
    assert "no such run folder" in require_one_line(report_command(tmp_path / "nowhere"), 1)
    assert "cannot write the report" in require_one_line(
        report_command(run, "--out", tmp_path / "no" / "report.html"), 1
    )
    assert not (run / "report.html").exists()


def test_a_damaged_table_is_named(tmp_path):
    run = write_run(tmp_path / "ring")
    for part in (run / METRICS_FOLDER / "latency").glob("*.parquet"):
        part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(ReportError, match=re.escape(str(run / METRICS_FOLDER / "latency")) + ".*cannot be read"):
        write_report([run], tmp_path / "report.html")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("summary.json", "{", "not JSON"),
        ("scenario.toml", "= 3", "not readable as TOML"),
        ("manifest.json", '{"format": "hearsay-run", "version": 99}', "manifest"),
        ("manifest.json", "", "not JSON"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(tmp_path, name, content, said):
    run = write_run(tmp_path / "ring")
    (run / name).write_text(content)
    line = require_one_line(report_command(run), 1)
    assert str(run / name) in line
    assert said in line
    assert not (run / "report.html").exists()


def test_a_truncated_trace_is_a_caveat(tmp_path):
    scenario = ["--preset", "r1", "--nodes", "9", "--messages", "1", "--trace", "full"]
    run = tmp_path / "ring"
    done = run_command("simulate", *scenario, "--out", run)
    assert done.returncode == 0, done.stderr
    write_run(run)
    assert "Caveats" not in report(tmp_path, run).text
    file = sorted(run.glob("trace/*/*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:-9])
    text = report(tmp_path, run).text
    assert "Caveats" in text
    assert f"{file.relative_to(run)}: changed" in text


def test_a_table_without_a_column_is_named(tmp_path):
    run = write_run(tmp_path / "ring")
    for part in (run / METRICS_FOLDER / "headline").glob("*.parquet"):
        pa.parquet.write_table(pa.table({"run": ["ring"]}), part)
    with pytest.raises(ReportError, match="column topic is missing"):
        write_report([run], tmp_path / "report.html")


def test_files_that_the_latest_manifest_does_not_name_are_absent(tmp_path):
    run = write_run(tmp_path / "ring")
    manifest = json.loads((run / METRICS_FOLDER / "manifest-1.json").read_text())
    manifest["tables"]["resilience"] = []
    (run / METRICS_FOLDER / "manifest-2.json").write_text(json.dumps(manifest))
    assert "healed after" not in report(tmp_path, run).text


@pytest.mark.parametrize("text", ["[]", "{}", '{"tables": {"headline": 5}}', '{"tables": []}', "["])
def test_a_malformed_manifest_of_tables_is_named(tmp_path, text):
    run = write_run(tmp_path / "ring")
    (run / METRICS_FOLDER / "manifest-2.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"manifest-2\.json"):
        write_report([run], tmp_path / "report.html")


def test_a_manifest_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    run = write_run(tmp_path / "ring")
    (run / METRICS_FOLDER / "manifest-2.json").mkdir()
    with pytest.raises(RunFolderError, match=r"manifest-2\.json: cannot be read \("):
        stored_files(run, "headline")


def test_a_manifest_of_tables_names_no_file_of_another_folder(tmp_path):
    run = write_run(tmp_path / "ring")
    (run / METRICS_FOLDER / "manifest-2.json").write_text('{"tables": {"headline": ["../../../secret.parquet"]}}')
    assert stored_files(run, "headline") == [run / METRICS_FOLDER / "headline" / "secret.parquet"]


def test_a_folder_of_tables_alone_has_no_caveat_about_its_trace(tmp_path):
    run = write_run(tmp_path / "ring")
    entry = {"path": "trace/class=node/part-00000.parquet", "class": "node", "rows": 1, "bytes": 1,
             "min_time_us": 0, "max_time_us": 0, "sha256": ""}  # fmt: skip
    manifest = {"format": "hearsay-run", "version": 1, "complete": True, "seed": 1, "created_by": {},
                "trace_rows": 1, "trace_hash": "", "max_rows_per_file": 1, "spanning_messages": [],
                "files": [entry], "other_files": []}  # fmt: skip
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "differs from its manifest" not in report(tmp_path, run).text
