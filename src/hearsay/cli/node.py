"""`hearsay node`: a real node on the terminal. Lines in are published, messages come out as lines."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.main import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.libp2p.keys import PrivateKey
    from hearsay.node.config import NodeConfig
    from hearsay.node.node import Node
    from hearsay.node.topic import Received, Topic


@click.command("node")
@click.option("--listen", multiple=True, metavar="MULTIADDR", default=("/ip4/127.0.0.1/tcp/0",), show_default=True,
              help="Accept connections here; may be given several times.")  # fmt: skip
@click.option("--connect", multiple=True, metavar="MULTIADDR", help="Stay connected to the peer at this address.")
@click.option("--rendezvous", multiple=True, metavar="MULTIADDR", help="Find peers of one's topics at this point.")
@click.option("--rendezvous-point", is_flag=True, help="Let others find each other here.")
@click.option("--host", type=click.Choice(["own", "libp2p"]), default="own", show_default=True,
              help="Our own host (TCP), or py-libp2p's (QUIC, WebSocket; needs the extra `libp2p`).")  # fmt: skip
@click.option("--dht", is_flag=True, help="Find peers of one's topics in the DHT (with --host libp2p).")
@click.option("--mdns", is_flag=True, help="Find peers on the local network (needs the extra `mdns`).")
@click.option("--subscribe", multiple=True, metavar="TOPIC", help="Join a topic and print its messages.")
@click.option("--publish", metavar="TOPIC", help="Publish lines of the input here [default: the first --subscribe].")
@click.option("--router", metavar="NAME", default="gossipsub", show_default=True,
              help="floodsub, randomsub, meshsub, gossipsub, episub or module:attribute.")  # fmt: skip
@click.option("--preset", metavar="NAME", help="The router's parameter set [default: v1.1 if it has one, else r1].")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a parameter of the router.")
@click.option("--no-sign", is_flag=True, help="Messages without author and signature, told apart by their content.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The node's identity; made if the file does not exist.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write a live trace.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on stdout, and nothing else there.")
def command(**options: Any) -> None:
    """Run a node that speaks libp2p pubsub, until Ctrl-C; lines typed are published.

    A chat between two terminals: `hearsay node --subscribe chat`, and in the other one the same with --connect and
    the address the first one prints.
    """
    from hearsay.libp2p.errors import MissingExtra

    _check_addresses(options)
    config, identity = _config(options), _identity(options["key"])
    try:
        interrupted = asyncio.run(_Terminal(options).run(config, identity))
    except OSError as error:
        raise CommandFailed(f"cannot start the node: {error}") from None
    except MissingExtra as error:
        raise CommandFailed(str(error)) from None
    if interrupted:
        raise KeyboardInterrupt


def _check_addresses(options: dict[str, Any]) -> None:
    """Every address is of a kind that the chosen host knows."""
    from hearsay.libp2p.errors import EncodingError
    from hearsay.libp2p.host import Host
    from hearsay.libp2p.multiaddr import Multiaddr
    from hearsay.py_libp2p.host import PyLibp2pHost

    can_dial, kinds = Host.can_dial, "TCP, such as /ip4/127.0.0.1/tcp/4001"
    if options["host"] == "libp2p":
        can_dial, kinds = PyLibp2pHost.can_dial, "TCP, WebSocket and QUIC, such as /ip4/127.0.0.1/udp/4001/quic-v1"
    for flag in ("listen", "connect", "rendezvous"):
        for address in options[flag]:
            try:
                if not can_dial(Multiaddr.parse(address)):
                    raise WrongInput(f"--{flag} {address}: host {options['host']} supports only {kinds}")
            except EncodingError as error:
                raise WrongInput(f"--{flag}: {error}") from None


def _config(options: dict[str, Any]) -> NodeConfig:
    from hearsay.core.parameters import ParameterError
    from hearsay.core.registry import UnknownRouter
    from hearsay.node.config import NodeConfig
    from hearsay.wire.message_ids import by_author, by_content
    from hearsay.wire.signing import SignaturePolicy

    parameters: dict[str, object] = {}
    for setting in options["settings"]:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise WrongInput(f"--set {setting}: write it as key=value")
        parameters[key] = _plain(value)
    if options["dht"] and options["host"] != "libp2p":
        raise WrongInput("--dht needs --host libp2p")
    config = NodeConfig(
        host=options["host"],
        dht=options["dht"],
        router=options["router"],
        preset=options["preset"],
        parameters=parameters,
        listen=options["listen"],
        bootstrap=options["connect"],
        rendezvous=options["rendezvous"],
        rendezvous_point=options["rendezvous_point"],
        local_network=options["mdns"],
        signatures=SignaturePolicy.STRICT_NO_SIGN if options["no_sign"] else SignaturePolicy.STRICT_SIGN,
        message_id=by_content if options["no_sign"] else by_author,
    )
    try:
        config.router_parameters()
    except ParameterError as error:
        raise WrongInput(*(f"--set {violation}" for violation in error.violations)) from None
    except (UnknownRouter, ValueError) as error:
        raise WrongInput(str(error)) from None
    return config


def _plain(value: str) -> object:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.lstrip("-").isdigit() else value


def _identity(path: Path | None) -> PrivateKey | None:
    from hearsay.libp2p.errors import EncodingError
    from hearsay.libp2p.keys import PrivateKey

    if path is None:
        return None
    try:
        if path.exists():
            return PrivateKey.decode(path.read_bytes())
        identity = PrivateKey.generate()
        path.touch(mode=0o600)
        path.write_bytes(identity.encode())
        return identity
    except EncodingError as error:
        raise WrongInput(f"--key {path}: {error}") from None
    except OSError as error:
        raise CommandFailed(f"--key {path}: {error.strerror}") from None


class _Terminal:
    """The node's input and output."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._subscribe: tuple[str, ...] = tuple(dict.fromkeys(options["subscribe"]))
        self._publish: str | None = options["publish"] or next(iter(self._subscribe), None)
        self._json: bool = options["as_json"]
        self._trace: Path | None = options["trace"]

    async def run(self, config: NodeConfig, identity: PrivateKey | None) -> bool:
        """Until the input ends (with nothing subscribed) or a signal comes; whether it was a signal."""
        from hearsay.node.node import Node

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with Node(config, identity=identity, trace=self._trace) as node:
            for address in node.addresses:
                self._say({"event": "listening", "address": address}, f"listening: {address}")
            topics = [await node.join(name) for name in self._subscribe]
            typing = asyncio.ensure_future(self._read_lines(node))
            stopping = asyncio.ensure_future(stop.wait())
            showing = [asyncio.ensure_future(self._print(node, topic)) for topic in topics]
            tasks: list[asyncio.Future[Any]] = [typing, stopping, *showing, asyncio.ensure_future(self._report(node))]
            ends = [stopping] if topics else [stopping, typing]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await node.flush()
            return stop.is_set()

    async def _print(self, node: Node, topic: Topic) -> None:
        async for message in topic:
            if message.received_from is not None:
                self._print_message(message)

    def _print_message(self, message: Received) -> None:
        text = message.data.decode("utf-8", "backslashreplace")
        if self._json:
            found = {
                "event": "message",
                "topic": message.topic,
                "from": message.author_text,
                "id": message.message_id.hex(),
                "data": text,
            }
            print(json.dumps(found), flush=True)
            return
        who = (message.author_text or "somebody")[-8:]
        where = f"{message.topic} " if len(self._subscribe) > 1 else ""
        print(f"{where}{who}: {text}", flush=True)

    async def _report(self, node: Node) -> None:
        """A status line when peers or mesh change."""
        before: object = None
        while True:
            mesh = {topic: len(node.mesh(topic)) for topic in self._subscribe}
            now = (len(node.peers), tuple(mesh.values()))
            if now != before:
                before = now
                links = ", ".join(f"{topic} {count}" for topic, count in mesh.items())
                status = {"event": "status", "peers": now[0], "mesh": mesh}
                self._say(status, f"peers: {now[0]}" + (f"; mesh: {links}" if links else ""))
            await asyncio.sleep(0.5)

    async def _read_lines(self, node: Node) -> None:
        from hearsay.wire.limits import TooLarge

        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 21)
        with suppress(ValueError):  # stdin is a plain file
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            while line := await reader.readline():
                await self._publish_line(node, line, TooLarge)
            return
        for text in sys.stdin.buffer:
            await self._publish_line(node, text, TooLarge)

    async def _publish_line(self, node: Node, line: bytes, too_large: type[Exception]) -> None:
        data = line.rstrip(b"\r\n")
        if not data:
            return
        if self._publish is None:
            self._say({"event": "error", "error": "no --publish topic"}, "no topic to publish to: give --publish")
            return
        try:
            done = await node.publish(self._publish, data, wait_for_peers=True)
        except too_large as error:
            self._say({"event": "error", "error": str(error)}, f"not sent: {error}")
            return
        if self._json:
            sent = {"event": "published", "id": done.message_id.hex(), "sent": done.sent, "waiting": done.waiting}
            print(json.dumps(sent), flush=True)
        elif done.waiting:
            print("(waits for a peer)", file=sys.stderr, flush=True)

    def _say(self, event: dict[str, Any], text: str) -> None:
        """News about the node: an object with --json, else a line beside the messages."""
        if self._json:
            print(json.dumps(event), flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
