"""`hearsay node`: run a real node on the terminal. This file has the options of the command and the checks of their
values.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Real, settings_of
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.signals import Signalled

if TYPE_CHECKING:
    from hearsay.core.shell.parameters import RouterParameters
    from hearsay.libp2p.names.keys import PrivateKey
    from hearsay.node.config import NodeConfig


@click.command("node")
@click.option("--listen", multiple=True, metavar="MULTIADDR", default=("/ip4/127.0.0.1/tcp/0",), show_default=True,
              help="Accept connections at this address.")  # fmt: skip
@click.option("--connect", multiple=True, metavar="MULTIADDR", help="Stay connected to the peer at this address.")
@click.option("--rendezvous", multiple=True, metavar="MULTIADDR",
              help="Find peers of the node's topics at this rendezvous point.")  # fmt: skip
@click.option("--rendezvous-point", is_flag=True, help="Act as a rendezvous point for other nodes.")
@click.option("--host", type=click.Choice(["own", "libp2p"]), default="own", show_default=True,
              help="Hearsay's host (TCP), or py-libp2p's (QUIC, WebSocket; needs the extra `libp2p`).")  # fmt: skip
@click.option("--dht", is_flag=True, help="Find peers of the node's topics in the DHT (with --host libp2p).")
@click.option("--mdns", is_flag=True, help="Find peers on the local network (needs the extra `mdns`).")
@click.option("--subscribe", multiple=True, metavar="TOPIC", help="Join a topic and print its messages.")
@click.option("--publish", metavar="TOPIC", help="Topic for the lines of input [default: the first --subscribe].")
@click.option("--wait", type=Real(0), metavar="SECONDS",
              help="Maximum time that a line of input waits for a peer of its topic [default: 30; no limit with "
              "--subscribe or --rendezvous-point].")  # fmt: skip
@click.option("--router", metavar="NAME", default="gossipsub", show_default=True,
              help="floodsub, randomsub, meshsub, gossipsub, episub or module:attribute.")  # fmt: skip
@click.option("--preset", metavar="NAME", help="Preset of the router [default: v1.1, or the router's first preset].")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a parameter of the router.")
@click.option("--no-sign", is_flag=True, help="Do not sign messages, and accept only unsigned ones (StrictNoSign).")
@click.option("--message-ids", type=click.Choice(["author", "content", "data"]),
              help="The id of a message: `author` (author and sequence number), `content` (hash of topic and data) "
              "or `data` (hash of the data) [default: author; with --no-sign content].")  # fmt: skip
@click.option("--key", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="The file with the node's key; created if it does not exist [default: a new key].")  # fmt: skip
@click.option("--refuse-replays", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="Ignore replayed messages, also after a restart; FILE stores sequence numbers.")  # fmt: skip
@click.option("--trace", type=GivenPath(path_type=Path, file_okay=False), metavar="DIR", help="Write a trace to DIR.")
@click.option("--metrics", metavar="ADDRESS",
              help="Serve metrics and health over HTTP: HOST:PORT, or PORT for this machine only.")  # fmt: skip
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning",
              show_default=True, help="Write log records of this or a higher level to stderr.")  # fmt: skip
@click.option("--log-json", is_flag=True, help="Write stderr as one JSON object per line.")
@click.option("--watch", is_flag=False, flag_value="0", metavar="[[HOST:]PORT]",
              help="Serve a page that shows the node; only for this machine unless HOST is given.")  # fmt: skip
@click.option("--watch-stop", is_flag=True, help="Let the page of --watch stop the node, as SIGTERM does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(**options: Any) -> None:
    """Run a libp2p pubsub node until Ctrl-C. Lines of standard input are published.

    Chat between two terminals: run `hearsay node --subscribe chat` in both, and add --connect in the second terminal
    with the address that the first node prints. A node that only publishes ends at the end of the input. The exit
    code is 1 if a message reached no peer.

    --listen, --connect, --rendezvous, --subscribe and --set can be repeated.
    """
    from hearsay.cli.node_logs import begin_logging, ending_as_json

    begin_logging(options["log_level"], as_json=options["log_json"])
    with ending_as_json() if options["log_json"] else nullcontext():
        _run(options)


def _run(options: dict[str, Any]) -> None:
    from hearsay.cli.node_logs import log_news
    from hearsay.cli.node_terminal import run_node

    _check_addresses(options)
    _check_topics(options)
    config, identity = _config(options), _identity(options["key"])
    signalled, problems = asyncio.run(run_node(config, identity, options))
    if signalled is not None:
        for problem in problems:
            if options["log_json"]:
                log_news({"event": "problem"}, problem)
            else:
                click.echo(f"hearsay: {problem}", err=True)
        raise Signalled(signalled)
    if problems:
        raise CommandFailed("\n".join(problems))


def _check_addresses(options: dict[str, Any]) -> None:
    """Raise `WrongInput` if the chosen host (--host) cannot use one of the given addresses."""
    from hearsay.libp2p.host import Host
    from hearsay.libp2p.names.errors import EncodingError
    from hearsay.libp2p.names.multiaddr import Multiaddr
    from hearsay.py_libp2p.host import PyLibp2pHost

    host = PyLibp2pHost if options["host"] == "libp2p" else Host
    for flag in ("listen", "connect", "rendezvous"):
        for address in options[flag]:
            try:
                parsed = Multiaddr.parse(address)
                if not host.can_dial(parsed):
                    raise WrongInput(f"--{flag} {address}: host {options['host']} supports only {host.kinds}")
                if flag != "listen" and any(part in (("tcp", "0"), ("udp", "0")) for part in parsed.parts):
                    raise WrongInput(f"--{flag} {address}: port 0 is not a listening port; ports are 1…65535")
            except EncodingError as error:
                raise WrongInput(f"--{flag}: {error}") from None


def _given_topics(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield pairs of option name and topic for each topic of --subscribe and --publish."""
    for flag in ("subscribe", "publish"):
        given = options[flag]
        yield from ((flag, topic) for topic in ((given,) if isinstance(given, str) else given or ()))


