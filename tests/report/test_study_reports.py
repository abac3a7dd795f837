"""Reports of studies: they load nothing, agree with the results, and draw every measured point."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from local_runs import run_locally, sweep_locally

from chromium import Page, open_page, require_charts_that_fit
from hearsay.metrics import BY_NAME, shown_in, without_unknown
from hearsay.report.comparison_page import write_comparison_report
from hearsay.report.study_charts import COPIES, SLACK, SPEED, StudyCharts
from hearsay.report.study_page import write_study_report
from hearsay.report.svg import scale_of_axis, scale_of_values
from hearsay.report.what_ran import seed_words
from hearsay.studies.axes import Base, axis_of_values
from hearsay.studies.comparison import ComparisonRequest, compare, study_of_sides
from hearsay.studies.packs import Row
from hearsay.studies.points import Point
from hearsay.studies.results import values_at
from hearsay.studies.runner import Swept
from hearsay.studies.statistics import mean_of

STUDY = """
title = "Loss & <b>degree</b>"
seeds = 3
[base]
preset = "r1"
network.nodes = 30
workload.messages = 3
[[axes]]
key = "loss.rate"
values = [0, 0.2, 0.4]
[[axes]]
name = "D <i>"
keys = ["router.degree", "router.degree_low"]
values = [[2, 1], [4, 3], [6, 5]]
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Swept:
    path = tmp_path_factory.mktemp("study") / "loss.toml"
    path.write_text(STUDY)
    return sweep_locally(path)


