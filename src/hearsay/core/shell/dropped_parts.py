"""An RPC of which nothing is looked at, reported part by part."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import CONTROL_KINDS, PartKind, Rpc
from hearsay.core.language.sizes import part_kind, partial_kind
from hearsay.core.shell.shell import Shell


def drop_messages_and_control(shell: Shell, peer: PeerId, rpc: Rpc, reason: Reason) -> None:
    if rpc.messages:
        shell.drop(peer, PartKind.PUBLISH, len(rpc.messages), reason)
    if rpc.partial is not None:
        shell.drop(peer, partial_kind(rpc.partial), 1, reason)
    if rpc.test is not None:
        shell.drop(peer, PartKind.EXTENSION, 1, reason)
    if rpc.control is None:
        return
    for kind, parts in zip(CONTROL_KINDS, rpc.control.groups()[:-1], strict=True):
        if parts:
            shell.drop(peer, kind, len(parts), reason)
    for part in rpc.control.episub:
        shell.drop(peer, part_kind(part), 1, reason)
