"""The first difference between two results of a sequence, and the smallest sequence that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hearsay.vectors.score_run import TOLERANCE, are_close

Difference = tuple[int, str, Any, Any]
"""The index of the step, the kind of result that differs, and the results of Hearsay and of the other
implementation."""


def difference(
    steps: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> Difference | None:
    """Return the first difference, or None. Only the kinds of results that both sides report are compared."""
    for number, (step, mine, other) in enumerate(zip(steps, ours, theirs, strict=True)):
        for kind in sorted({*mine} & {*other}):
            found, wanted = _plain(kind, mine[kind], step["at"]), _plain(kind, other[kind], step["at"])
            if kind == "scores":
                peers = [peer for peer in sorted({*found, *wanted})
                         if not are_close(found.get(peer, 0.0), wanted.get(peer, 0.0), TOLERANCE)]  # fmt: skip
                found, wanted = ({peer: side.get(peer) for peer in peers} for side in (found, wanted))
            if found != wanted:
                return number, kind, found, wanted
    return None


def _plain(kind: str, value: Any, at: int) -> Any:
    if kind == "backoffs":
        value = {topic: {peer: end for peer, end in ends.items() if end > at} for topic, ends in value.items()}
    return _filled(value) or ({} if isinstance(value, Mapping) else [])


def _filled(value: Any) -> Any:
    """Return a value without empty entries; a PRUNE without backoff and peers is kept."""
    if not isinstance(value, Mapping):
        return value
    return {name: each if name == "prune" else _filled(each) for name, each in value.items()
            if each and (name == "prune" or _filled(each) != {})}  # fmt: skip


def same_peers(ours: Mapping[str, Any], theirs: Mapping[str, Any], *kinds: str) -> bool:
    """Return whether both sides have equal results of these kinds, such as `mesh` and `backoffs`."""
    return all(_filled(ours[kind]) == _filled(theirs[kind]) for kind in kinds)


def shrink(sequence: dict[str, Any], differs: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the sequence without the steps that are not needed for `differs` to be true."""
    length = max(1, len(sequence["steps"]) // 2)
    while length:
        steps = sequence["steps"]
        parts = (steps[:place] + steps[place + length :] for place in range(0, len(steps), length))
        tries = ({**sequence, "steps": part} for part in parts if part)
        smaller = next(filter(differs, tries), None)
        if smaller is None:
            length //= 2
        else:
            sequence = smaller
    return sequence
