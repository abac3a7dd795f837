"""The table of metrics agrees with what computes them and with the pages that give their formulas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hearsay.metrics import METRICS, nested, shown_in, value_at
from hearsay.pipeline.output.tables import TABLES
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.studies.packs import metrics_of

DOCS = Path(__file__).parents[1] / "docs"


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_formula_is_in_the_section_that_the_table_names(metric):
    page, _, wanted = metric.section.partition("#")
    sections = re.split(r"^## ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = [text for text in sections if anchor(text.partition("\n")[0]) == wanted]
    # The pages write families of metrics in one line: `latency_p50_ms`, `p90`; bytes_out mean, max.
    words = metric.path.split(".") if wanted == "headline" else [metric.name]
    assert all(word.removesuffix("_ms").replace("max_over_mean", "max/mean").lower() in section.lower()
               for word in words), (metric.name, section)  # fmt: skip


def test_studies_compute_their_metrics_and_no_others():
    summary = (
        Simulation(load_scenario(None, "r1", [("network.nodes", "12"), ("workload.messages", "1")])).run().summary
    )
    assert set(metrics_of(summary)) == {metric.name for metric in shown_in("study")}


def test_columns_of_the_headline_stay_in_their_order():
    assert TABLES["headline"].names == (
        "run", "topic", "topic_name", "router", "nodes", "messages", "eligible", "delivered", "delivery_ratio",
        "latency_p50_ms", "latency_p90_ms", "latency_p99_ms", "latency_max_ms", "hops_mean", "hops_max",
        "copies_per_delivery", "control_bytes_share", "bytes_out_mean", "bytes_out_max_over_mean", "bytes_out_gini",
        "uplink_share_mean", "uplink_share_max", "state_bytes_mean", "state_bytes_max", "ratio_before",
        "ratio_during", "ratio_after", "heal_us", "start_us", "seconds", "complete",
    )  # fmt: skip
    kinds = {name: column.kind for name, column in TABLES["headline"].columns.items()}
    assert kinds.items() >= {metric.column: metric.kind for metric in METRICS if metric.column}.items()


def test_every_column_has_its_place_in_the_json_of_an_analysis():
    row = {metric.column: number for number, metric in enumerate(METRICS)}
    line = nested(row)
    assert [value_at(line, metric) for metric in METRICS if metric.column] == [
        number for number, metric in enumerate(METRICS) if metric.column
    ]
    assert list(line) == [
        "delivery_ratio", "latency_ms", "hops", "copies_per_delivery", "control_bytes_share", "bytes_out",
        "uplink_share", "state_bytes",
    ]  # fmt: skip
