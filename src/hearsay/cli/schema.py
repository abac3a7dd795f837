"""`hearsay schema`: what editors need to know of scenario files."""

from __future__ import annotations

import json
import sys

import click


@click.command("schema")
@click.argument("what", type=click.Choice(["scenario"]))
def command(what: str) -> None:
    """Print the JSON Schema of a kind of file, for editors that complete keys and mark mistakes."""
    from hearsay.sim.scenario.schema import scenario_schema

    json.dump(scenario_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
