"""A router that fails, and any error in one line with its place in the code.

Routers may come from outside the package, and their authors are helped by the place in their own code, not by the
frames of whoever drives it. Nothing is noted while all goes well: what there is to say is read off the traceback.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from sysconfig import get_path

_PACKAGE = Path(__file__).parents[2]
_NOBODYS = (str(_PACKAGE), *(get_path(name) for name in ("stdlib", "purelib", "platlib")))


class RouterFailed(Exception):
    """A router raised, or asked for what cannot be done; the message is one line."""


def describe_error(error: BaseException) -> str:
    """Any error in one line, with its place in the code: the innermost outside this package, or the innermost."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    place = _place(traceback.extract_tb(error.__traceback__))
    return f"{kind}: {text} ({place})" if text else f"{kind} ({place})"


def _place(frames: Sequence[traceback.FrameSummary]) -> str:
    if not frames:
        return "unknown place"
    outside = [frame for frame in frames if _is_of_somebody(frame.filename)]
    frame = (outside or frames)[-1]
    path = Path(frame.filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{frame.lineno}, in {frame.name}"


def _is_of_somebody(filename: str) -> bool:
    """Neither of this package nor of a library."""
    return not filename.startswith((*_NOBODYS, "<"))
