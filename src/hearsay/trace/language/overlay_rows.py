"""The functions that make the rows of episub's overlay, by what its router says happened."""

from __future__ import annotations

from collections.abc import Callable

from hearsay.core.language.actions import OverlayAction
from hearsay.trace.language import event_rows
from hearsay.trace.language.event_rows import Codes
from hearsay.trace.language.schema import OVERLAY_EVENTS, wire_name

OVERLAY_ROWS: dict[type[OverlayAction], Callable[[int, int, int, int], Codes]] = {
    action: getattr(event_rows, f"{wire_name(event)}_row") for action, event in OVERLAY_EVENTS.items()
}
