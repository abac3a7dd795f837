"""The rules that callers of a router must follow, and the errors of callers and of routers.

A router may come from another package. The text of an error in it (`describe_error`) names the innermost frame of the
traceback that is neither in Hearsay nor in a library, usually a place in that package's code. A package in
`site-packages` counts as a library."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from reprlib import Repr
from sysconfig import get_path

from hearsay.core.language.events import (
    DirectPeerChosen,
    Join,
    Leave,
    MessageRefused,
    MessageValidated,
    OtherEvent,
    PartialFeedback,
    PartialsChosen,
    PeerConnected,
    PeerDisconnected,
    PeerRated,
    Publish,
    PublishPartial,
    StreamOpened,
    TimerFired,
    TopicScored,
)
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.rpc import PartialUse
from hearsay.core.shell.parameters import MAX_COUNT
from hearsay.core.shell.strategy import Shell, Strategy

_REPR = Repr()
"""Shortens the topics and ids of messages and peers in the texts of errors."""
_REPR.maxstring = _REPR.maxother = 120


class UsageError(Exception):
    """The error of a call that a router does not allow now. The call has changed nothing."""


def check(shell: Shell, strategy: Strategy, event: OtherEvent, now: Micros) -> None:
    """Raise `UsageError` if the caller must not pass this event to the router now. `Router.handle` checks the time
    itself."""
    match event:
        case TimerFired():
            due = shell.due
            if due is None or now < due:
                raise UsageError(f"TimerFired is not allowed at {now} us: deadline() is {due}")
        case MessageValidated():
            if event.message_id not in shell.pending:
                raise UsageError(f"verdict on message {_REPR.repr(event.message_id)}, which waits for no verdict")
        case PeerConnected():
            _check_connectable(shell, strategy, event)
        case PeerDisconnected() | StreamOpened() if event.peer not in shell.connected:
            raise UsageError(f"{_REPR.repr(event.peer)} is not connected")
        case Join():
            if event.topic in shell.joined:
                raise UsageError(f"topic {_REPR.repr(event.topic)} is joined already")
            _check_allowed(shell, event.topic)
        case Publish():
            _check_allowed(shell, event.message.topic)
        case Leave() if event.topic not in shell.joined:
            raise UsageError(f"topic {_REPR.repr(event.topic)} is not joined")
        case DirectPeerChosen() | MessageRefused() if strategy.scoring is None:
            raise UsageError(f"{_shown(event, event.peer)}: this router has neither scores nor direct peers")
        case DirectPeerChosen() | MessageRefused() if event.peer == shell.node:
            raise UsageError(f"{_shown(event, event.peer)}: this peer is the router itself")
        case PeerRated() | TopicScored():
            if not strategy.keeps_scores:
                subject = event.peer if isinstance(event, PeerRated) else event.topic
                raise UsageError(f"{_shown(event, subject)}: this router keeps no scores")
            if isinstance(event, PeerRated) and not abs(event.rating) <= MAX_COUNT:
                raise UsageError(f"{_shown(event, event.peer)}: rating {event.rating} is not in ±{MAX_COUNT}")
        case PartialsChosen() | PublishPartial() | PartialFeedback():
            _check_partial(shell, strategy, event)
        case _:
            pass


def _shown(event: OtherEvent, subject: object) -> str:
    """Return the kind of an event, and the peer or topic that it is about, shortened."""
    return f"{type(event).__name__} of {_REPR.repr(subject)}"


def _check_allowed(shell: Shell, topic: TopicId) -> None:
    if not shell.allows(topic):
        raise UsageError(f"topic {_REPR.repr(topic)} is not one of allowed_topics")


def _check_partial(
    shell: Shell, strategy: Strategy, event: PartialsChosen | PublishPartial | PartialFeedback
) -> None:
    partials = strategy.partial_messages
    if partials is None:
        raise UsageError(f"{_shown(event, event.topic)}: this router has no partial messages")
    match event:
        case PartialsChosen():
            _check_allowed(shell, event.topic)
            if (event.application is None) != (event.use is PartialUse.NONE):
                raise UsageError(f"{_shown(event, event.topic)} needs an application and a use, or neither")
        case PublishPartial() | PartialFeedback():
            if not partials.has(event.topic):
                raise UsageError(f"{_shown(event, event.topic)}: no application has chosen partial messages there")


def _check_connectable(shell: Shell, strategy: Strategy, event: PeerConnected) -> None:
    if event.peer == shell.node:
        raise UsageError("a router cannot connect to itself")
    if event.peer in shell.connected:
        raise UsageError(f"{_REPR.repr(event.peer)} is connected already")
    if event.protocol not in strategy.protocols:
        raise UsageError(f"protocol {_REPR.repr(event.protocol)} is not one of {', '.join(strategy.protocols)}")


_LIBRARY_PLACES = (
    str(Path(__file__).parents[2]),
    *(get_path(name) for name in ("stdlib", "purelib", "platlib")),
    "<",
)
"""Beginnings of the paths of files that belong to Hearsay or to a library. The path of code without a file begins
with "<"."""


class RouterFailed(Exception):
    """The error of a router that raised an exception, or whose action cannot be done. The message has one line."""


def describe_error(error: BaseException) -> str:
    """Return the kind, the message and the place of an error in one line. The place is that of the innermost frame
    outside of Hearsay and libraries; if there is no such frame, that of the innermost frame."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    place = _place(traceback.extract_tb(error.__traceback__))
    return f"{kind}: {text} ({place})" if text else f"{kind} ({place})"


def _place(frames: Sequence[traceback.FrameSummary]) -> str:
    if not frames:
        return "unknown place"
    outside = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_PLACES)]
    frame = (outside or frames)[-1]
    path = Path(frame.filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{frame.lineno}, in {frame.name}"
