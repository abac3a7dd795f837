"""The shell that all routers share: `Router`.

Rules, with their sources:

* SHELL-1: With `hello`, each peer that connects gets a hello with all subscriptions of this node, and all peers get
  each change of the subscriptions. The subscriptions of a peer are remembered until the peer disconnects (r1,
  "ambient peer discovery"; guide, "Subscribing and unsubscribing").
* SHELL-2: A router uses only the first copy of a message. Its id is marked as seen, and the application validates the
  message if `validate` is set. Only an accepted message is cached, gossiped, forwarded and delivered (guide, "Sending
  messages"). `core/rules/message_rules.py` has these decisions.
* SHELL-3: An RPC is handled in this order: features (v1.3), subscriptions, messages, the partial message, other
  control, the test message (r1, "After processing the payload, it then processes the control messages").
* SHELL-4: A message that the application accepts after its topic was left is dropped.
* SHELL-5: A SUBSCRIBE or UNSUBSCRIBE that could not be sent is sent again with the next RPC to that peer, or when the
  timer fires next. A router without a heartbeat sets the timer to at most `announce_again_ms` later. Otherwise the
  peer might never learn of the change, since without common topics there may be no other RPC to send.
* SHELL-6: All state that a peer can increase is bounded: its topics, and the messages and control parts of one RPC.
  Excess parts are dropped and traced.
* SHELL-7: A router without v1.2 drops IDONTWANTs, and reports the number of their ids.

Theory: a router is a pure state machine. `handle(event, now)` returns the actions in order, without other effects;
`deadline()` returns the time at which the next `TimerFired` is due. A *strategy* chooses the receivers of messages
and maintains its own state. An event that the caller must not pass now raises `UsageError` before anything changes.
Invalid parts of a peer's RPC never raise; they are dropped and traced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from hearsay.core.language.actions import (
    Action,
    Deliver,
    DuplicateReceived,
    MessagePublished,
    MessageRejected,
    PartDropped,
    PeerAdded,
    PeerRemoved,
    Reason,
    TopicJoined,
    TopicLeft,
    Validate,
    fast_init,
)
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    DirectPeerChosen,
    Event,
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
    RoundTripMeasured,
    RpcReceived,
    SendFailed,
    StreamOpened,
    TimerFired,
    TopicScored,
    Verdict,
)
from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import (
    Message,
    Partial,
    PartKind,
    Rpc,
)
from hearsay.core.language.sizes import partial_kind
from hearsay.core.rules.message_rules import ACCEPTED, ASKED, DUPLICATE, first_copy
from hearsay.core.rules.randomness import Purpose, Randomness, extend, key_of
from hearsay.core.shell.contract import UsageError, check
from hearsay.core.shell.guarantees import RouterState, ScoreParts, StateSize
from hearsay.core.shell.inspection import router_state, size_of_state
from hearsay.core.shell.outbox import Outbox
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.peers import ConnectedPeer, PeerBook
from hearsay.core.shell.received_parts import (
    Announcements,
    receive_control,
    receive_subscriptions,
    subscription_filter,
)
from hearsay.core.shell.strategy import PeerScoring, Strategy

_duplicate = fast_init(DuplicateReceived)
_deliver = fast_init(Deliver)
_validate = fast_init(Validate)
_peer_added = fast_init(PeerAdded)


_BETWEEN_CALLS: list[Action] = []
"""Value of `actions` while no call runs, so that a router does not keep its last result in memory. Never changed."""


class Router:
    """The router of one node: the shared shell around a strategy."""

    def __init__(self, node: PeerId, strategy: Strategy, randomness: Randomness, now: Micros = 0) -> None:
        self.node = node
        self.key = key_of(node)
        self.randomness = randomness
        self.strategy = strategy
        self.parameters: RouterParameters = strategy.parameters
        self.now = now
        self.peers = PeerBook()
        self.connected = self.peers.connected
        self.joined: set[TopicId] = set()
        self.pending: dict[MessageId, tuple[Message, PeerId]] = {}
        self.outbox = Outbox(self.parameters.coalesce)
        self.actions = _BETWEEN_CALLS
        self._unreached: set[PeerId] = set()
        """Connected peers to which an RPC could not be sent, until the router sends them another one."""
        self.seen = strategy.new_seen_cache()
        self.known = self.seen.known
        """The ids in the seen cache, for lookups."""
        self._expire_us = now
        """A time before which no id in the seen cache expires."""
        self._filter = subscription_filter(self.parameters)
        self._max_messages = self.parameters.max_messages_per_rpc
        self._validate = self.parameters.validate
        self._states: dict[tuple[Purpose, TopicId], int] = {}
        """Draws without further words, by purpose and topic: `draw` extends them."""
        self._due: Micros | None = None
        self.due_moved = False
        """True if `due` may have changed since the driver last set this field to False."""
        self._announcements = Announcements(self, strategy)
        strategy.attach(self)
        self._copies = strategy.copies
        self._scoring = strategy.scoring
        self._features = strategy.features
        self._filters_rpcs = not (self._scoring is None and self._features is None and self._filter is None)
        """True if the router calls `_filter_rpc` for each RPC; False for routers that ignore no parts in advance."""

    def handle(self, event: Event, now: Micros) -> list[Action]:
        """Handle an event, and return the actions that it causes, in order.

        `now` is the time in microseconds. Raise `UsageError` if time goes backwards, or if the caller must not pass
        this event now.
        """
        if now < self.now:
            raise UsageError(f"time goes backwards: {now} after {self.now}")
        actions: list[Action] = []
        if type(event) is not RpcReceived:
            self._handle(event, now, actions)
            self._send_off(actions)
            return actions
        # Nearly all events are RPCs with one message, which is a duplicate, so a duplicate costs few function calls.
        sender = event.peer
        if sender not in self.connected:
            raise UsageError(f"RPC from {sender!r}, which is not connected")
        self.now = now
        self.actions = actions
        rpc = event.rpc if event.portion is None else event.portion.of(event.rpc)
        news = False  # becomes True if the router may have something to send
        if self._filters_rpcs:
            rpc = self._filter_rpc(self.connected[sender], rpc)
            news = bool(actions or self.outbox.alone)
        if rpc.subscriptions:
            receive_subscriptions(self, self.strategy, self.connected[sender], rpc.subscriptions)
            news = True
        messages = rpc.messages
        if messages:
            if len(messages) > self._max_messages:
                self.drop(sender, PartKind.PUBLISH, len(messages) - self._max_messages, Reason.OVER_LIMIT)
                messages = messages[: self._max_messages]
            if now >= self._expire_us:
                self._expire()
            known = self.known
            for message in messages:
                if message.id in known:
                    actions.append(_duplicate(message.id, message.topic, sender))
                    if self._copies is not None:
                        self._copies.duplicate(message, sender)
                        news = True
                else:
                    self._receive_new(sender, message, event.accepted)
                    news = True
        if rpc.partial is not None:
            self._receive_partial(self.connected[sender], rpc.partial)
            news = True
        if rpc.control is not None:
            receive_control(self, self.strategy, self.connected[sender], rpc.control)
            news = True
        if rpc.test is not None:
            if self._features is not None:
                self._features.test_received(sender)
            else:
                self.drop(sender, PartKind.EXTENSION, 1, Reason.UNSUPPORTED)
            news = True
        if news:
            self._send_off(actions)
        else:
            self.actions = _BETWEEN_CALLS
        return actions

    def _filter_rpc(self, sender: ConnectedPeer, rpc: Rpc) -> Rpc:
        """Handle the features of an RPC (v1.3), and return the RPC without the parts that the router ignores."""
        if rpc.subscriptions and self._filter is not None:
            rpc = self._filter.accept(self, sender.id, rpc)
        if self._scoring is not None:
            rpc = self._scoring.admit(sender, rpc)
        if self._features is not None:
            self._features.receive(sender, rpc.control.features if rpc.control else ())
        return rpc

    def _receive_partial(self, sender: ConnectedPeer, partial: Partial) -> None:
        partials = self.strategy.partial_messages
        if partials is not None:
            partials.receive(sender, partial)
        else:
            self.drop(sender.id, partial_kind(partial), 1, Reason.UNSUPPORTED)

    def _send_off(self, actions: list[Action]) -> None:
        """End a call of `handle`: append the RPCs in the outbox to the actions of the call."""
        if self._unreached and self.outbox.entries:
            self._repeat_unsent([peer for peer in self.outbox.peers() if peer in self._unreached])
        self.outbox.flush(actions)
        self.actions = _BETWEEN_CALLS

    def _repeat_unsent(self, peers: list[PeerId]) -> None:
        """Send again the parts that could not be sent to these peers, which all get an RPC now."""
        self._unreached.difference_update(peers)
        self._announcements.repeat_unsent(peers)
        self.strategy.repeat_unsent(peers)

    def _handle(self, event: OtherEvent, now: Micros, actions: list[Action]) -> None:
        check(self, self.strategy, event, now)
        self.now = now
        self.actions = actions
        match event:
            case TimerFired():
                self._timer_fired()
            case MessageValidated():
                self._validated(event.message_id, event.verdict)
            case Publish():
                self._publish(event.message)
            case PeerConnected():
                self._connected(event)
            case PeerDisconnected():
                self._disconnected(self.connected[event.peer])
            case Join():
                self._join(event.topic)
            case Leave():
                self._leave(event.topic)
            case SendFailed():
                if event.peer in self.connected:
                    self._send_failed(event.peer, event.rpc)
            case DialFailed() | RoundTripMeasured() | ContactsFound():
                self.strategy.discovery(event)
            case StreamOpened():
                self._stream_opened(self.connected[event.peer])
            case PeerRated() | DirectPeerChosen() | MessageRefused() | TopicScored() | PartialFeedback():
                if self._scoring is not None:
                    self._scoring_event(self._scoring, event)
            case PartialsChosen():
                if self.strategy.partial_messages is not None:
                    self.strategy.partial_messages.choose(event)
            case PublishPartial():
                if self.strategy.partial_messages is not None:
                    self.strategy.partial_messages.publish(event)
            case _:
                assert_never(event)

    def _scoring_event(
        self,
        scoring: PeerScoring,
        event: PeerRated | DirectPeerChosen | MessageRefused | TopicScored | PartialFeedback,
    ) -> None:
        match event:
            case PeerRated():
                scoring.rate(event.peer, event.rating)
            case DirectPeerChosen():
                self.strategy.choose_direct(event.peer, event.direct)
            case MessageRefused():
                scoring.reject(event.peer, event.message, event.reason)
            case TopicScored():
                scoring.choose_topic_score(event.topic, event.parameters)
            case PartialFeedback():
                scoring.feedback(event.peer, event.topic, event.useful)

    def deadline(self) -> Micros | None:
        """Return the time of the next `TimerFired`; None if no timer is set."""
        return self.due

    @property
    def due(self) -> Micros | None:
        """Return the time of the next `TimerFired`: the earlier of the strategy's time and the time at which unsent
        subscriptions are repeated. None if neither is set. Setting `due` sets the strategy's time."""
        announced = self._announcements.due
        if announced is None:
            return self._due
        return announced if self._due is None else min(self._due, announced)

    @due.setter
    def due(self, time: Micros | None) -> None:
        self._due = time
        self.due_moved = True

    def draw(self, purpose: Purpose, topic: TopicId, *words: int) -> int:
        """Return the draw of this node for a topic: a hash of (seed, purpose, node, topic, words)."""
        state = self._states.get((purpose, topic))
        if state is None:
            state = self._states[purpose, topic] = self.randomness.draw(purpose, self.key, key_of(topic))
        for word in words:
            state = extend(state, word)
        return state

    def allows(self, topic: TopicId) -> bool:
        """Return whether the router may join a topic and publish in it (`allowed_topics`)."""
        return self._filter is None or self._filter.allows(topic)

    def inspect(self) -> RouterState:
        """Return the state at the time of the last call, as a table (guide, "State")."""
        return router_state(self, self.strategy)

    def state_size(self, now: Micros) -> StateSize:
        """Return the number of entries of the state at the time `now`, and their bytes. A later call must not have an
        earlier time."""
        self.now = now
        return size_of_state(self, self.strategy, now)

    def scores(self, now: Micros) -> Iterable[tuple[PeerId, ScoreParts]]:
        """Return the scores of the connected peers, ascending; empty if the router keeps no scores.

        With the parameter `mesh_times` = "now", the scores include the time in the mesh until `now`. A later call
        must not have an earlier time.
        """
        self.now = now
        return self.strategy.scores()

    def _connected(self, event: PeerConnected) -> None:
        native = event.protocol in self.strategy.native_protocols
        peer = ConnectedPeer(event.peer, event.protocol, native, event.address, event.outbound)
        self.connected[event.peer] = peer
        self.actions.append(_peer_added(event.peer, event.protocol))
        for topic in event.subscribed:
            self.peers.subscribe(peer, topic)
        self._announcements.greet(peer)
        self.strategy.peer_added(peer)
        if event.features is not None and self._features is not None:
            self._features.restore(peer.id, event.features)

    def _disconnected(self, peer: ConnectedPeer) -> None:
        self.strategy.peer_removed(peer)
        self.peers.remove(peer)
        self._announcements.forget(peer.id)
        self._unreached.discard(peer.id)
        self.actions.append(PeerRemoved(peer.id))

    def _stream_opened(self, peer: ConnectedPeer) -> None:
        """Send subscriptions again, and let the strategy repeat its control: a peer that replaced its stream may have
        forgotten both."""
        if self._features is not None:
            self._features.stream_opened(peer.id)
        self._announcements.greet(peer)
        self.strategy.stream_opened(peer.id)

    def _join(self, topic: TopicId) -> None:
        self.joined.add(topic)
        self.actions.append(TopicJoined(topic))
        self._announcements.announce(topic, True)
        self.strategy.joined(topic)

    def _leave(self, topic: TopicId) -> None:
        self.joined.remove(topic)
        self._announcements.announce(topic, False)
        self.strategy.left(topic)
        self.actions.append(TopicLeft(topic))

    def _send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Note the subscriptions in an RPC that was not sent, to repeat them. The strategy notes the other parts."""
        self._unreached.add(peer)
        if rpc.subscriptions:
            self._announcements.not_sent(peer, rpc.subscriptions)
            self.due_moved = True
        self.strategy.send_failed(peer, rpc)

    def _timer_fired(self) -> None:
        self._announcements.timer_fired()
        self.due_moved = True
        if self._due is not None and self.now >= self._due:
            self.strategy.timer_fired()

    def _publish(self, message: Message) -> None:
        self._expire()
        if message.id in self.known:
            self.actions.append(_duplicate(message.id, message.topic, None))
            return
        self.seen.add(message.id, self.now, None)
        self.actions.append(MessagePublished(message))
        if message.topic in self.joined:
            self.actions.append(_deliver(message, None))
        self.strategy.publish(message)

    def _receive_new(self, sender: PeerId, message: Message, accepted: bool) -> None:
        """Handle a message that is not in the seen cache."""
        verdict = first_copy(
            message.topic in self.joined,
            message.source == self.node,
            message.id in self.pending,
            accepted or not self._validate,
            len(self.pending),
            self.parameters.max_pending_validations,
        )
        if self._copies is not None and (verdict == ACCEPTED or verdict == ASKED):
            self._copies.first_copy(message, sender)
        if verdict == ACCEPTED:
            self.seen.add(message.id, self.now, sender)
            self._accept(message, sender)
        elif verdict == ASKED:
            self.seen.add(message.id, self.now, sender)
            self.pending[message.id] = (message, sender)
            self.actions.append(_validate(message, sender))
        elif verdict == DUPLICATE:
            self.actions.append(_duplicate(message.id, message.topic, sender))
            if self._copies is not None:
                self._copies.duplicate(message, sender)
        else:
            self._reject(message, sender, Reason(verdict))

    def unknown(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Return those of `ids` that are not in the seen cache, in the given order."""
        if self.now >= self._expire_us:
            self._expire()
        known = self.known
        asked = tuple(ids)
        if known.issuperset(asked):
            return []  # the most common case
        return [message_id for message_id in asked if message_id not in known]

    def _expire(self) -> None:
        self._expire_us = self.seen.expire(self.now)

    def _validated(self, message_id: MessageId, verdict: Verdict) -> None:
        message, sender = self.pending.pop(message_id)
        match verdict:
            case Verdict.ACCEPT if message.topic not in self.joined:  # the topic was left during the validation
                self._reject(message, sender, Reason.NOT_SUBSCRIBED)
            case Verdict.ACCEPT:
                self._accept(message, sender)
            case Verdict.REJECT:
                self._reject(message, sender, Reason.REJECTED)
            case Verdict.IGNORE:
                self._reject(message, sender, Reason.IGNORED)

    def _reject(self, message: Message, sender: PeerId, reason: Reason) -> None:
        self.actions.append(MessageRejected(message, sender, reason))
        if self._scoring is not None:
            self._scoring.reject(sender, message, reason)

    def _accept(self, message: Message, sender: PeerId) -> None:
        self.actions.append(_deliver(message, sender))
        self.strategy.accepted(message, sender)

    def drop(self, peer: PeerId, kind: PartKind, count: int, reason: Reason, topic: TopicId | None = None) -> None:
        """Report that the router ignores `count` parts (or ids) of a received RPC, and why."""
        self.actions.append(PartDropped(peer, kind, count, reason, topic))
