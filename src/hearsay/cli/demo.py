"""`hearsay demo`: the main job in small. Simulate the routers on one network, analyse on Spark, write the report."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from hearsay.cli.main import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub", "episub")
WARMUP_S = {"episub": 30}
"""Episub makes its connections itself, and its overlay is given time for that; the others are handed theirs."""


@click.command("demo")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=300, show_default=True)
@click.option("--messages", type=click.IntRange(0, 1000), default=20, show_default=True)
@click.option("--loss", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of what is lost.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo-run"), show_default=True)
def command(nodes: int, messages: int, loss: float, seed: int, out: Path) -> None:
    """Simulate the routers on one network, analyse the traces on embedded Spark, write and name the report."""
    from hearsay.cli.analyze import analyzed, load_readable
    from hearsay.cli.answers_text import answers_text
    from hearsay.cli.spark_steps import spark_steps
    from hearsay.pipeline.session import Where
    from hearsay.report.write import write_report

    started = monotonic()
    click.echo(f"{nodes} nodes, 10 dials each, {messages} messages, {loss:.0%} of the messages and gossip lost")
    folders = _simulate(nodes, messages, loss, seed, out)
    simulated = monotonic()
    runs, problems = load_readable(tuple(folders), None)
    if problems:
        raise CommandFailed(problems[0])
    with spark_steps(Where(), sum(run.rows for run in runs)) as work:
        lines = analyzed(work, runs, {run.name: run.path for run in runs})
    analysed = monotonic()
    page = out / "report.html"
    write_report(folders, page)
    click.echo(answers_text(lines))
    click.echo(
        f"\nsimulated in {simulated - started:.0f} s, analysed on Spark in {analysed - simulated:.0f} s, "
        f"{monotonic() - started:.0f} s in all\nreport: {page.resolve()}"
    )


def _simulate(nodes: int, messages: int, loss: float, seed: int, out: Path) -> Sequence[Path]:
    from hearsay.cli.progress import simulated_time
    from hearsay.sim.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.errors import RunFolderError
    from hearsay.trace.run_folder import RunFolder

    folders: list[Path] = []
    for router in ROUTERS:
        overrides = [
            ("seed", str(seed)),
            ("network.nodes", str(nodes)),
            ("workload.messages", str(messages)),
            ("loss.rate", str(loss)),
        ]
        if router in WARMUP_S:
            overrides.append(("warmup_s", str(WARMUP_S[router])))
        try:
            folder = RunFolder.create(out / router, overwrite=True)
        except RunFolderError as error:
            raise CommandFailed(f"{error}") from None
        simulation = Simulation(load_scenario(None, "r1", overrides, router=router), folder=folder)
        with simulated_time(simulation) as progress:
            simulation.run(progress)
        folders.append(folder.path)
    return folders
