"""Random calls of the seen caches and of the message cache, compared with models that are plain lists.

Rules: SEEN-3, CACHE-1.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hearsay.core.language.rpc import Message
from hearsay.core.mesh import message_memory
from hearsay.core.mesh.message_memory import MessageCache
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.shell.seen import TimedSeen, WindowedSeen

IDS = st.integers(0, 12)


class TimedSeenMachine(RuleBasedStateMachine):
    @initialize(ttl=st.integers(1, 50), limit=st.integers(1, 8))
    def start(self, ttl, limit):
        self.cache = TimedSeen(ttl, limit)
        self.ttl, self.limit, self.now = ttl, limit, 0
        self.added: list[tuple[int, int]] = []

    def remembered(self) -> list[tuple[int, int]]:
        alive = [(time, number) for time, number in self.added if self.now - time < self.ttl]
        return alive[-self.limit :]

    @rule(span=st.integers(0, 20))
    def wait(self, span):
        self.now += span

    @rule(number=IDS)
    def add_if_new(self, number):
        self.cache.expire(self.now)
        if number not in self.cache.known:
            self.cache.add(number, self.now, None)
            self.added.append((self.now, number))

    @rule(ids=st.sets(IDS))
    def look_up(self, ids):
        self.cache.expire(self.now)
        assert ids & self.cache.known == ids & {number for _, number in self.remembered()}

    @invariant()
    def cache_equals_model(self):
        if hasattr(self, "cache"):
            self.cache.expire(self.now)
            found = [(first_us, message_id) for message_id, first_us, _ in self.cache.first_copies()]
            assert found == self.remembered()
            assert len(self.cache) <= self.limit


class WindowedSeenMachine(RuleBasedStateMachine):
    @initialize(windows=st.integers(0, 4), limit=st.integers(1, 8))
    def start(self, windows, limit):
        self.cache = WindowedSeen(windows, limit)
        self.windows, self.limit, self.beat = windows, limit, 0
        self.added: list[tuple[int, int]] = []

    @rule()
    def shift(self):
        self.cache.shift()
        self.beat += 1
        self.added = [(beat, number) for beat, number in self.added if self.beat - beat <= self.windows]

    @rule(number=IDS)
    def add_if_new(self, number):
        if number not in self.cache.known:
            self.cache.add(number, 0, None)
            self.added = [*self.added, (self.beat, number)][-self.limit :]

    @invariant()
    def cache_equals_model(self):
        if hasattr(self, "cache"):
            known = {number for _, number in self.added}
            assert set(self.cache.known) == known
            assert len(self.cache) == len(known)


def message_cache(length: int, gossip: int, limit: int) -> MessageCache:
    return MessageCache(GossipsubParameters(history_length=length, history_gossip=gossip, max_cached_messages=limit))


class MessageCacheMachine(RuleBasedStateMachine):
    @initialize(length=st.integers(1, 5), gossip=st.integers(0, 5), limit=st.integers(1, 8))
    def start(self, length, gossip, limit):
        self.length, self.gossip, self.limit = length, min(gossip, length), limit
        self.cache = message_cache(length, self.gossip, limit)
        self.beat = 0
        self.held: list[tuple[int, Message]] = []
        self.answers: dict[tuple[int, str], int] = {}

    @rule(number=IDS, topic=st.sampled_from(["news", "sport"]))
    def put(self, number, topic):
        message = Message(number, topic, b"")
        self.cache.put(message)
        if all(known.id != number for _, known in self.held):
            self.held = [*self.held, (self.beat, message)]
            self.remove_from_model(self.held[: -self.limit])

    def remove_from_model(self, removed):
        self.held = [entry for entry in self.held if entry not in removed]
        for _, message in removed:
            self.answers = {key: count for key, count in self.answers.items() if key[0] != message.id}

    @rule()
    def shift(self):
        self.cache.shift()
        self.beat += 1
        self.remove_from_model([entry for entry in self.held if self.beat - entry[0] >= self.length])

    @precondition(lambda self: bool(self.held))
    @rule(index=st.integers(0, 20), peer=st.sampled_from(["b", "c"]))
    def answer(self, index, peer):
        message = self.held[index % len(self.held)][1]
        self.answers[message.id, peer] = self.answers.get((message.id, peer), 0) + 1
        assert self.cache.count_answer(message.id, peer) == self.answers[message.id, peer]

    @invariant()
    def cache_equals_model(self):
        if hasattr(self, "cache"):
            held = {message.id: message for _, message in self.held}
            assert {number: self.cache.get(number) for number in range(13)} == {
                number: held.get(number) for number in range(13)
            }
            for topic in ("news", "sport"):
                recent = sorted(
                    message.id
                    for beat, message in self.held
                    if message.topic == topic and self.beat - beat < self.gossip
                )
                assert sorted(self.cache.gossip().get(topic, ())) == recent
            assert len(self.cache) == len(held)


def test_counts_of_requests_are_bounded(monkeypatch):
    monkeypatch.setattr(message_memory, "MAX_COUNTED", 3)
    cache = message_cache(5, 5, 10)
    for number in range(3):
        cache.put(Message(number, "news", b""))
    assert [cache.count_answer(0, "b"), cache.count_answer(0, "b"), cache.count_answer(0, "c")] == [1, 2, 1]
    assert [cache.count_answer(1, "b"), cache.count_answer(2, "b")] == [1, 1]
    assert cache.count_answer(1, "b") == 2
    assert cache.count_answer(0, "b") == 1


TestTimedSeen = TimedSeenMachine.TestCase
TestWindowedSeen = WindowedSeenMachine.TestCase
TestMessageCache = MessageCacheMachine.TestCase
