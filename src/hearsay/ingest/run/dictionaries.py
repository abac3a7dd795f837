"""The numbers of a run: all names of all parts, in the order of their bytes.

So the same input gives the same numbers, whatever the number of tasks and the order they end in. Names are compared
by their bytes; no hash decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.ingest.decoding.parts import Part
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.language.schema import NONE, wire_name

Numbers = NDArray[np.int64]

_REASONS = {
    b"validation failed": Reason.REJECTED,
    b"validation ignored": Reason.IGNORED,
    b"validation throttled": Reason.THROTTLED,
    b"validation queue full": Reason.THROTTLED,
    b"self originated message": Reason.SELF_ORIGIN,
    **{wire_name(reason).encode(): reason for reason in Reason},
}
"""The reasons of go-libp2p-pubsub that are ours, too, and ours. Others (blacklists) are in `source.json` alone."""


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """Names by number, as Arrow arrays of bytes."""

    peers: Any
    topics: Any
    messages: Any


@dataclass(frozen=True, slots=True)
class Renumbering:
    """The run's number for each of a part's own. The last place is for none: -1 is -1."""

    peers: Numbers
    topics: Numbers
    messages: Numbers
    reasons: Numbers


def dictionaries_of(parts: Sequence[Part]) -> Dictionaries:
    """The names of these parts, numbered."""
    return Dictionaries(
        _in_order([part.peers for part in parts]),
        _in_order([part.topics for part in parts]),
        _in_order([part.messages for part in parts]),
    )


def renumbering(part: Part, dictionaries: Dictionaries) -> Renumbering:
    """How to turn the part's numbers into the run's."""
    return Renumbering(
        _places(part.peers, dictionaries.peers),
        _places(part.topics, dictionaries.topics),
        _places(part.messages, dictionaries.messages),
        np.array([*(int(_REASONS.get(reason, NONE)) for reason in part.reasons.to_pylist()), NONE], dtype=np.int64),
    )


def _in_order(arrays: Sequence[Any]) -> Any:
    if not arrays:
        return pa.array([], pa.large_binary())
    distinct = compute.unique(pa.chunked_array(arrays, pa.large_binary()))
    return distinct.take(compute.sort_indices(distinct))


def _places(names: Any, dictionary: Any) -> Numbers:
    places = compute.index_in(names, value_set=dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.append(places, NONE)