def _check_topics(options: dict[str, Any]) -> None:
    for flag, topic in _given_topics(options):
        if not topic:
            raise WrongInput(f"--{flag} '': is empty; the name of a topic must not be")
        try:
            topic.encode()
        except UnicodeEncodeError:
            raise WrongInput(f"--{flag} {topic!a}: is not valid UTF-8; the name of a topic must be") from None


_CONFIG = ("host", "dht", "router", "preset", "listen", "rendezvous", "rendezvous_point", "metrics")
"""The options whose values are fields of `NodeConfig` with the same names."""


def _config(options: dict[str, Any]) -> NodeConfig:
    from hearsay.core.registry import UnknownRouter
    from hearsay.core.shell.parameters import ParameterError
    from hearsay.node.config import NodeConfig, endpoint_of
    from hearsay.wire.messages import NAMED
    from hearsay.wire.signing import SignaturePolicy

    settings = settings_of(options["settings"], form="key=value")
    if options["dht"] and options["host"] != "libp2p":
        raise WrongInput("--dht needs --host libp2p")
    if options["refuse_replays"] is not None and options["no_sign"]:
        raise WrongInput("--refuse-replays: needs signed messages; leave out --no-sign")
    if options["metrics"] is not None:
        try:
            endpoint_of(options["metrics"])
        except ValueError as error:
            raise WrongInput(f"--metrics {error}") from None
    config = NodeConfig(
        **{name: options[name] for name in _CONFIG},
        parameters={key: _value_of(value) for key, value in settings},
        bootstrap=options["connect"],
        local_network=options["mdns"],
        signatures=SignaturePolicy.STRICT_NO_SIGN if options["no_sign"] else SignaturePolicy.STRICT_SIGN,
        refuse_replays=options["refuse_replays"] or False,
        message_id=NAMED[options["message_ids"] or ("content" if options["no_sign"] else "author")],
    )
    try:
        _check_allowed(options, config.router_parameters()[1])
    except ParameterError as error:
        raise WrongInput(*(f"--set {violation}" for violation in error.violations)) from None
    except (UnknownRouter, ValueError) as error:
        raise WrongInput(str(error)) from None
    return config


def _check_allowed(options: dict[str, Any], parameters: RouterParameters) -> None:
    """Raise `WrongInput` if the router's parameter `allowed_topics` does not allow one of the given topics."""
    from hearsay.core.shell.received_parts import subscription_filter

    chosen = subscription_filter(parameters)
    for flag, topic in _given_topics(options):
        if chosen is not None and not chosen.allows(topic):
            raise WrongInput(f"--{flag} {topic}: not one of the router's allowed_topics")


def _value_of(value: str) -> object:
    """Return the value of a parameter from its text: a bool, a whole number, a list as in TOML, or the text
    itself.
    """
    if value.startswith("["):
        try:
            return tomllib.loads(f"list = {value}")["list"]
        except ValueError:
            return value
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.removeprefix("-").isdecimal() else value


def _identity(path: Path | None) -> PrivateKey | None:
    from hearsay.node.config import KeyFileError, identity_in

    if path is None:
        return None
    try:
        return identity_in(path)
    except KeyFileError as error:
        raise WrongInput(f"--key {path}: {error}") from None
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise WrongInput(f"--key {path}: {error.strerror}") from None
    except OSError as error:
        raise CommandFailed(f"--key {path}: {error.strerror}") from None
