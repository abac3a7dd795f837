"""Whether a node lives, and whether it is ready: what a supervisor and a load balancer ask.

It lives as long as its event loop answers and its router has not failed. It is ready when it listens (if it was told
to) and, if bootstrap addresses are named, one of them is connected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from hearsay.core.shell.contract import RouterFailed
from hearsay.node.meeting.address_news import AddressNews, AddressState
from hearsay.node.metrics.http_answers import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What of a node it depends on."""

    failure: Callable[[], RouterFailed | None]
    listens: Callable[[], bool]
    bootstrap: Collection[str]
    """Addresses of which one has to be connected; one's own address is none."""
    news: Callable[[], Iterable[AddressNews]]
    """The latest of each address."""

    def health(self) -> Answer:
        failure = self.failure()
        return _yes("ok") if failure is None else _no(str(failure))

    def ready(self) -> Answer:
        if self.failure() is not None:
            return self.health()
        if not self.listens():
            return _no("it does not listen")
        states = {news.address: news.state for news in self.news()}
        named = [state for address in self.bootstrap if (state := states.get(address)) is not AddressState.OWN]
        if named and AddressState.CONNECTED not in named:
            return _no(f"none of {len(named)} bootstrap peers is connected")
        return _yes("ready")


def _yes(word: str) -> Answer:
    return Answer(f"{word}\n".encode())


def _no(why: str) -> Answer:
    return Answer(f"{why.splitlines()[0]}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)
