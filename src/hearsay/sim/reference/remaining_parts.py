"""The rest of an RPC when some of its parts are lost or withdrawn."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hearsay.core.language.rpc import Control, PartKind, Rpc
from hearsay.core.language.sizes import part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.sim.results.recorder import Part, Parts

_PUBLISH = int(PartKind.PUBLISH)
PART_BYTES = 4
"""The index of a part's size."""


def is_copy(part: Part, message: Any) -> bool:
    """Return whether a part is a copy of a message."""
    return part[0] == _PUBLISH and part[2] == message


def framed(rpc: Rpc, parts: list[Part]) -> Parts:
    """Return the remaining parts of an RPC, with its framing in the first."""
    if not parts:
        return ()
    kind, topic, number, hops, size, count, via = parts[0]
    size += framed_size(rpc, part_sizes(rpc)) - sum([part[PART_BYTES] for part in parts])
    return ((kind, topic, number, hops, size, count, via), *parts[1:])


def without(rpc: Rpc, kept: list[int]) -> Rpc:
    """Return an RPC with only the parts at these positions."""
    first_message = len(rpc.subscriptions)
    first_partial = first_message + len(rpc.messages)
    after_partial = first_partial + (rpc.partial is not None)
    first_control = after_partial + (rpc.test is not None)
    messages = tuple(rpc.messages[index - first_message] for index in kept if first_message <= index < first_partial)
    partial = rpc.partial if first_partial in kept and first_partial < after_partial else None
    rest = [index - first_control for index in kept if index >= first_control]
    control = _control_without(rpc.control, rest) if rpc.control is not None and rest else None
    return replace(rpc, messages=messages, control=control, partial=partial)


def _control_without(control: Control, kept: list[int]) -> Control:
    left: dict[str, tuple[Any, ...]] = {}
    start = 0
    for field, parts in zip(fields(Control), control.groups(), strict=True):
        left[field.name] = tuple(part for position, part in enumerate(parts, start) if position in kept)
        start += len(parts)
    return Control(**left)
