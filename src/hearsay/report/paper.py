"""Figures for papers, drawn by matplotlib (extra `figures`): size, type, colours, axes, files.

Rules:

* A figure is as wide as one or two columns of a paper, and its text has 7 or 8 points, so it needs no scaling.
* Fonts are embedded as TrueType, as publishers require, and text is not converted to outlines.
* Colours are those of the pages. Lines also differ by dashes, points by shape, bars by hatches.
* The same input gives the same bytes: files have no date.
* Names from runs and studies are plain text: no mathematics, no control characters.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from hearsay.number_text import Form
from hearsay.report import palette
from hearsay.report.figure import Axis
from hearsay.report.html import ReportError, require_own_or_nothing, write_file
from hearsay.text import escape
from hearsay.user_errors import require_extra
from hearsay.version import __version__

COLUMN, TWO_COLUMNS = 3.5, 7.16
"""Widths in inches."""
LETTER = 0.062
"""Approximate width of a letter in inches."""
COLOURS = palette.LIGHT
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++", "oooo")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
DOTS_PER_INCH = 300
KINDS = ("pdf", "png")
MAKER = f"hearsay {__version__}"
_MARKERS = (b"/Creator (hearsay ", b"tEXtSoftware\0hearsay ")
_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))


@contextmanager
def styled() -> Generator[None]:
    """Make matplotlib draw in the style of papers inside the context, without the settings of the user."""
    require_extra("figures")
    matplotlib: Any = import_module("matplotlib")
    style = as_file(files("hearsay.report").joinpath("assets", "paper.mplstyle"))
    with matplotlib.rc_context(), warnings.catch_warnings(), style as path:
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib.rc_params_from_file(path, use_default_template=False))
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def sheet(width: float, height: float) -> Any:
    """Return an empty figure of matplotlib. Sizes are in inches."""
    return import_module("matplotlib.figure").Figure(figsize=(width, height))


def grid(
    pictures: int, widths: tuple[float, float], height: float, more: float = 0.0, **options: Any
) -> tuple[Any, Any]:
    """Return a figure and the axes for its pictures. One picture fills the figure; several are in rows of two.

    `widths` are the width of a figure with one picture and of a figure with two pictures in a row. `height` is the
    height of a row, and `more` is added to the height of the figure, all in inches. `options` are those of
    matplotlib.
    """
    across = min(2, pictures)
    down = -(-pictures // across)
    drawn = sheet(widths[across - 1], height * down + more)
    axes = drawn.subplots(down, across, squeeze=False, **options).ravel()
    for unused in axes[pictures:]:
        unused.set_axis_off()
    return drawn, axes[:pictures]


def as_label(name: str, most: int = 60) -> str:
    """Return a name from a run or a study as a label with at most `most` characters."""
    text = escape(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unit_of(form: Form, highest: float) -> tuple[float, str]:
    """Return the factor that converts values to the unit in which they are drawn, and the unit."""
    match form:
        case "percent":
            return 100.0, "%"
        case "bytes":
            name, size = next((each for each in reversed(_BYTES) if highest >= each[1]), _BYTES[0])
            return 1 / size, name
        case "ms" | "s":
            return 1.0, form
        case _:
            return 1.0, ""


def labelled(words: str, unit: str) -> str:
    """Return the label of an axis with its unit, which may be empty."""
    return f"{words} ({unit})" if unit else words


def label_axis(axes: Any, which: str, axis: Axis, highest: float) -> float:
    """Label an axis (`which` is "x" or "y") and set its scale. Return the factor that converts values to its unit."""
    factor, unit = unit_of(axis.format, highest)
    getattr(axes, f"set_{which}label")(labelled(axis.label, unit))
    if axis.scale == "log":
        ticker: Any = import_module("matplotlib.ticker")
        getattr(axes, f"set_{which}scale")("log")
        side = getattr(axes, f"{which}axis")
        side.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        side.set_minor_formatter(ticker.NullFormatter())
    return factor


def in_two_lines(words: str, room: float) -> str:
    """Return words in two lines, broken at the space nearest to the middle, if they are wider than `room` inches."""
    if len(words) * LETTER <= room or " " not in words:
        return words
    middle = min((abs(place - len(words) / 2), place) for place, sign in enumerate(words) if sign == " ")[1]
    return f"{words[:middle]}\n{words[middle + 1 :]}"


def legend(drawn: Any, handles: Sequence[Any], words: Sequence[str]) -> None:
    """Add a legend above the figure, with as many columns as fit."""
    longest = max(map(len, words), default=0)
    room = drawn.get_size_inches()[0] / (0.45 + LETTER * longest)
    drawn.legend(handles, words, loc="outside upper left", ncols=max(1, min(len(words), int(room))))


def write_sheets(sheets: Iterable[tuple[str, Any]], folder: Path) -> list[Path]:
    """Write figures, which are given as pairs of a name and a figure, and return the files.

    Raise `ReportError` if there is no figure, or if a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{folder}: cannot write figures there ({error.strerror})") from None
    with styled():
        written = [path for name, drawn in sheets for path in save(drawn, folder, name)]
    if not written:
        raise ReportError(f"{folder}: no figure was written: the input has no data for any figure")
    return written


def save(drawn: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PDF and PNG, and return the files. Raise `ReportError` if such a file exists and is not of
    Hearsay.
    """
    files = {kind: folder / f"{name}.{kind}" for kind in KINDS}
    for path in files.values():
        require_own_or_nothing(path, _is_figure, "figure", "--figures")
    pictures = {"png": _as_png(drawn), "pdf": _as_pdf(drawn)}
    for kind, path in files.items():
        write_file(path, pictures[kind], "figure")
    return list(files.values())


def _as_png(drawn: Any) -> bytes:
    """Return the figure as PNG, and fix its layout for the PDF: computing the layout takes as long as drawing."""
    drawn.set_dpi(DOTS_PER_INCH)
    held = BytesIO()
    import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(drawn).print_png(
        held, metadata={"Software": MAKER}
    )
    drawn.set_layout_engine("none")
    return held.getvalue()


def _as_pdf(drawn: Any) -> bytes:
    held = BytesIO()
    import_module("matplotlib.backends.backend_pdf").FigureCanvasPdf(drawn).print_pdf(
        held, metadata={"Creator": MAKER, "CreationDate": None}
    )
    return held.getvalue()


def _is_figure(file: BinaryIO) -> bool:
    data = file.read()
    return any(marker in data for marker in _MARKERS)
