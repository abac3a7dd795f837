"""`hearsay watch`: a page that shows a network while it runs."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole
from hearsay.cli.ending import CommandFailed, WrongInput
from hearsay.cli.signals import Signalled, exit_at_once, first_signal_of_loop
from hearsay.cli.simulate import ENGINES, MAX_NODES, MAX_SEED, given_scenario, say_if_it_compiles
from hearsay.cli.watching import endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from hearsay.sim.scenario.scenario import Scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.watch.server import WatchServer
    from hearsay.watch.sources.joined_nodes import JoinedNodesSource
    from hearsay.watch.sources.run_folder import RunFolderSource

MOST_NODES = 1_000_000
MOST_TOUCHED_NODES = 2_000
"""With at most this number of nodes, the default is the engine that allows clicks on nodes."""
NO_ROOM = "the reference engine may (--engine reference)"


class PaceType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]
    """A speed as a factor of real time: `2x`, `0.5x`, or `max`, which becomes None."""

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
    """A path, or the address of a node's page."""

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
@click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Change any key of the scenario."
)
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
              help="reference allows clicks on nodes; array is for large networks.")  # fmt: skip
@click.option("--pace", type=PaceType(), metavar="1x|max", default="1x", show_default=True,
              help="Speed of simulated time, or max.")  # fmt: skip
@click.option("--paused", is_flag=True, help="Start paused.")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR", help="Write a run folder, too.")
@click.option("--touched", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="At the end, write the scenario with your clicks here.")  # fmt: skip
@click.option("--at", "address", metavar="[HOST:]PORT", default="0",
              help="Address of the page [default: any port, only on this machine].")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--until-complete", is_flag=True, help="Stop at the end of the run instead of at Ctrl-C.")
def command(**options: Any) -> None:
    """Show a network in a browser while it runs.

    SOURCE is a scenario file (or use --preset), the folder of a finished or unfinished run, or the address of a page
    of `hearsay node --watch`. Several node addresses are shown in one picture.

    The command prints the page's address, which contains an access token. On the page you can pause, slow down and
    rewind the run; click on a node to publish a message or to stop the node. Your clicks are saved in the scenario
    (--touched FILE, and in the run folder), so that `hearsay simulate` repeats the run.
    """
    endpoint("--at", options["address"])
    _require_new(options["touched"])
    watching = _watching(options)
    code = asyncio.run(watching)
    if code is not None:
        raise Signalled(code)


def _require_new(file: Path | None) -> None:
    """Raise `WrongInput` if the file of --touched exists already, or its folder does not exist."""
    if file is None:
        return
    if file.exists():
        raise WrongInput(f"--touched {file}: exists already")
    if not file.parent.is_dir():
        raise WrongInput(f"--touched {file}: the folder {file.parent} does not exist")


def _watching(options: dict[str, Any]) -> Coroutine[Any, Any, int | None]:
    """Return the coroutine that shows the source: nodes, a run, or a simulation."""
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
    """Raise `WrongInput` if an option is given that only a simulation has; `what` says what is shown instead."""
    for flag in ("preset", "router", "nodes", "messages", "seed", "out", "touched"):
        if options[flag] is not None:
            raise WrongInput(f"--{flag} needs a simulation; {what}")
    if options["overrides"] or options["engine"] != "auto":
        raise WrongInput(f"--set and --engine need a simulation; {what}")


async def _watch_nodes(addresses: Sequence[str], options: dict[str, Any]) -> int | None:
    """Show nodes until a signal, which is returned, or until all nodes are gone."""
    from hearsay.watch.sources.joined_nodes import MOST_NODES, JoinedNodesSource
    from hearsay.watch.sources.node import RemoteNode

    _require_no_simulation(options, f"{addresses[0]} is a node's page")
    if options["paused"] or options["pace"] != 1.0:
        raise WrongInput("--pace and --paused: nodes go at their own pace")
    if len(addresses) > MOST_NODES:
        raise WrongInput(f"{len(addresses)} nodes: one page joins at most {MOST_NODES}")
    if len(set(addresses)) < len(addresses):
        raise WrongInput("an address is given twice")
    nodes = [RemoteNode(address) for address in addresses]
    for node in nodes:
        await asyncio.to_thread(node.connect)
    return await _show(JoinedNodesSource(nodes), options)


async def _watch_run(folder: Path, options: dict[str, Any]) -> int | None:
    """Show a run until a signal, which is returned, or until the run ends."""
    from hearsay.watch.sources.run_folder import RunFolderSource

    _require_no_simulation(options, f"{folder} is a folder of a run")
    return await _show(RunFolderSource(folder, options["pace"], paused=options["paused"]), options)


async def _show(source: JoinedNodesSource | RunFolderSource, options: dict[str, Any]) -> int | None:
    """Show a source until a signal, which is returned, or until the source ends."""
    from hearsay.watch.broadcast import Broadcast
    from hearsay.watch.server import WatchServer

    broadcast = Broadcast(source.picture, source.about(), asyncio.get_running_loop())
    until_complete = options["until_complete"]
    return await _served_while(
        WatchServer(broadcast), options, lambda: source.run(broadcast, until_complete=until_complete), source.close
    )


async def _watch_simulation(file: Path | str | None, options: dict[str, Any]) -> int | None:
    """Simulate and show the run until a signal, which is returned, or until the run ends."""
    from hearsay.sim.plan.engines import CapacityExceeded
    from hearsay.trace.folder.durable import write_durably
    from hearsay.watch.broadcast import Broadcast
    from hearsay.watch.picture.links import DrawnNodes
    from hearsay.watch.picture.picture import Picture
    from hearsay.watch.server import WatchServer
    from hearsay.watch.sources.simulation import SimulatedSource

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


async def _served_while(
    server: WatchServer, options: dict[str, Any], run: Callable[[], None], close: Callable[[], None]
) -> int | None:
    """Serve the page while `run` runs on a thread, until it returns, or until a signal, which is returned.

    At a signal, `close` makes `run` return.
    """
    from hearsay.cli.watching import served

    with first_signal_of_loop() as signalled:
        async with served(server, "--at", options["address"]):
            click.echo(f"watch: {server.url}")
            if options["opens"]:
                await asyncio.to_thread(webbrowser.open, server.url)
            running = asyncio.ensure_future(asyncio.to_thread(run))
            await asyncio.wait({running, signalled}, return_when=asyncio.FIRST_COMPLETED)
            if signalled.done() and server.broadcast.awaited is not None:
                exit_at_once(signalled.result())  # nothing has to be closed yet, and the compiler cannot be stopped
            close()
            await running
    return signalled.result() if signalled.done() else None


def _simulation(
    scenario: Scenario, options: dict[str, Any], watcher: Callable[..., None]
) -> tuple[Simulation, str | None]:
    """Return the simulation, and a message if its functions must be compiled before it begins."""
    from hearsay.sim.plan.engines import CapacityExceeded, array_entry, choose_engine, estimate
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.write.run_folder import RunFolder

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
