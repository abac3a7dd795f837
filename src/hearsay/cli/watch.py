"""`hearsay watch`: serve a page that shows a network while it runs.

This module also has the page of `hearsay node --watch` (`WatchedNode`).
"""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.signals import Signalled, exit_at_once, first_signal_of_loop
from hearsay.cli.simulate import ENGINES, MAX_NODES, MAX_SEED, given_scenario, say_if_it_compiles

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from hearsay.node.node import Node
    from hearsay.sim.scenario.scenario import Scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.watch.joined_nodes import JoinedNodesSource
    from hearsay.watch.run_folder import RunFolderSource
    from hearsay.watch.server import WatchServer

MOST_NODES = 1_000_000
MOST_TOUCHED_NODES = 2_000
"""Up to this number of nodes, `auto` selects the reference engine, which allows clicks on nodes."""
NO_ROOM = "the reference engine may have room (--engine reference)"
LOOPBACK = "127.0.0.1"
FLAG = "--watch"
PAGE_MESSAGE = b"published from the page"


class PaceType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """The type of a speed as a factor of real time, such as `2x` or `0.5x`. The value of `max` is None."""

    name = "pace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value in (None, "max") or isinstance(value, float):
            return None if value == "max" else value
        try:
            pace = float(str(value).removesuffix("x"))
        except ValueError:
            pace = 0.0
        if not 0.01 <= pace <= 1000:
            self.fail(f"{value!r} is neither max nor in 0.01x…1000x", param, ctx)
        return pace


