"""What a node asked its peers for with IWANT, as the checker has seen it; a book of the checker.

What a router waits for was asked for at that time, of that peer; at most one message of each IWANT if only one of
each is followed; no longer than its time, no more than there may be, and nothing that is here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import IWant
from hearsay.core.shell.promises import AskingPromise
from hearsay.core.shell.router import Router


class AskedBook:
    def __init__(self) -> None:
        self._asked: dict[tuple[Any, Micros], list[IWant]] = {}
        """By peer and time."""

    def ask(self, peer: Any, parts: tuple[IWant, ...], now: Micros) -> None:
        self._asked.setdefault((peer, now), []).extend(parts)

    def heartbeat(self, router: Router, promise: AskingPromise, now: Micros) -> Iterator[str]:
        """What is wrong with what a router waits for when a heartbeat is over."""
        of_peer: Counter[Any] = Counter()
        of_iwant: Counter[tuple[Any, Micros]] = Counter()
        for (peer, message_id), until in promise.waited_for.items():
            asked_at = (peer, until - promise.answer_us)
            parts = self._asked.get(asked_at, [])
            of_peer[peer] += 1
            of_iwant[asked_at] += 1
            if until < now:
                yield f"waits for message {message_id} of {peer}, whose time was over at {until} us"
            if message_id in router.known and not promise.of_the_asked:
                yield f"waits for message {message_id} of {peer}, which is here"
            if not any(message_id in part.ids for part in parts):
                yield f"waits for message {message_id} of {peer}, who was not asked for it then"
            if promise.one_of_each and of_iwant[asked_at] > len(parts):
                yield f"waits for {of_iwant[asked_at]} messages of {peer} after {len(parts)} IWANT"
        if max(of_peer.values(), default=0) > promise.most_of_one:
            yield f"waits for {max(of_peer.values())} messages of one peer, above {promise.most_of_one}"
        if of_peer.total() > promise.most:
            yield f"waits for {of_peer.total()} messages, above {promise.most}"
        for key in [key for key in self._asked if key[1] + promise.answer_us < now]:
            del self._asked[key]
