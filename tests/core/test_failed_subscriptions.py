"""A SUBSCRIBE or UNSUBSCRIBE that could not be sent is sent again, with the subscription at that time."""

from __future__ import annotations

from typing import ClassVar

from hearsay.core.flooding import Floodsub
from hearsay.core.language.actions import Send
from hearsay.core.language.events import (
    Join,
    Leave,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    SendFailed,
    TimerFired,
)
from hearsay.core.language.rpc import FLOODSUB, MESHSUB, Message, Rpc, Subscription
from hearsay.core.mesh.meshsub import Meshsub
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Shell

HELLO = Rpc(subscriptions=(Subscription("news", True),))


def joined_floodsub() -> Router:
    """Return node a in the topic news, connected to b. Its hello to b could not be sent."""
    router = Router("a", Floodsub(), Randomness(1))
    router.handle(Join("news"), 0)
    (send,) = [action for action in router.handle(PeerConnected("b", FLOODSUB), 0) if isinstance(action, Send)]
    assert send.rpc == HELLO
    router.handle(SendFailed("b", send.rpc), 1)
    return router


def test_a_failed_subscription_is_sent_with_the_next_rpc():
    router = joined_floodsub()
    router.handle(RpcReceived("b", HELLO), 2)
    message = Message("m", "news", b"")
    (send,) = [action for action in router.handle(Publish(message), 3) if isinstance(action, Send)]
    assert send == Send("b", Rpc(HELLO.subscriptions, (message,)), send.vias)


def test_a_failed_subscription_is_sent_again_once():
    router = joined_floodsub()
    router.handle(RpcReceived("b", HELLO), 2)
    router.handle(Publish(Message("m", "news", b"")), 3)
    (send,) = [action for action in router.handle(Publish(Message("n", "news", b"")), 4) if isinstance(action, Send)]
    assert send.rpc.subscriptions == ()


def test_the_current_subscription_is_sent_in_place_of_the_failed_one():
    router = joined_floodsub()
    (send,) = [action for action in router.handle(Leave("news"), 2) if isinstance(action, Send)]
    assert send.rpc.subscriptions == (Subscription("news", False),)


def test_a_failed_subscription_is_sent_at_the_next_heartbeat():
    router = Router("a", Meshsub(), Randomness(1))
    router.handle(Join("news"), 0)
    router.handle(PeerConnected("b", MESHSUB), 0)
    router.handle(SendFailed("b", HELLO), 1)
    due = router.deadline()
    assert due is not None
    assert router.handle(TimerFired(), due) == [Send("b", HELLO)]


def test_without_heartbeats_a_failed_subscription_is_sent_after_announce_again_ms():
    router = joined_floodsub()
    due = router.deadline()
    assert due == 1 + router.parameters.announce_again_ms * 1000
    assert router.handle(TimerFired(), due) == [Send("b", HELLO)]
    assert router.deadline() is None
    router.handle(SendFailed("b", HELLO), due)
    assert router.deadline() == due + router.parameters.announce_again_ms * 1000


def test_the_timer_for_failed_subscriptions_does_not_fire_the_timer_of_the_strategy():
    class Slow(Floodsub):
        fired: ClassVar[list[int]] = []

        def attach(self, shell: Shell) -> None:
            super().attach(shell)
            shell.due = 5_000_000

        def timer_fired(self) -> None:
            self.fired.append(self.shell.now)
            self.shell.due = None

    router = Router("a", Slow(), Randomness(1))
    router.handle(Join("news"), 0)
    router.handle(PeerConnected("b", FLOODSUB), 0)
    router.handle(SendFailed("b", HELLO), 1)
    while (due := router.deadline()) is not None:
        router.handle(TimerFired(), due)
    assert Slow.fired == [5_000_000]


def test_a_failed_subscription_is_not_sent_after_a_reconnection():
    router = joined_floodsub()
    router.handle(PeerDisconnected("b"), 2)
    router.handle(Leave("news"), 3)
    router.handle(PeerConnected("b", FLOODSUB), 4)
    router.handle(RpcReceived("b", HELLO), 5)
    (send,) = [action for action in router.handle(Publish(Message("m", "news", b"")), 6) if isinstance(action, Send)]
    assert send.rpc.subscriptions == ()
