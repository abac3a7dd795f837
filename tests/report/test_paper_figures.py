"""Figures for papers: all figures of the report, as wide as columns, with embedded fonts and reproducible bytes."""

from __future__ import annotations

import re
import shutil
import struct

import pytest
from commands import hearsay
from local_runs import sweep_locally
from result_tables import HOSTILE, write_empty_run, write_run, write_table
from small_study import sweep_in_processes, write_study

from hearsay.pipeline.output.tables import TABLES
from hearsay.report.html import ReportError
from hearsay.report.paper import COLUMN, DOTS_PER_INCH, TWO_COLUMNS, save, styled
from hearsay.report.paper_runs import drawn_sheet, write_run_figures
from hearsay.report.paper_studies import study_sheets, write_study_figures
from hearsay.report.run_page import figures_of
from hearsay.report.runs import open_runs
from hearsay.text import escape

WIDTHS = {round(inches * 72) for inches in (COLUMN, 2 * COLUMN, TWO_COLUMNS)}
ODD_NAMES = ("$x^$", "$_$ \\frac", "\u202e日本")


def require_paper_format(files):
    assert {path.suffix for path in files} == {".pdf", ".png"}
    for path in files:
        data = path.read_bytes()
        if path.suffix == ".pdf":
            assert data.startswith(b"%PDF-")
            width = float(re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", data)[1])
            assert round(width) in WIDTHS, path
            assert b"/Type3" not in data
            assert b"/FontFile2" in data
            assert b"/CreationDate" not in data
        else:
            width = struct.unpack(">I", data[16:20])[0]
            assert round(width / DOTS_PER_INCH * 72) in WIDTHS, path


@pytest.mark.thorough
def test_every_figure_of_two_runs_is_written_each_time_with_the_same_bytes(tmp_path):
    runs = [write_run(tmp_path / name) for name in ODD_NAMES[:2]]
    files = write_run_figures(runs, tmp_path / "figures")
    require_paper_format(files)
    selection = open_runs(runs)
    shown = {(figure.id, each["topic"]) for figure in figures_of(selection.runs) for each in figure.series}
    assert len(files) == 2 * len(shown) > 20
    before = {path: path.read_bytes() for path in files}
    assert write_run_figures(runs, tmp_path / "figures") == files
    assert {path: path.read_bytes() for path in files} == before


def test_lines_of_runs_differ_without_colours(tmp_path):
    selection = open_runs([write_run(tmp_path / name) for name in ODD_NAMES])
    labels = [run.label for run in selection.runs]
    assert labels == list(ODD_NAMES)
    drawn = 0
    for figure in figures_of(selection.runs):
        series = [each for each in figure.series if each["topic"] == 0]
        if figure.kind != "lines" or not series:
            continue
        with styled():
            sheet = drawn_sheet(figure, series, selection)
            sheet.draw_without_rendering()
        drawn += 1
        for axes in sheet.axes:
            lines = [line for line in axes.lines if len(line.get_xdata())]
            shapes = [(line.get_marker(), line.get_linestyle()) for line in lines]
            assert len(set(shapes)) == len(shapes), figure.id
            marks = {line.get_marker(): line.get_markevery() for line in lines}
            all_are_marked = all(line.get_linestyle() == "None" for line in lines)
            assert len(marks) == len(labels)
            assert len(set(marks.values())) == (1 if all_are_marked else len(labels))
        markers_in_legend = [handle.get_marker() for handle in sheet.legends[0].legend_handles[: len(labels)]]
        assert len(set(markers_in_legend)) == len(labels)
        assert [text.get_text() for text in sheet.legends[0].get_texts()[: len(labels)]] == list(map(escape, labels))
    assert drawn >= 4


def test_steps_and_separate_values_are_not_joined_by_slopes(tmp_path):
    selection = open_runs([write_run(tmp_path / "run")])
    line_styles: dict[str, set[str]] = {}
    for figure in figures_of(selection.runs):
        if figure.id in ("churn", "degrees"):
            with styled():
                sheet = drawn_sheet(figure, [each for each in figure.series if each["topic"] == 0], selection)
            lines = [line for axes in sheet.axes for line in axes.lines]
            line_styles[figure.id] = {line.get_drawstyle() for line in lines if line.get_linestyle() != "None"}
    assert line_styles["degrees"] == {"steps-post"}
    assert line_styles["churn"] <= {"steps-post"}


@pytest.mark.thorough
def test_bars_differ_without_colours(tmp_path):
    selection = open_runs([write_run(tmp_path / name) for name in ("one", "two", "three")])
    hatches: dict[str, set[str]] = {}
    for figure in figures_of(selection.runs):
        series = [each for each in figure.series if each["topic"] == 0]
        if figure.kind == "bars" and series:
            with styled():
                sheet = drawn_sheet(figure, series, selection)
            (axes,) = sheet.axes
            hatches[figure.id] = {str(group[0].get_hatch()) for group in axes.containers}
            in_legend = {str(handle.get_hatch()) for handle in sheet.legends[0].legend_handles}
            assert in_legend == hatches[figure.id]
            assert len(in_legend) == len(axes.containers) > 1
    assert set(hatches) == {"copies", "control"}


def test_names_of_topics_are_names_of_files(tmp_path):
    run = write_run(tmp_path / "run", topics=("$x^$", HOSTILE, "日本"))
    for table in set(TABLES) - {"headline", "latency"}:
        write_table(run, table, [])
    files = write_run_figures([run], tmp_path / "figures")
    require_paper_format(files)
    names = ("all-topics", "x", "script-alert-1-script-title", "topic-3")
    assert {path.stem for path in files} == {f"latency-{name}" for name in names}


def test_topics_with_similar_names_have_different_files(tmp_path):
    run = write_run(tmp_path / "run", topics=("a-4", "A-3", "a", "A"))
    for table in set(TABLES) - {"headline", "latency"}:
        write_table(run, table, [])
    files = write_run_figures([run], tmp_path / "figures")
    assert len(files) == len(set(files)) == 2 * 5


@pytest.mark.thorough
def test_names_of_a_study_are_text_and_no_mathematics(tmp_path):
    swept = sweep_locally(write_study(tmp_path, STUDY_WITH_ODD_NAMES, "odd"))
    with styled():
        one_of_each = {name.partition("-")[0]: sheet for name, sheet in study_sheets(swept)}
        require_paper_format([path for kind, sheet in one_of_each.items() for path in save(sheet, tmp_path, kind)])
    assert set(one_of_each) == {"curves", "map", "front"}


STUDY_WITH_ODD_NAMES = """
seeds = 2

[base]
preset = "r1"
network.nodes = 20
workload.messages = 2

[[axes]]
key = "loss.rate"
values = [0, 0.3]
labels = ["$\\\\frac{$", "\\u202e 日本 \\u0007"]

[[axes]]
key = "router.degree"
values = [4, 6]
"""


def test_a_study_has_curves_maps_and_a_front(tmp_path):
    files = write_study_figures(sweep_locally(write_study(tmp_path)), tmp_path / "figures")
    require_paper_format(files)
    kinds = {path.stem.partition("-")[0] for path in files}
    assert kinds == {"curves", "map", "front"}


def test_a_file_that_is_no_figure_is_not_replaced(tmp_path):
    run = write_run(tmp_path / "run")
    place = tmp_path / "figures"
    place.mkdir()
    first = figures_of(open_runs([run]).runs)[0]
    other = place / f"{first.id}.pdf"
    other.write_text("mine")
    with pytest.raises(ReportError, match=r"is not a figure of Hearsay"):
        write_run_figures([run], place)
    assert other.read_text() == "mine"
    other.unlink()
    other.symlink_to(tmp_path / "somewhere")
    with pytest.raises(ReportError, match=r"is not a figure of Hearsay"):
        write_run_figures([run], place)


def test_the_command_draws_runs_and_reports_what_it_cannot_draw(tmp_path):
    run = write_run(tmp_path / "run")
    ended = hearsay("report", run, "--figures", tmp_path / "figures")
    assert (ended.returncode, ended.stderr) == (0, "")
    count = len(list((tmp_path / "figures").glob("*.pdf")))
    assert ended.stdout == f"figures: {count} in {tmp_path / 'figures'}\n"
    for arguments, code, said in (
        ((tmp_path / "none",), 1, "no such run folder"),
        ((run, "--out", "x.html"), 2, "--figures and --out"),
        ((run, run), 2, "given twice"),
        ((write_empty_run(tmp_path / "empty"),), 1, "the input has no data for any figure"),
    ):
        ended = hearsay("report", *arguments, "--figures", tmp_path / "more")
        assert (ended.returncode, ended.stderr.count("\n")) == (code, 1), ended.stderr
        assert said in ended.stderr
    (tmp_path / "file").write_text("")
    ended = hearsay("report", run, "--figures", tmp_path / "file" / "folder")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr


@pytest.mark.parametrize(
    ("file", "figures", "said"),
    [
        ("tune.toml", True, "is a folder of hearsay tune, which writes"),
        ("tune.toml", False, "is a folder of hearsay tune, which writes"),
        ("study.toml", False, "and pictures in the same folder; for a paper: --figures DIR"),
    ],
)
def test_a_folder_with_a_report_of_its_own_is_refused_with_the_path_of_that_report(tmp_path, file, figures, said):
    (tmp_path / file).write_text("")
    ended = hearsay("report", tmp_path, *(("--figures", tmp_path / "figures") if figures else ()))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert said in ended.stderr
    assert str(tmp_path / "report.html") in ended.stderr
    assert not (tmp_path / "figures").exists()


@pytest.mark.thorough
def test_the_folder_of_a_study_is_drawn_from_its_results(tmp_path):
    study = write_study(tmp_path)
    folder = tmp_path / "sweeps" / "small"
    folder.mkdir(parents=True)
    ended = hearsay("report", folder, "--figures", tmp_path / "figures")
    assert ended.returncode == 1
    sweep_in_processes(study, tmp_path / "made")
    shutil.copy(study, tmp_path / "made" / "study.toml")
    ended = hearsay("report", tmp_path / "made", "--figures", tmp_path / "figures")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "figures" / "front.png").is_file()