class Source(GivenPath):
    """The type of a source: a path, or the address of a node's page. The value of an address is a str."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.startswith(("http:", "https:")):
            return value
        return super().convert(value, param, ctx)


@click.command("watch")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...", type=Source())
@click.option("--preset", metavar="NAME", help="Simulate a preset instead of a file.")
@click.option("--router", metavar="NAME", help="floodsub, randomsub, meshsub, gossipsub, episub or module:attribute.")
@click.option("--nodes", type=Whole(1, MAX_NODES), help="Number of nodes.")
@click.option("--messages", type=Whole(0, MAX_NODES), help="Number of messages.")
@click.option("--seed", type=Whole(0, MAX_SEED), help="Random seed.")
@click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the scenario; the last value for a key counts.")  # fmt: skip
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
              help="reference allows clicks on nodes; array is for large networks.")  # fmt: skip
@click.option("--pace", type=PaceType(), metavar="1x|max", default="1x", show_default=True,
              help="Speed of simulated time as a factor of real time, or max.")  # fmt: skip
@click.option("--paused", is_flag=True, help="Pause the run at its start.")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR", help="Also write a run folder at DIR.")
@click.option("--touched", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="At the end, write the scenario with your clicks to FILE.")  # fmt: skip
@click.option("--at", "address", metavar="[HOST:]PORT", default="0",
              help="Address at which the page is served [default: any port, only for this machine].")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--until-complete", is_flag=True, help="Stop at the end of the run instead of at Ctrl-C.")
def command(**options: Any) -> None:
    """Show a network in a browser while it runs.

    SOURCE is a scenario file (or use --preset), the folder of a finished or unfinished run, or the address of a page
    of `hearsay node --watch`. The nodes of several such addresses are shown in one picture.

    The command prints the address of the page, which contains an access token. On the page you can pause, slow down
    and rewind the run. Click on a node to publish a message or to stop the node. Your clicks are saved in the
    scenario (in --touched FILE and in the run folder), so that `hearsay simulate` repeats the run.
    """
    _endpoint("--at", options["address"])
    _require_new(options["touched"])
    watching = _watching(options)
    code = asyncio.run(watching)
    if code is not None:
        raise Signalled(code)


def _require_new(file: Path | None) -> None:
    """Raise `WrongInput` if the file of --touched exists, or if its folder does not exist."""
    if file is None:
        return
    if file.exists():
        raise WrongInput(f"--touched {file}: exists already")
    if not file.parent.is_dir():
        raise WrongInput(f"--touched {file}: the folder {file.parent} does not exist")


def _watching(options: dict[str, Any]) -> Coroutine[Any, Any, int | None]:
    """Return a coroutine that shows the sources: nodes, a run, or a simulation. Its result is the signal that ended
    it; None without a signal.
    """
    sources: tuple[Path | str, ...] = options["sources"]
    addresses = [source for source in sources if isinstance(source, str)]
    if addresses and len(addresses) == len(sources):
        return _watch_nodes(addresses, options)
    if len(sources) > 1:
        raise WrongInput("several sources: give one scenario, one folder, or addresses of nodes' pages alone")
    source = next(iter(sources), None)
    if isinstance(source, Path) and source.is_dir():
        return _watch_run(source, options)
    return _watch_simulation(source, options)


def _require_no_simulation(options: dict[str, Any], what: str) -> None:
    """Raise `WrongInput` if an option was given that needs a simulation. `what` describes the source."""
    for flag in ("preset", "router", "nodes", "messages", "seed", "out", "touched"):
        if options[flag] is not None:
            raise WrongInput(f"--{flag} needs a simulation; {what}")
    if options["overrides"] or options["engine"] != "auto":
        raise WrongInput(f"--set and --engine need a simulation; {what}")


async def _watch_nodes(addresses: Sequence[str], options: dict[str, Any]) -> int | None:
    """Show nodes until a signal, and return the signal; or until no node answers any more, and return None."""
    from hearsay.watch.joined_nodes import MOST_NODES, JoinedNodesSource
    from hearsay.watch.node import RemoteNode

    _require_no_simulation(options, f"{addresses[0]} is a node's page")
    if options["paused"] or options["pace"] != 1.0:
        raise WrongInput("--pace and --paused: real nodes run in real time; leave out both")
    if len(addresses) > MOST_NODES:
        raise WrongInput(f"{len(addresses)} nodes: one page joins at most {MOST_NODES}")
    if len(set(addresses)) < len(addresses):
        raise WrongInput("the address of a node is given twice")
    nodes = [RemoteNode(address) for address in addresses]
    for node in nodes:
        await asyncio.to_thread(node.connect)
    return await _show(JoinedNodesSource(nodes), options)


async def _watch_run(folder: Path, options: dict[str, Any]) -> int | None:
    """Show a run until a signal, and return the signal; or until the source ends, and return None."""
    from hearsay.watch.run_folder import RunFolderSource

    _require_no_simulation(options, f"{folder} is a folder of a run")
    return await _show(RunFolderSource(folder, options["pace"], paused=options["paused"]), options)


async def _show(source: JoinedNodesSource | RunFolderSource, options: dict[str, Any]) -> int | None:
    """Show a source until a signal, and return the signal; or until the source ends, and return None."""
    from hearsay.watch.broadcast import Broadcast
    from hearsay.watch.server import WatchServer

    broadcast = Broadcast(source.picture, source.about(), asyncio.get_running_loop())
    until_complete = options["until_complete"]
    return await _served_while(
        WatchServer(broadcast), options, lambda: source.run(broadcast, until_complete=until_complete), source.close
    )


async def _watch_simulation(file: Path | str | None, options: dict[str, Any]) -> int | None:
    """Simulate and show a run until a signal, and return the signal. With --until-complete, the end of the run also
    ends this; then return None.
    """
    from hearsay.sim.plan.engines import CapacityExceeded
    from hearsay.trace.folder.durable import write_durably
    from hearsay.watch.broadcast import Broadcast
    from hearsay.watch.links import DrawnNodes
    from hearsay.watch.picture import Picture
    from hearsay.watch.server import WatchServer
    from hearsay.watch.simulation import SimulatedSource

    scenario = given_scenario({"scenario": file, **options})
    picture = Picture(DrawnNodes(scenario.network.nodes))
    simulation, awaited = _simulation(scenario, options, picture.add_rows)
    source = SimulatedSource(simulation, picture, options["pace"], paused=options["paused"])
    broadcast = Broadcast(picture, source.about(), asyncio.get_running_loop(), awaited)

    def run() -> None:
        result = source.run(broadcast)
        if result.summary.complete:
            click.echo(str(result.summary), err=True)
            if not options["until_complete"]:
                click.echo("the run is over; the page stays until Ctrl-C", err=True)
                source.linger()

    try:
        return await _served_while(WatchServer(broadcast, source.scenario_text), options, run, source.close)
    except CapacityExceeded as error:
        raise CommandFailed(f"{error}; {NO_ROOM}") from None
    finally:
        if options["touched"] is not None and source.has_begun:
            write_durably(options["touched"], source.scenario_text().encode())


def _simulation(
    scenario: Scenario, options: dict[str, Any], watcher: Callable[..., None]
) -> tuple[Simulation, str | None]:
    """Return the simulation, and a message if the engine must be compiled before the simulation begins; otherwise
    None.
    """
    from hearsay.sim.plan.engines import CapacityExceeded, array_entry, choose_engine, estimate
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.folder.run_folder import RunFolder

    nodes = scenario.network.nodes
    if nodes > MOST_NODES:
        raise WrongInput(f"network.nodes = {nodes}: a page shows networks of at most {MOST_NODES:,} nodes")
    wanted = options["engine"]
    engine, _ = choose_engine(scenario, "reference" if wanted == "auto" and nodes <= MOST_TOUCHED_NODES else wanted)
    click.echo(f"engine: {engine}", err=True)
    refusal = estimate(scenario, engine).refusal()
    if refusal:
        raise WrongInput(refusal)
    awaited = say_if_it_compiles(array_entry(scenario)) if engine == "array" else None
    folder = RunFolder.create(options["out"]) if options["out"] is not None else None
    try:
        return Simulation(scenario, folder=folder, watcher=watcher, engine=engine), awaited
    except CapacityExceeded as error:
        raise CommandFailed(f"{error}; {NO_ROOM}") from None


async def _served_while(
    server: WatchServer, options: dict[str, Any], run: Callable[[], None], close: Callable[[], None]
) -> int | None:
    """Serve the page while `run` runs on a thread. Return the signal that ended this; None if `run` returned first.

    At a signal, call `close`, which makes `run` return. While the engine is compiled, a signal ends the process.
    """
    with first_signal_of_loop() as signalled:
        async with _served(server, "--at", options["address"]):
            click.echo(f"watch: {server.url}")
            if options["opens"]:
                await asyncio.to_thread(webbrowser.open, server.url)
            running = asyncio.ensure_future(asyncio.to_thread(run))
            await asyncio.wait({running, signalled}, return_when=asyncio.FIRST_COMPLETED)
            if signalled.done() and server.broadcast.awaited is not None:
                exit_at_once(signalled.result())  # nothing is open yet, and the compiler cannot be interrupted
            close()
            await running
    return signalled.result() if signalled.done() else None


class WatchedNode:
    """The page that shows a node. `url` is the address of the page while it is served."""

    def __init__(self, address: str, stop: Callable[[], None] | None) -> None:
        """Create the page, which `shown` will serve at `address`.

        `stop` is called when a user stops the node on the page; with None, the page cannot stop the node.
        """
        from hearsay.watch.node import NodeSource

        _endpoint(FLAG, address)
        self._address = address
        self._node: Node | None = None
        self._publishing: set[asyncio.Task[object]] = set()
        self.source = NodeSource(self._publish, stop)
        self.url = ""

    @asynccontextmanager
    async def shown(self, node: Node) -> AsyncGenerator[None]:
        """Serve the page until the block ends. The node must have been created with the watcher `source.add_row`."""
        from hearsay.watch.broadcast import Broadcast
        from hearsay.watch.server import WatchServer

        rows = node.rows
        assert rows is not None
        self._node = node
        broadcast = Broadcast(self.source.picture, self.source.about(), asyncio.get_running_loop())
        server = WatchServer(broadcast, rows=self.source.row_stream)
        async with _served(server, FLAG, self._address):
            self.url = server.url
            showing = asyncio.ensure_future(self.source.run(broadcast, rows.names))
            try:
                yield
            finally:
                showing.cancel()
                await asyncio.gather(showing, *self._publishing, return_exceptions=True)

    def _publish(self, topic: str) -> None:
        assert self._node is not None
        task: asyncio.Task[object] = asyncio.ensure_future(self._node.publish(topic, PAGE_MESSAGE))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)


@asynccontextmanager
async def _served(server: WatchServer, flag: str, address: str) -> AsyncGenerator[None]:
    """Serve the page at `address`, the value of the option `flag`, until the block ends. Raise `CommandFailed` if
    that is impossible.
    """
    host, port = _endpoint(flag, address)
    try:
        await server.listen(host, port)
    except OSError as error:
        raise CommandFailed(f"{flag} {address}: cannot serve the page: {error.strerror or error}") from None
    try:
        yield
    finally:
        await server.close()


def _endpoint(flag: str, given: str) -> tuple[str, int]:
    """Return the host and the port of an address `[HOST:]PORT`, the value of the option `flag`. The default host is
    `LOOPBACK`. Raise `WrongInput` for an address of another form.
    """
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise WrongInput(f"{flag} {given}: write [HOST:]PORT, such as 8080 or 0.0.0.0:8080; ports are 0…65535")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
