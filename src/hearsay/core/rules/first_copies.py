"""What happens to the first copy of a message.

Rules, the first that fits (guide, "Sending messages"; r1, "Message validation"):

* COPY-1: Of a topic one is not in: rejected, and not marked seen, so that it counts when the topic is joined
  meanwhile.
* COPY-2: One's own that comes back: rejected.
* COPY-3: The application is asked about it already: a duplicate.
* COPY-4: Nobody has to be asked: accepted.
* COPY-5: As many are being asked about as may be: rejected and not marked seen, so that a later copy gets its chance.
* COPY-6: Otherwise the application is asked.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

ACCEPTED, ASKED, DUPLICATE = -1, -2, -3
"""In place of a reason."""
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_THROTTLED = int(Reason.THROTTLED)


def first_copy(joined: bool, own: bool, asked: bool, trusted: bool, waiting: int, most_waiting: int) -> int:
    """Why it is rejected, or what else becomes of it. `trusted`: nobody has to be asked about it."""
    if not joined:
        return _NOT_SUBSCRIBED
    if own:
        return _SELF_ORIGIN
    if asked:
        return DUPLICATE
    if trusted:
        return ACCEPTED
    if waiting >= most_waiting:
        return _THROTTLED
    return ASKED
