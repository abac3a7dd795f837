"""What peers say of the topics they are in, as far as it is heard (SHELL-1, SHELL-6, SHELL-8)."""

from __future__ import annotations

from dataclasses import replace

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import PartKind, Rpc, Subscription
from hearsay.core.shell.dropped_parts import drop_messages_and_control
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, subscription_bytes
from hearsay.core.shell.shell import Shell
from hearsay.core.shell.strategy import Strategy
from hearsay.core.shell.subscription_filter import SubscriptionFilter


def filtered(shell: Shell, chosen: SubscriptionFilter, sender: PeerId, rpc: Rpc) -> Rpc:
    """An RPC with those of its subscriptions that are heard (SHELL-8)."""
    changes = rpc.subscriptions
    if chosen.are_too_many(changes):
        shell.drop(sender, PartKind.SUBSCRIBE, len(changes), Reason.OVER_LIMIT)
        drop_messages_and_control(shell, sender, rpc, Reason.OVER_LIMIT)
        return Rpc()
    refused = sum(not chosen.allows(change.topic) for change in changes)
    if refused:
        shell.drop(sender, PartKind.SUBSCRIBE, refused, Reason.FILTERED)
    return replace(rpc, subscriptions=chosen.heard(changes))


def hear_subscriptions(
    shell: Shell, strategy: Strategy, sender: ConnectedPeer, changes: tuple[Subscription, ...]
) -> None:
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
        if strategy.has_partials:
            strategy.hear_partial_use(sender, change.topic, change.partial)
    for reason, count in refused.items():
        shell.drop(sender.id, PartKind.SUBSCRIBE, count, reason)


def _refusal(shell: Shell, parameters: RouterParameters, sender: ConnectedPeer, topic: TopicId) -> Reason | None:
    """Why there is no room for a subscription: the peer has too many, or all have; to our own topics they may."""
    if len(sender.topics) >= parameters.max_subscriptions_per_peer:
        return Reason.OVER_LIMIT
    most = parameters.max_subscription_bytes_per_peer
    if most and sender.topic_bytes + subscription_bytes(topic) > most:
        return Reason.OVER_LIMIT
    most = parameters.max_subscription_bytes
    return Reason.THROTTLED if most and topic not in shell.joined and shell.peers.topic_bytes >= most else None
