"""`hearsay demo`: simulate five routers on one network, analyse the traces on Spark, and write a report."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from hearsay.cli.arguments import GivenPath, Real, Whole
from hearsay.cli.ending import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence


REPORT = "report.html"
ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub", "episub")
WARMUP_S = 30
"""Episub needs this time to connect its nodes. All runs have this time, so that they differ only in the router."""
STATE_INTERVAL_S = 1
"""Runs of the demo are small, so they can record the size of states more often than the default."""


@click.command("demo")
@click.option("--nodes", type=Whole(1, 10_000), default=300, show_default=True, help="Number of nodes.")
@click.option("--messages", type=Whole(0, 1000), default=20, show_default=True, help="Number of messages.")
@click.option("--loss", type=Real(0, 1), default=0.05, show_default=True, help="Share of messages and gossip lost.")
@click.option("--seed", type=Whole(0), default=1, show_default=True, help="Random seed.")
@click.option("--out", type=GivenPath(path_type=Path), default=Path("demo-run"), show_default=True,
              help="Folder of the runs and the report.")  # fmt: skip
def command(nodes: int, messages: int, loss: float, seed: int, out: Path) -> None:
    """Simulate five routers on one network, analyse the traces on embedded Spark, write a report and print
    its path.
    """
    from hearsay.cli.analyze import analyzed_on_spark, answers_text, load_readable
    from hearsay.cli.spark import require_spark_at
    from hearsay.pipeline.output.folders import Folder, claimed_outputs
    from hearsay.pipeline.spark.settings import Where
    from hearsay.report.html import require_report_or_nothing
    from hearsay.report.run_page import write_report
    from hearsay.trace.folder.own_folders import Holds, claim

    require_spark_at(Where())
    started = monotonic()
    page = out / REPORT
    own = claim(out, Holds.DEMO)
    require_report_or_nothing(page)
    click.echo(f"{nodes} nodes, 10 dials each, {messages} messages, {loss:.0%} of the messages and gossip lost")
    folders = _simulate(nodes, messages, loss, seed, out)
    simulated = monotonic()
    runs, problems = load_readable([Folder(folder) for folder in folders], None)
    if problems:
        raise CommandFailed(problems[0])
    outputs = {run.name: folder for folder, run in runs.items()}
    with claimed_outputs({run.name: run.path for run in runs.values()}, outputs):
        lines = analyzed_on_spark(Where(), [*runs.values()], outputs)
    analysed = monotonic()
    write_report(folders, page)
    own.release()
    click.echo(answers_text(lines))
    click.echo(
        f"\nsimulated in {simulated - started:.0f} s, analysed on Spark in {analysed - simulated:.0f} s, "
        f"{monotonic() - started:.0f} s in all\nreport: {page.resolve()}"
    )


def _simulate(nodes: int, messages: int, loss: float, seed: int, out: Path) -> Sequence[Path]:
    from hearsay.cli.progress import simulated_time
    from hearsay.sim.scenario.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation
    from hearsay.trace.folder.run_folder import RunFolder

    folders: list[Path] = []
    for router in ROUTERS:
        overrides = [
            ("seed", str(seed)),
            ("network.nodes", str(nodes)),
            ("workload.messages", str(messages)),
            ("loss.rate", str(loss)),
            ("trace.state_interval_s", str(STATE_INTERVAL_S)),
            ("warmup_s", str(WARMUP_S)),
        ]
        folder = RunFolder.create(out / router, overwrite=True)
        simulation = Simulation(load_scenario(None, "r1", overrides, router=router), folder=folder)
        with simulated_time(simulation) as progress:
            simulation.run(progress)
        folders.append(folder.path)
    return folders
