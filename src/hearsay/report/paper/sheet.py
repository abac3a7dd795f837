"""A sheet for a figure of a paper: its size, type, colours and axes, and how it becomes files.

Rules:

* As wide as a column of a paper, or as two; type of 7 and 8 points, so nothing has to be scaled.
* Fonts are embedded as TrueType: what venues ask for, and text stays text.
* Colours are Okabe and Ito's, which the colour-blind tell apart; lines differ by dashes too, points by
  their shape, bars by their hatches.
* The same input gives the same bytes: there is no date in a file.
* Names from outside are text and nothing else: no mathematics, no control characters.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from hearsay.extras import require_extra
from hearsay.report.errors import ReportError
from hearsay.report.figure import Axis, Format
from hearsay.text.escape import escape
from hearsay.text.numbers import Form
from hearsay.trace.folder.durable import DurableFile, write_durably
from hearsay.version import __version__

COLUMN, TWO_COLUMNS = 3.5, 7.16
"""Widths in inches."""
LETTER = 0.062
"""About as wide is a letter."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++", "oooo")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
DOTS_PER_INCH = 300
KINDS = ("pdf", "png")
MAKER = f"hearsay {__version__}"
_OURS = (b"/Creator (hearsay ", b"tEXtSoftware\0hearsay ")
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "text.usetex": False,
    "figure.constrained_layout.use": True,
    "path.simplify": True,
}
_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))


def require_matplotlib() -> None:
    """`MissingExtra` says how to install it."""
    require_extra("figures")


@contextmanager
def styled() -> Generator[None]:
    """What is drawn and saved inside looks as a paper wants it, whatever the user's settings are."""
    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def sheet(width: float, height: float) -> Any:
    """An empty figure of matplotlib's, in inches."""
    return import_module("matplotlib.figure").Figure(figsize=(width, height))


def shown(name: str, most: int = 60) -> str:
    """A name from outside, for a label."""
    text = escape(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unit_of(form: Format | Form, highest: float) -> tuple[float, str]:
    """By what values are multiplied, and the unit they have then."""
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
    return f"{words} ({unit})" if unit else words


def spread_axis(axes: Any, which: str, axis: Axis, highest: float) -> float:
    """Label an axis and choose its scale; what its values are multiplied by."""
    factor, unit = unit_of(axis.format, highest)
    getattr(axes, f"set_{which}label")(labelled(axis.label, unit))
    if axis.scale == "log":
        logarithmic(axes, which)
    return factor


def logarithmic(axes: Any, which: str) -> None:
    """With numbers as people write them."""
    ticker: Any = import_module("matplotlib.ticker")
    getattr(axes, f"set_{which}scale")("log")
    side = getattr(axes, f"{which}axis")
    side.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    side.set_minor_formatter(ticker.NullFormatter())


def in_two_lines(words: str, room: float) -> str:
    """Words that are longer than the room, in inches, are cut at the space that is nearest to the middle."""
    if len(words) * LETTER <= room or " " not in words:
        return words
    middle = min((abs(place - len(words) / 2), place) for place, sign in enumerate(words) if sign == " ")[1]
    return f"{words[:middle]}\n{words[middle + 1 :]}"


def legend(drawn: Any, handles: Sequence[Any], words: Sequence[str]) -> None:
    """Above everything, in as many columns as there is room for."""
    longest = max(map(len, words), default=0)
    room = drawn.get_size_inches()[0] / (0.45 + LETTER * longest)
    drawn.legend(handles, words, loc="outside upper left", ncols=max(1, min(len(words), int(room))))


def save(drawn: Any, folder: Path, name: str) -> list[Path]:
    """The sheet as files, each whole or not at all."""
    files = {kind: folder / f"{name}.{kind}" for kind in KINDS}
    for path in files.values():
        _require_ours_or_nothing(path)
    pictures = {"png": _as_png(drawn), "pdf": _as_pdf(drawn)}
    for kind, path in files.items():
        _write(path, pictures[kind])
    return list(files.values())


def _as_png(drawn: Any) -> bytes:
    """Finds a place for everything on the sheet, which it keeps: that takes as long as to draw it."""
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


def _write(path: Path, data: bytes) -> None:
    def fill(file: DurableFile) -> None:
        file.write(data)

    try:
        write_durably(path, fill)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the figure ({error.strerror or error})") from None


def _require_ours_or_nothing(path: Path) -> None:
    """Another file is not written over."""
    try:
        if path.is_file() and not path.is_symlink():
            there = path.read_bytes()
            if any(mark in there for mark in _OURS):
                return
        elif not path.exists() and not path.is_symlink():
            return
    except OSError as error:
        raise ReportError(f"{path}: cannot write the figure ({error.strerror})") from None
    raise ReportError(f"{path}: is there and is no figure of hearsay's; choose another --figures or remove it")