@pytest.fixture(scope="module")
def written(swept, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_study_report(swept, folder / "report.html", folder / "pictures")
    return folder


def test_the_page_loads_nothing_and_escapes_what_is_from_outside(written):
    page = (written / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "script-src 'none'" in page
    assert not re.search(r"https?://|<script|<img|<link", page)
    assert "<b>degree" not in page
    assert "D <i>" not in page


def test_pictures_are_svg_files_of_their_own(written):
    names = sorted(path.stem for path in (written / "pictures").iterdir())
    assert names == [
        "costs", "curves", "front", "map-control_per_delivery", "map-copies_per_delivery", "map-delivery_ratio",
        "map-latency_p99_ms",
    ]  # fmt: skip
    for path in (written / "pictures").iterdir():
        ElementTree.parse(path)


def test_every_point_is_drawn_with_its_interval(swept, written):
    page = (written / "report.html").read_text(encoding="utf-8")
    curve = page.split('id="curves-copies_per_delivery"')[1].split("</figure>")[0]
    assert curve.count('class="mark"') == 9
    assert curve.count('class="band"') == 3
    heat = page.split('id="maps-copies_per_delivery"')[1].split("</figure>")[0]
    assert heat.count('class="cell"') == 9
    mean = mean_of(values_at(swept.points[0], swept.results, COPIES))
    assert f">{mean.mean:.2f}<" in heat
    assert f"{mean.low:.2f} … {mean.high:.2f}, 3 seeds" in heat


def test_no_point_dominates_a_point_of_the_front(swept):
    found = StudyCharts(swept).fronts
    assert [front.condition for front in found] == [{0: 0}, {0: 1}, {0: 2}]
    for step, front in enumerate(found):
        values = {}
        for point in swept.points:
            if point.steps[0] == step:
                values[point.name] = [
                    mean_of(values_at(point, swept.results, name)).mean for name in (COPIES, SPEED, "delivery_ratio")
                ]
        best = max(value[2] for value in values.values())
        fit = {name: value for name, value in values.items() if value[2] >= best - SLACK}
        expected = {
            name
            for name, (copies, speed, _) in fit.items()
            if not any(c <= copies and s <= speed and (c, s) != (copies, speed) for c, s, _ in fit.values())
        }
        assert {spot.point.name for spot in front.members} == expected


def test_axes_are_assigned_and_scaled_by_their_values(swept):
    found = StudyCharts(swept)
    assert (found.x, found.lines, found.facets) == (0, 1, [{}])
    scale, places = scale_of_axis(axis_of_values("network.nodes", [100, 1000, 10_000], ""))
    assert [round(scale.at(place), 6) for place in places] == [0, 0.5, 1]
    assert [words for _, words in scale.ticks] == ["100", "1,000", "10,000"]
    scale, places = scale_of_axis(axis_of_values("router.kind", ["floodsub", "episub"], ""))
    assert [scale.at(place) for place in places] == [0.25, 0.75]


def test_routers_have_their_colours_in_a_study(tmp_path):
    study = STUDY.replace('name = "D <i>"\nkeys = ["router.degree", "router.degree_low"]', 'key = "router.kind"')
    path = tmp_path / "routers.toml"
    path.write_text(
        study.replace("[[2, 1], [4, 3], [6, 5]]", '["gossipsub", "floodsub"]').replace("seeds = 3", "seeds = 1")
    )
    charts = StudyCharts(sweep_locally(path))
    assert charts.legend == {3: "gossipsub", 0: "floodsub"} == charts.front_legend
    assert {curve.colour for curve in charts.curves(BY_NAME[SPEED])[0].curves} == {0, 3}
    (front, *_) = charts.fronts
    assert {charts.short_name(spot.point, front) for spot in front.points} == {"0"}


@pytest.mark.parametrize("width", [400, 1024, 1400])
def test_a_study_begins_with_its_chart(browser, written, width):
    page = open_page(browser, written / "report.html", width=width)
    assert page.value("document.querySelector('main svg').getBoundingClientRect().top") < 300
    assert page.value("document.querySelectorAll('main > section:first-child p').length") == 0
    require_whole_pictures(page, width)
    require_charts_that_fit(page)
    seen = "filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().bottom)"
    (floor,) = page.value(f"[...document.querySelectorAll('#front .axis')].{seen}")
    labels = page.value(f"[...document.querySelectorAll('#front .label')].{seen}")
    assert max(labels) <= floor + 5, "a label is below the axis"
    overlapping = """
        (() => {
          const boxes = [...document.querySelectorAll('#front .label')].map(label => label.getBoundingClientRect());
          return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
            a.left < b.right && b.left < a.right && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length;
        })()
    """
    assert page.value(overlapping) == 0


@pytest.mark.parametrize("width", [400, 1024, 1400])
def test_a_comparison_begins_with_its_intervals(browser, compared, width):
    page = open_page(browser, compared, width=width)
    assert page.value("document.querySelector('main svg').getBoundingClientRect().top") < 400
    assert "B − A, % of A's mean" in page.visible_texts(".scale")[0]
    assert page.value("document.querySelectorAll('.scale text').length") >= 4
    require_whole_pictures(page, width)


def require_whole_pictures(page: Page, width: int) -> None:
    """Assert that pictures have a title and a description, that the keyboard reaches them, and that nothing is wider
    than the page.
    """
    page.value("for (const section of document.querySelectorAll('details')) section.open = true")
    assert page.value("document.documentElement.scrollWidth") <= width
    for name in ("title", "desc"):
        assert (
            page.value(
                f"[...document.querySelectorAll('svg')].filter(e => !e.querySelector(':scope > {name}')).length"
            )
            == 0
        )
    unreachable = "[...document.querySelectorAll('svg')].filter(e => e.tabIndex < 0 && !e.closest('.scale')).length"
    assert page.value(unreachable) == 0


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([0.0, 1.0], "percent"),
        ([0.993, 1.0], "percent"),
        ([1.0, 1.0], "percent"),
        ([5.0, 5.0], "ms"),
        ([1e-9, 3e7], "ms"),
        ([0.0, 0.0], "number"),
    ],
)
def test_scales_hold_their_values(values, form):
    scale = scale_of_values(values, form)
    assert all(-1e-9 <= scale.at(value) <= 1 + 1e-9 for value in values)
    assert len(scale.ticks) >= 2


