"""Received subscriptions and control parts, within limits, and announcements of the router's own subscriptions.

The shell passes control parts to the strategy, up to a limit (SHELL-3, SHELL-6). It remembers the subscriptions of
peers within limits, and announces its own (SHELL-1, SHELL-5, SHELL-6).

* SHELL-8: With `allowed_topics` a router joins and publishes in these topics only, and ignores peers' subscriptions
  to other topics; a SUBSCRIBE and an UNSUBSCRIBE of the same topic in one RPC cancel each other. An RPC with more
  subscriptions than `max_subscriptions_per_rpc` is ignored (go; rust ignores only the subscriptions).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import translate
from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import CONTROL_KINDS, Control, PartialUse, PartKind, Rpc, Subscription
from hearsay.core.language.sizes import part_kind, partial_kind
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, subscription_bytes
from hearsay.core.shell.strategy import ControlGroup, Shell, Strategy

_GOSSIP = ControlGroup.GOSSIP


def drop_messages_and_control(shell: Shell, peer: PeerId, rpc: Rpc, reason: Reason) -> None:
    """Report all parts of an RPC, except its subscriptions, as dropped."""
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
    """Pass the control parts of one RPC to the strategy. Report those beyond `max_control_per_rpc` as dropped. The
    router has handled features before."""
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
    """Return a control message with the first `room` parts, in the order of `CONTROL_KINDS` and with episub's parts
    last. Report the other parts as dropped."""
    kept: list[Any] = []
    for kind, parts in zip(CONTROL_KINDS, control.groups()[:-1], strict=True):
        kept.append(parts[:room])
        if len(parts) > room:
            shell.drop(sender.id, kind, len(parts) - room, Reason.OVER_LIMIT)
        room = max(0, room - len(parts))
    for part in control.episub[room:]:
        shell.drop(sender.id, part_kind(part), 1, Reason.OVER_LIMIT)
    return Control(*kept, episub=control.episub[:room])


class SubscriptionFilter:
    """Limits on subscriptions: the topics that a router uses, and the number of subscriptions in one RPC
    (SHELL-8)."""

    def __init__(self, parameters: RouterParameters) -> None:
        self._names = frozenset[TopicId](parameters.allowed_topics)
        globs = [translate(name) for name in parameters.allowed_topics if any(char in name for char in "*?[")]
        self._matches = re.compile("|".join(globs)).match if globs else None
        """Matches the name of a topic with the globs; None without globs. Peers choose the names, so a match must be
        fast: its time is bounded by the length of the name times the number of globs."""
        self._max_per_rpc = parameters.max_subscriptions_per_rpc

    def allows(self, topic: TopicId) -> bool:
        """Return whether the router may use a topic: it is in `allowed_topics`, or these are empty."""
        if not self._names or topic in self._names:
            return True
        return self._matches is not None and isinstance(topic, str) and self._matches(topic) is not None

    def accept(self, shell: Shell, sender: PeerId, rpc: Rpc) -> Rpc:
        """Return the RPC without the subscriptions to topics that the router may not use, and report these as
        dropped.

        With `allowed_topics`, the result has at most one subscription for each topic; those that repeat or cancel
        each other are not reported. If the RPC has too many subscriptions, the result is empty, and all parts of the
        RPC are reported as dropped.
        """
        changes = rpc.subscriptions
        if 0 < self._max_per_rpc < len(changes):
            shell.drop(sender, PartKind.SUBSCRIBE, len(changes), Reason.OVER_LIMIT)
            drop_messages_and_control(shell, sender, rpc, Reason.OVER_LIMIT)
            return Rpc()
        if not self._names:
            return rpc
        allowed = [change for change in changes if self.allows(change.topic)]
        if len(allowed) < len(changes):
            shell.drop(sender, PartKind.SUBSCRIBE, len(changes) - len(allowed), Reason.FILTERED)
        left: dict[TopicId, Subscription] = {}
        for change in allowed:
            if left.setdefault(change.topic, change).subscribe != change.subscribe:
                del left[change.topic]
        return replace(rpc, subscriptions=tuple(left.values()))


def subscription_filter(parameters: RouterParameters) -> SubscriptionFilter | None:
    """Return the filter for these parameters; None if they limit no subscriptions."""
    on = parameters.allowed_topics or parameters.max_subscriptions_per_rpc
    return SubscriptionFilter(parameters) if on else None


def receive_subscriptions(
    shell: Shell, strategy: Strategy, sender: ConnectedPeer, changes: tuple[Subscription, ...]
) -> None:
    """Handle the subscriptions of one RPC. Report those for which there is no room as dropped (SHELL-6)."""
    refused: dict[Reason, int] = {}
    for change in changes:
        if not change.subscribe:
            if change.topic in sender.topics:
                strategy.peer_unsubscribed(sender, change.topic)
                shell.peers.unsubscribe(sender, change.topic)
            continue
        if change.topic not in sender.topics:
            refusal = _refusal(shell, strategy.parameters, sender, change.topic)
            if refusal is not None:
                refused[refusal] = refused.get(refusal, 0) + 1
                continue
            shell.peers.subscribe(sender, change.topic)
            strategy.peer_subscribed(sender, change.topic)
        if strategy.partial_messages is not None:
            strategy.partial_messages.receive_use(sender.id, change.topic, change.partial)
    for reason, count in refused.items():
        shell.drop(sender.id, PartKind.SUBSCRIBE, count, reason)


def _refusal(shell: Shell, parameters: RouterParameters, sender: ConnectedPeer, topic: TopicId) -> Reason | None:
    """Return the reason why there is no room for a new subscription; None if there is room.

    Joined topics are exempt from `max_subscription_bytes`, the common limit of all peers.
    """
    if len(sender.topics) >= parameters.max_subscriptions_per_peer:
        return Reason.OVER_LIMIT
    limit = parameters.max_subscription_bytes_per_peer
    if limit and sender.topic_bytes + subscription_bytes(topic) > limit:
        return Reason.OVER_LIMIT
    limit = parameters.max_subscription_bytes
    return Reason.THROTTLED if limit and topic not in shell.joined and shell.peers.topic_bytes >= limit else None


class Announcements:
    """The SUBSCRIBEs and UNSUBSCRIBEs that the router sends for topics that it joins and leaves."""

    def __init__(self, shell: Shell, strategy: Strategy) -> None:
        self._shell = shell
        self._strategy = strategy
        self._unsent: dict[PeerId, set[TopicId]] = {}
        """Topics whose SUBSCRIBE or UNSUBSCRIBE could not be sent, by peer."""
        self.due: Micros | None = None
        """In a router without a heartbeat, the latest time at which `_unsent` is repeated; None for no such time."""

    def greet(self, peer: ConnectedPeer) -> None:
        """Send a peer the hello: a SUBSCRIBE for each joined topic. Without the parameter `hello`, do nothing."""
        if self._strategy.parameters.hello:
            for topic in sorted(self._shell.joined):
                self._send(peer, topic, True)

    def announce(self, topic: TopicId, subscribe: bool) -> None:
        """Announce to all peers that the router has joined or left a topic. Without `hello`, do nothing."""
        if self._strategy.parameters.hello:
            connected = self._shell.connected
            for peer in sorted(connected):
                self._send(connected[peer], topic, subscribe)

    def not_sent(self, peer: PeerId, changes: Iterable[Subscription]) -> None:
        """Note subscriptions that could not be sent to a peer, to repeat them (SHELL-5)."""
        self._unsent.setdefault(peer, set()).update(change.topic for change in changes)
        if self.due is None and self._strategy.heartbeat is None:
            self.due = self._shell.now + self._strategy.parameters.announce_again_ms * 1000

    def timer_fired(self) -> None:
        """Repeat all unsent subscriptions."""
        if self._unsent:
            self.repeat_unsent(sorted(self._unsent))
        if self.due is not None and self._shell.now >= self.due:
            self.due = None

    def repeat_unsent(self, peers: Iterable[PeerId]) -> None:
        """For each topic whose change could not be sent to these peers, send them SUBSCRIBE if the topic is joined
        now, otherwise UNSUBSCRIBE."""
        joined = self._shell.joined
        for peer in peers:
            for topic in sorted(self._unsent.pop(peer, ())):
                self._send(self._shell.connected[peer], topic, topic in joined)

    def forget(self, peer: PeerId) -> None:
        self._unsent.pop(peer, None)

    def _send(self, peer: ConnectedPeer, topic: TopicId, subscribe: bool) -> None:
        partials = self._strategy.partial_messages
        use = partials.announced_use(peer, topic) if subscribe and partials is not None else PartialUse.NONE
        self._shell.outbox.subscription(peer.id, topic, subscribe, use)
