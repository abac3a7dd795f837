"""A node on the terminal: it prints received messages, publishes lines of input, and shuts down at a signal.

Each message is one line. Data from peers is escaped, so that it can neither look like another line nor control the
terminal. With --json, each line is a JSON object with the whole message.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from hearsay.cli.ending import CommandFailed, WrongInput, system_words
from hearsay.cli.node_logs import encodable, log_news
from hearsay.cli.published_lines import PublishedLines, shown_topic
from hearsay.cli.signals import first_signal_of_loop
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import to_text
from hearsay.node.conduct import Ban
from hearsay.node.config import NodeConfig
from hearsay.node.meeting.address_book import AddressNews
from hearsay.node.node import Node
from hearsay.node.sequence_numbers import SequenceFileError
from hearsay.text import escape
from hearsay.trace.folder.manifest import RunFolderError
from hearsay.user_errors import require_extra

if TYPE_CHECKING:
    from hearsay.cli.watch import WatchedNode
    from hearsay.node.topic import Received, Topic

STATUS_S = 0.5
"""Seconds between two checks of the number of peers and the sizes of meshes."""


async def run_node(
    config: NodeConfig, identity: PrivateKey | None, options: Mapping[str, Any]
) -> tuple[int | None, list[str]]:
    """Run a node until a signal or, if it only publishes, until the end of its input.

    Return the number of the signal (None without a signal), and a line for each problem. Raise `WrongInput` or
    `CommandFailed` if the node cannot start.
    """
    terminal = _Terminal(options)
    async with AsyncExitStack() as stack:
        signalled = stack.enter_context(first_signal_of_loop())
        try:
            watched = _watched(options, signalled)
            node = Node(config, identity=identity, trace=options["trace"], watcher=watched and watched.source.add_row)
            node.on_address_news.append(terminal.print_address)
            node.on_kept_out.append(terminal.print_ban)
            await stack.enter_async_context(node)
        except SequenceFileError as error:
            raise WrongInput(f"--refuse-replays {error}") from None
        except OSError as error:
            raise CommandFailed(f"cannot start the node: {system_words(error)}") from None
        except RunFolderError as error:
            raise CommandFailed(f"cannot start the node: {error}") from None
        topic = options["publish"] or next(iter(terminal.subscribe), None)
        lines = PublishedLines(node, topic, terminal.stays, options["wait"], terminal.print_news)
        if watched is not None:
            await stack.enter_async_context(watched.shown(node))
            may = " (its page may stop this node)" if options["watch_stop"] else ""
            terminal.print_news({"event": "watch", "address": watched.url}, f"watch: {watched.url}{may}")
        await terminal.serve(node, lines, signalled)
        problems = lines.problems()
    if signalled.done():
        return signalled.result(), problems
    return None, problems or lines.unconfirmed()


def _watched(options: Mapping[str, Any], signalled: asyncio.Future[int]) -> WatchedNode | None:
    if options["watch"] is None:
        if options["watch_stop"]:
            raise WrongInput("--watch-stop needs --watch")
        return None
    require_extra("sim")
    from hearsay.cli.watch import WatchedNode

    def stop() -> None:
        if not signalled.done():
            signalled.set_result(signal.SIGTERM)

    return WatchedNode(options["watch"], stop if options["watch_stop"] else None)


class _Terminal:
    """The output of a node on the terminal. It prints news and messages, and runs the tasks that print and
    publish.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.subscribe: tuple[str, ...] = tuple(dict.fromkeys(options["subscribe"]))
        self.stays = bool(self.subscribe) or bool(options["rendezvous_point"])
        """True if the node continues to run after the end of its input."""
        self._json: bool = options["as_json"]

    async def serve(self, node: Node, lines: PublishedLines, signalled: asyncio.Future[int]) -> None:
        """Print and publish until a signal, a failure, or the end of the input of a node that only publishes."""
        for address in node.addresses:
            self.print_news({"event": "listening", "address": address}, f"listening: {address}")
        if node.metrics_url is not None:
            self.print_news({"event": "metrics", "url": node.metrics_url}, f"metrics: {node.metrics_url}")
        topics = [await node.join(name) for name in self.subscribe]
        publishing: asyncio.Future[Any] = asyncio.ensure_future(lines.publish())
        tasks = [publishing, *(asyncio.ensure_future(self._print(topic)) for topic in topics)]
        tasks.append(asyncio.ensure_future(self._report(node)))
        over: set[asyncio.Future[Any]] = {signalled} if self.stays else {signalled, publishing}
        waiting: set[asyncio.Future[Any]] = {signalled, *tasks}
        failed = False
        while not failed and not any(task.done() for task in over):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            failed = any(task.exception() is not None for task in done)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def print_news(self, event: dict[str, Any], text: str) -> None:
        """Print news about the node: with --json the object `event` on stdout, otherwise the line `text` on stderr.
        Without --json, print nothing if `text` is empty.
        """
        if self._json:
            print(json.dumps(event), flush=True)
        elif text:
            log_news(event, text)

    def print_address(self, news: AddressNews) -> None:
        event = {
            "event": "address",
            "address": news.address,
            "state": news.state.value,
            "reason": news.reason or None,
            "peer": None if news.peer is None else to_text(news.peer),
            "protocol": news.protocol or None,
            "retry_s": None if news.retry_s is None else round(news.retry_s, 3),
        }
        self.print_news(event, str(news))

    def print_ban(self, news: Ban) -> None:
        event = {
            "event": "kept_out",
            "peer": None if news.peer is None else to_text(news.peer),
            "address": news.address,
            "for_s": news.for_s,
            "reason": news.why,
        }
        self.print_news(event, str(news))

    async def _print(self, topic: Topic) -> None:
        async for message in topic:
            if message.received_from is not None:
                self._print_message(message)

    def _print_message(self, message: Received) -> None:
        if self._json:
            found = {
                "event": "message",
                "topic": message.topic,
                "from": message.author_text,
                "id": message.message_id.hex(),
                "data": message.data.decode("utf-8", "backslashreplace"),
            }
            print(json.dumps(found), flush=True)
            return
        who = (message.author_text or "unknown")[-8:]
        where = f"{shown_topic(message.topic)} " if len(self.subscribe) > 1 else ""
        shown = escape(f"{where}{who}: {message.data.decode('utf-8', 'surrogateescape')}")
        print(encodable(shown, sys.stdout), flush=True)

    async def _report(self, node: Node) -> None:
        """Print a status line whenever the number of peers or the size of a mesh has changed. Raise the failure of
        the node if it fails.
        """
        before: object = None
        while True:
            if node.failure is not None:
                raise node.failure
            mesh = {topic: len(node.mesh(topic)) for topic in self.subscribe}
            now = (len(node.peers), tuple(mesh.values()))
            if now != before:
                before = now
                links = ", ".join(f"{shown_topic(topic)} {count}" for topic, count in mesh.items())
                status = {"event": "status", "peers": now[0], "mesh": mesh}
                self.print_news(status, f"peers: {now[0]}" + (f"; mesh: {links}" if links else ""))
            await asyncio.sleep(STATUS_S)