def test_failed_and_missing_runs_are_reported(swept, tmp_path):
    rows = dict(swept.results)
    first, second = swept.points[0].run_names[:2]
    del rows[first]
    rows[second] = {**rows[second], "error": "out of <memory>"}
    write_study_report(Swept(swept.study, swept.points, rows, 0), tmp_path / "report.html", tmp_path / "pictures")
    page = (tmp_path / "report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "1 of 27 runs are not finished." in page
    assert "1 run failed: out of &lt;memory&gt;" in page


def write_comparison(folder: Path) -> tuple[ComparisonRequest, list[Point], dict[str, Row]]:
    a = Base(preset="r1", settings=(("network.nodes", 30), ("workload.messages", 3)))
    asked = ComparisonRequest("A <a>", None, ("loss.rate=0.4",), ("network.nodes=30", "workload.messages=3"), 5)
    b = a.with_settings([("loss.rate", "0.4")])
    study, points = study_of_sides(a, b, asked.names, 5, same_seeds=True, engine="auto")
    results = run_locally(study, points)
    write_comparison_report(compare(points, results), asked, points, results, folder / "report.html")
    return asked, points, results


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    write_comparison(folder)
    return folder / "report.html"


def test_the_page_of_a_comparison(tmp_path):
    asked, points, results = write_comparison(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "script-src 'none'" in page
    assert "A <a>" not in page
    assert "better in copies per delivery" in page
    strips = page.split('id="seeds"')[1].split('id="ran"')[0]
    assert strips.count('class="mark"') == len(without_unknown(shown_in("compared"), ())) * 5 * 2
    ran = re.sub(r"<[^>]+>", " ", page.split('id="ran"')[1]).replace("&#x27;", "'")
    assert "both: with network.nodes=30, workload.messages=3" in page
    assert "The runs differ in: loss.rate." in ran
    assert f" {asked.command} ".replace("<", "&lt;").replace(">", "&gt;") in ran
    assert re.search(r"hearsay simulate scenarios/[0-9a-f]{12}\.toml --seed 1", ran)
    assert all(row["trace_hash"] in ran for row in results.values())
    a, b = points
    require_lines_between_equal_seeds(points, results, page)
    del results[a.run_name(1)], results[b.run_name(2)]
    write_comparison_report(compare(points, results), asked, points, results, tmp_path / "fewer.html")
    require_lines_between_equal_seeds(points, results, (tmp_path / "fewer.html").read_text(encoding="utf-8"))


def require_lines_between_equal_seeds(points: list[Point], results: dict[str, Row], page: str) -> None:
    seeds = [[seed for seed in point.seeds if point.run_name(seed) in results] for point in points]
    for strip in page.split('id="seeds"')[1].split('id="ran"')[0].split("<svg")[1:]:
        marks = iter(re.findall(r'transform="translate\(([^ ]+) ([^)]+)\)" class="mark"', strip))
        places = [{seed: next(marks) for seed in of_side} for of_side in seeds]
        both = [(*places[0][seed], *places[1][seed]) for seed in seeds[0] if seed in seeds[1]]
        lines = re.findall(r'<line x1="([^"]+)" y1="([^"]+)" x2="([^"]+)" y2="([^"]+)" class="grid"', strip)
        across = places[0][seeds[0][0]][0]
        assert [(x1, y1, x2, y2) for x1, y1, x2, y2 in lines if x1 == across] == both


def test_the_report_of_a_study_lists_what_ran(swept, tmp_path):
    write_study_report(swept, tmp_path / "report.html", tmp_path / "pictures", "hearsay sweep loss.toml --seeds 3")
    page = (tmp_path / "report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "27 runs" in page
    facts = ("27 runs at 9 points", "30 nodes", "loss.rate: 3 steps", "D &lt;i&gt;: 3 steps", "seeds 1…3")
    assert all(f"<li>{fact}</li>" in page for fact in facts)
    ran = page.split('id="ran"')[1]
    assert "hearsay sweep loss.toml --seeds 3" in ran
    assert all(f"scenarios/{point.name}.toml --seed 1" in ran for point in swept.points)


def test_titles_stand_once_and_points_of_the_front_have_their_names(swept, written):
    page = (written / "report.html").read_text(encoding="utf-8")
    assert ".figures .figure-title { display: none; }" in page
    labels = re.findall(r'class="label"[^>]*>([^<]*)<', page.split('id="front"')[1].split("</section>")[0])
    assert labels
    assert set(labels) <= set(swept.study.axes[1].labels)
    assert "Labels: D &lt;i&gt;." in page


def test_only_consecutive_seeds_are_a_range():
    assert [seed_words(seeds) for seeds in ((4,), (1, 2), (1, 2, 3), (1, 5, 9))] == ["4", "1, 2", "1…3", "1, 5, 9"]
