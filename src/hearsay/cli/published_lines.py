"""The lines of standard input, read under asyncio and published in a topic."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from select import select
from threading import Semaphore, Thread
from typing import Any

from hearsay.cli.ending import CommandFailed
from hearsay.node.meeting.address_book import AddressState
from hearsay.node.node import Node
from hearsay.number_text import plain, plural
from hearsay.text import escape
from hearsay.wire.fields import TooLarge

_PIECE_BYTES = 1 << 16


class InputLines:
    """The lines of a file descriptor. A thread reads the descriptor, so that neither a terminal nor a file blocks the
    event loop. `limit` is the maximum number of bytes of a line.
    """

    def __init__(self, limit: int, descriptor: int) -> None:
        self._limit = limit
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._wanted = Semaphore(0)
        self._answer: asyncio.Future[bytes | OSError] | None = None
        Thread(target=self._read_pieces, daemon=True, name="standard input").start()

    async def lines(self) -> AsyncIterator[tuple[int, bytes | int]]:
        """Yield each line until the end of the input: its number, from 1, and its bytes without the line break, or
        the number of its bytes if they exceed the limit. Raise `OSError` if the input cannot be read.
        """
        number, begun, skipped = 1, bytearray(), 0
        while piece := await self._piece():
            *whole, rest = piece.split(b"\n")
            for end in whole:
                yield self._line(number, begun, end, skipped)
                number, skipped = number + 1, 0
                begun.clear()
            begun += rest
            if len(begun) > self._limit + 1:  # a carriage return at the end is not part of the line
                skipped += len(begun)
                begun.clear()
        if begun or skipped:
            yield self._line(number, begun, b"", skipped)

    def _line(self, number: int, begun: bytearray, end: bytes, skipped: int) -> tuple[int, bytes | int]:
        line = bytes(begun + end).removesuffix(b"\r")
        return number, skipped + len(line) if skipped or len(line) > self._limit else line

    async def _piece(self) -> bytes:
        self._answer = self._loop.create_future()
        self._wanted.release()
        answer = await self._answer
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _read_pieces(self) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            while True:
                self._wanted.acquire()
                piece: bytes | OSError
                try:
                    select([self._descriptor], [], [])  # unlike a read, it does not suspend a background job
                    piece = os.read(self._descriptor, _PIECE_BYTES)
                except BlockingIOError:  # another program has made the terminal or pipe non-blocking
                    os.set_blocking(self._descriptor, True)
                    self._wanted.release()
                    continue
                except OSError as error:
                    piece = error
                self._loop.call_soon_threadsafe(self._answered, piece)

    def _answered(self, piece: bytes | OSError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(piece)


WAIT_S = 30.0
"""Default of the seconds that a line waits for a peer, if the node ends at the end of the input."""
ROOM_S = 5.0
"""Maximum seconds that publishing waits for room in the queues of slow peers."""
FLUSH_S = 10.0
"""Maximum seconds that the node waits at the end of the input until the last messages are sent."""
COUNT_S = 1.0
"""Maximum seconds for counting the remaining lines of the input, if no line can be sent any more."""
LONGEST_TOPIC = 60
"""Maximum number of characters of a topic's name in lines for people."""


