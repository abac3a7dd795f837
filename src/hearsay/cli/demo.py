"""`hearsay demo`: the routers on one network with the same messages, without and with loss, as a table."""

from __future__ import annotations

import click

ROUTERS = ("floodsub", "randomsub", "meshsub", "gossipsub")


@click.command("demo")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=300, show_default=True)
@click.option("--messages", type=click.IntRange(0, 1000), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def command(nodes: int, messages: int, seed: int) -> None:
    """Simulate the routers on one network and compare them."""
    from hearsay.cli.progress import simulated_time
    from hearsay.sim.comparison import Compared, line_of, markdown
    from hearsay.sim.scenario_file import load_scenario
    from hearsay.sim.simulate import Simulation

    for loss in (0, 0.05):
        click.echo(
            f"\n{nodes} nodes, 10 dials each, {messages} messages, {loss:.0%} of the messages and gossip lost:\n"
        )
        lines: list[Compared] = []
        for router in ROUTERS:
            overrides = [
                ("seed", str(seed)),
                ("network.nodes", str(nodes)),
                ("workload.messages", str(messages)),
                ("loss.rate", str(loss)),
            ]
            simulation = Simulation(load_scenario(None, "r1", overrides, router=router))
            with simulated_time(simulation) as progress:
                lines.append(line_of(simulation.run(progress).summary))
        click.echo(markdown(lines))
    click.echo(
        "\ncopies per delivery: how often a message arrives for each time it is new; 1 is the least possible."
        "\nSee README.md for what the figures mean, `hearsay simulate --help` for scenarios of your own."
    )
