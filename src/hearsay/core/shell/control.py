"""Received control parts, which are passed to the strategy within limits (SHELL-3, SHELL-6)."""

from __future__ import annotations

from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import PeerId
from hearsay.core.language.rpc import CONTROL_KINDS, Control, PartKind, Rpc
from hearsay.core.language.sizes import part_kind, partial_kind
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import ControlGroup, Shell, Strategy

_GOSSIP = ControlGroup.GOSSIP


def drop_messages_and_control(shell: Shell, peer: PeerId, rpc: Rpc, reason: Reason) -> None:
    """Report all parts of an RPC but its subscriptions as dropped."""
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


def receive_control(shell: Shell, strategy: Strategy, sender: ConnectedPeer, control: Control) -> None:
    """Pass the control parts of one RPC to the strategy."""
    limit = strategy.parameters.max_control_per_rpc
    if control.count() > limit:
        control = _first_parts(shell, sender, control, limit)
    for group in strategy.control_order:
        if group is _GOSSIP:
            _receive_gossip(strategy, sender, control)
        else:
            for graft in control.graft:
                strategy.on_graft(sender, graft.topic)
            for prune in control.prune:
                strategy.on_prune(sender, prune)
    for extension in control.extensions:
        strategy.on_extension(sender, extension)
    if control.idontwant:
        strategy.on_idontwant(sender, control.idontwant)
    if control.features and strategy.features is None:
        shell.drop(sender.id, PartKind.FEATURES, len(control.features), Reason.UNSUPPORTED)
    for part in control.episub:
        strategy.on_episub(sender, part)
    if strategy.scoring is not None:
        strategy.control_handled()


def _receive_gossip(strategy: Strategy, sender: ConnectedPeer, control: Control) -> None:
    if strategy.scoring is not None and (control.ihave or control.iwant):
        control = strategy.scoring.admit_gossip(sender, control)
    for ihave in control.ihave:
        strategy.on_ihave(sender, ihave)
    for iwant in control.iwant:
        strategy.on_iwant(sender, iwant)


def _first_parts(shell: Shell, sender: ConnectedPeer, control: Control, room: int) -> Control:
    """Return the first `room` parts, in the order of handling; report the others as dropped."""
    kept: list[Any] = []
    for kind, parts in zip(CONTROL_KINDS, control.groups()[:-1], strict=True):
        kept.append(parts[:room])
        if len(parts) > room:
            shell.drop(sender.id, kind, len(parts) - room, Reason.OVER_LIMIT)
        room = max(0, room - len(parts))
    for part in control.episub[room:]:
        shell.drop(sender.id, part_kind(part), 1, Reason.OVER_LIMIT)
    return Control(*kept, episub=control.episub[:room])