class PublishedLines:
    """A publisher of the lines of standard input. It counts the lines that could not be sent."""

    def __init__(
        self,
        node: Node,
        topic: str | None,
        stays: bool,
        wait_s: float | None,
        say: Callable[[dict[str, Any], str], None],
    ) -> None:
        """Create the publisher. `topic` is None if the user has given no topic.

        `stays` is True if the node continues after the end of the input. A line waits at most `wait_s` seconds for a
        peer; None means `WAIT_S` or, if `stays` is True, no limit. `say` prints an event, and a text for people.
        """
        self._node = node
        self._topic = topic
        self._stays = stays
        self._wait_s = wait_s if wait_s is not None or stays else WAIT_S
        self._say = say
        self._waits = False
        self._published = self._unsent = self._refused = 0
        self._why_unsent = ""
        self._late = False

    async def publish(self) -> None:
        """Publish the lines until the end of the input, or until the remaining lines would reach no peer. If the node
        then ends, wait until the messages are sent, for at most `FLUSH_S` seconds. Raise `CommandFailed` if the input
        cannot be read.
        """
        if sys.stdin is None:
            return
        limit = self._node.config.limits.rpc.max_rpc_bytes
        lines = InputLines(limit, sys.stdin.fileno()).lines()
        try:
            async for number, line in lines:
                if isinstance(line, int):
                    self._refuse(number, f"{line} bytes; at most {limit} fit into an RPC")
                elif line and not await self._publish(number, line):
                    await self._count(lines)
                    break
        except OSError as error:
            raise CommandFailed(f"the input cannot be read: {error.strerror}") from None
        if self._published and not self._stays:
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._node.flush()
            except TimeoutError:
                self._late = True

    def problems(self) -> list[str]:
        """Return a line for each problem of publishing. Call this once, before the node is closed."""
        found: list[str] = []
        if self._waits:
            self._unsent += 1
            self._why_unsent = self.no_recipient_reason()
        if self._unsent:
            topic = escape(shown_topic(str(self._topic)))
            found.append(
                f"{plain(plural(self._unsent, 'message'))} for topic {topic} reached no peer: {self._why_unsent}"
            )
        if self._refused and not self._stays:
            found.append(f"{plain(plural(self._refused, 'line'))} of the input could not be sent")
        if self._late:
            found.append(f"the last messages had not left after {FLUSH_S:g} s: the peers receive too slowly")
        return found

    def unconfirmed(self) -> list[str]:
        """Return a line if the last messages may be lost, otherwise an empty list. Call this after the node is
        closed.
        """
        if self._stays or not self._published or self._node.confirmed is None or self._node.confirmed:
            return []
        return ["the last messages may not have arrived: no peer has confirmed the end of its connection"]

    async def _publish(self, number: int, data: bytes) -> bool:
        """Publish the line with this number. Return False if the remaining lines would reach no peer."""
        if self._topic is None:
            self._refuse(number, "no topic to publish to: give --publish")
            return True
        if not await self._recipient(self._topic):
            self._waits = False
            self._unsent += 1
            self._why_unsent = self.no_recipient_reason()
            if self._stays:
                self._say_error(number, f"not sent: {self._why_unsent}")
            return self._stays
        await self._node.make_room(ROOM_S)
        repeated = self._node.statistics.duplicates
        try:
            done = await self._node.publish(self._topic, data)
        except TooLarge as error:
            self._refuse(number, str(error))
            return True
        self._say({"event": "published", "id": done.message_id.hex(), "sent": done.sent, "waiting": done.waiting}, "")
        self._published += bool(done.sent)
        if done.dropped:
            self._say_error(number, f"not sent to {plain(plural(done.dropped, 'slow peer'))}: no room in the queue")
        elif not done.sent and self._node.statistics.duplicates > repeated:
            self._say_error(number, "not sent: this content was published before, and the id is a hash of it")
        if not done.sent and self._node.statistics.duplicates == repeated:
            self._unsent += 1
            full = "the queues of slow peers had no room"
            self._why_unsent = full if done.dropped else self.no_recipient_reason()
        return True

    async def _recipient(self, topic: str) -> bool:
        """Wait until a message of the topic would reach a peer. Return False if no peer comes in time."""
        if self._node.reaches_somebody(topic):
            return True
        self._waits = True
        self._say({"event": "waiting", "topic": topic}, f"waiting for a peer of topic {shown_topic(topic)}")
        if not await self._node.wait_for_peers(topic, self._wait_s):
            return False
        self._waits = False
        return True

    async def _count(self, lines: AsyncIterator[tuple[int, bytes | int]]) -> None:
        """Count the remaining lines of the input, except empty lines, as unsent messages."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COUNT_S):
                async for _, line in lines:
                    self._unsent += bool(line)
                return
        self._why_unsent += "; further lines of the input were not counted"

    def _refuse(self, number: int, why: str) -> None:
        self._refused += 1
        self._say_error(number, f"not sent: {why}")

    def _say_error(self, number: int, text: str) -> None:
        self._say({"event": "error", "line": number, "error": text}, f"line {number}: {text}")

    def no_recipient_reason(self) -> str:
        """Return the reason why a message of the topic would reach no peer now."""
        node, limit = self._node, "" if self._wait_s is None else f" within {self._wait_s:g} s"
        if not node.connected:
            troubles = [
                f"{news.address}: {escape(news.reason)}"
                for news in node.address_news
                if news.state is not AddressState.CONNECTED
            ]
            return "; ".join([f"no peer was connected{limit}", *troubles])
        if not node.peers and node.agreeing:
            return f"{len(node.agreeing)} connected, not yet agreed on a protocol{limit}"
        if not node.peers:
            return f"no peer that speaks pubsub came{limit}, {plain(plural(len(node.connected), 'other peer'))} did"
        if not node.topic_peers(str(self._topic)):
            return f"no subscriber came{limit}, {plain(plural(len(node.peers), 'other peer'))} did"
        return f"no peer took this node into its mesh{limit}"


def shown_topic(name: str) -> str:
    """Return the name of a topic for lines for people; a name above `LONGEST_TOPIC` characters is shortened."""
    return name if len(name) <= LONGEST_TOPIC else f"{name[:LONGEST_TOPIC]}…"
