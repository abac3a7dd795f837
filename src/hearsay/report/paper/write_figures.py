"""The way in: analysed runs, or a study, to a folder of figures for papers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hearsay.report.errors import ReportError
from hearsay.report.paper.run_sheets import drawn_sheet
from hearsay.report.paper.sheet import require_matplotlib, save, styled
from hearsay.report.paper.study_sheets import study_sheets
from hearsay.report.run import Selection, open_runs
from hearsay.report.write import figures_of
from hearsay.studies.sweep import Swept

_LONGEST = 40


def write_run_figures(runs: Sequence[Path], folder: Path) -> list[Path]:
    """Every figure of the runs' report that shows something; the files."""
    require_matplotlib()
    selection = open_runs(runs)
    with styled():
        return _write(_run_sheets(selection), folder)


def write_study_figures(swept: Swept, folder: Path) -> list[Path]:
    require_matplotlib()
    with styled():
        return _write(study_sheets(swept), folder)


def _write(sheets: Iterator[tuple[str, Any]], folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{folder}: cannot write figures there ({error.strerror})") from None
    written = [path for name, drawn in sheets for path in save(drawn, folder, name)]
    if not written:
        raise ReportError(f"{folder}: there is nothing to draw")
    return written


def _run_sheets(selection: Selection) -> Iterator[tuple[str, Any]]:
    """Each with the name of its file, in which a topic is where there are several."""
    labels = [run.label for run in selection.runs]
    names = _file_names(selection.topics)
    for figure in figures_of(selection.runs):
        for place, name in enumerate(names):
            series = [each for each in figure.series if each["topic"] == place]
            if series:
                yield f"{figure.id}-{name}" if len(names) > 1 else figure.id, drawn_sheet(figure, series, labels)


def _file_names(topics: Sequence[str]) -> list[str]:
    """Names that any file system takes, no two alike."""
    names: list[str] = []
    for number, topic in enumerate(topics):
        name = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:_LONGEST] or f"topic-{number}"
        names.append(f"{name}-{number}" if name in names else name)
    return names
