"""Read lines of standard input for asyncio, and publish them in a topic."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from select import select
from threading import Semaphore, Thread
from typing import Any

from hearsay.cli.arguments import counted
from hearsay.cli.ending import CommandFailed
from hearsay.node.meeting.address_book import AddressState
from hearsay.node.node import Node
from hearsay.text.escape import escape
from hearsay.wire.fields import TooLarge

_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that was skipped because it is too long."""

    number: int
    bytes: int


class InputLines:
    """Lines of a file descriptor as (number, line without its end); `LongLine` for one of more than `limit` bytes."""

    def __init__(self, limit: int, descriptor: int) -> None:
        self._limit = limit
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._wanted = Semaphore(0)
        self._answer: asyncio.Future[bytes | OSError] | None = None
        Thread(target=self._read_pieces, daemon=True, name="standard input").start()

    async def lines(self) -> AsyncIterator[tuple[int, bytes] | LongLine]:
        """Yield the lines until the end of the input. Raises `OSError` when the input cannot be read."""
        number, begun, skipped = 1, bytearray(), 0
        while piece := await self._piece():
            *whole, rest = piece.split(b"\n")
            for end in whole:
                yield self._line(number, begun, end, skipped)
                number, skipped = number + 1, 0
                begun.clear()
            begun += rest
            if len(begun) > self._limit + 1:  # one byte more for a carriage return
                skipped += len(begun)
                begun.clear()
        if begun or skipped:
            yield self._line(number, begun, b"", skipped)

    def _line(self, number: int, begun: bytearray, end: bytes, skipped: int) -> tuple[int, bytes] | LongLine:
        line = bytes(begun + end).removesuffix(b"\r")
        if skipped or len(line) > self._limit:
            return LongLine(number, skipped + len(line))
        return number, line

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
                    select([self._descriptor], [], [])  # a read suspends a background job, select does not
                    piece = os.read(self._descriptor, _PIECE_BYTES)
                except BlockingIOError:  # another program set the terminal or pipe to non-blocking
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
"""Maximum seconds that a line waits for a peer, in a node that only publishes."""
ROOM_S = 5.0
"""Maximum seconds that publishing waits for room in the queues of slow peers."""
FLUSH_S = 10.0
"""Maximum seconds in which the last messages are sent."""
COUNT_S = 1.0
"""Maximum seconds for counting the remaining lines, which are not sent."""
LONGEST_TOPIC = 60
"""Maximum characters of a topic's name in messages for people."""


class PublishedLines:
    def __init__(
        self,
        node: Node,
        topic: str | None,
        stays: bool,
        wait_s: float | None,
        say: Callable[[dict[str, Any], str], None],
    ) -> None:
        """Create the publisher of lines in `topic`.

        `stays` is True if the node continues after the end of the input. A line waits for a peer for `wait_s`
        seconds; None means `WAIT_S`, or no limit if the node stays. `say` prints an event with its text for people.
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
        """Publish lines until the input ends."""
        if sys.stdin is None:
            return
        limit = self._node.config.limits.rpc.max_rpc_bytes
        lines = InputLines(limit, sys.stdin.fileno()).lines()
        try:
            async for line in lines:
                if isinstance(line, LongLine):
                    self._refuse(line.number, f"{line.bytes} bytes; at most {limit} fit into an RPC")
                elif line[1] and not await self._publish(*line):
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
        """Return a line for each problem of publishing. To be called once, before the node is closed."""
        found: list[str] = []
        if self._waits:
            self._unsent += 1
            self._why_unsent = self.no_recipient_reason()
        if self._unsent:
            topic = escape(shown_topic(str(self._topic)))
            found.append(f"{counted(self._unsent, 'message')} for topic {topic} reached no peer: {self._why_unsent}")
        if self._refused and not self._stays:
            found.append(f"{counted(self._refused, 'line')} of the input could not be sent")
        if self._late:
            found.append(f"the last messages had not left after {FLUSH_S:g} s: the peers take them too slowly")
        return found

    def unconfirmed(self) -> list[str]:
        """Return a line if no peer has confirmed the last messages. To be called after the node is closed."""
        if self._stays or not self._published or self._node.confirmed is None or self._node.confirmed:
            return []
        return ["the last messages may not have arrived: no peer has confirmed the end of its connection"]

    async def _publish(self, number: int, data: bytes) -> bool:
        """Publish a line. Returns False if further lines would reach no peer."""
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
            self._say_error(number, f"not sent to {counted(done.dropped, 'slow peer')}: no room in the queue")
        elif not done.sent and self._node.statistics.duplicates > repeated:
            self._say_error(number, "not sent: this content was published before, and the id is a hash of it")
        if not done.sent and self._node.statistics.duplicates == repeated:
            self._unsent += 1
            self._why_unsent = self.no_recipient_reason()
        return True

    async def _recipient(self, topic: str) -> bool:
        """Wait for a peer that would receive a message of the topic. Returns False if none appears in time."""
        if self._node.reaches_somebody(topic):
            return True
        self._waits = True
        self._say({"event": "waiting", "topic": topic}, f"waiting for a peer of topic {shown_topic(topic)}")
        if not await self._node.wait_for_peers(topic, self._wait_s):
            return False
        self._waits = False
        return True

    async def _count(self, lines: AsyncIterator[tuple[int, bytes] | LongLine]) -> None:
        """Count the rest of the input as unsent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COUNT_S):
                async for line in lines:
                    self._unsent += isinstance(line, LongLine) or bool(line[1])
                return
        self._why_unsent += "; further lines of the input were not counted"

    def _refuse(self, number: int, why: str) -> None:
        self._refused += 1
        self._say_error(number, f"not sent: {why}")

    def _say_error(self, number: int, text: str) -> None:
        self._say({"event": "error", "line": number, "error": text}, f"line {number}: {text}")

    def no_recipient_reason(self) -> str:
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
            return f"no peer that speaks pubsub came{limit}, {counted(len(node.connected), 'other peer')} did"
        if not node.topic_peers(str(self._topic)):
            return f"no subscriber came{limit}, {counted(len(node.peers), 'other peer')} did"
        return f"no peer took this node into its mesh{limit}"


def shown_topic(name: str) -> str:
    """Return the name of a topic, shortened for people."""
    return name if len(name) <= LONGEST_TOPIC else f"{name[:LONGEST_TOPIC]}…"
