"""`hearsay schema`: print the JSON Schemas of scenarios, studies, budgets and tunings, for editors."""

from __future__ import annotations

import click

from hearsay.cli.ending import print_json


@click.command("schema")
@click.argument("what", type=click.Choice(["scenario", "study", "budget", "tune"]))
def command(what: str) -> None:
    """Print the JSON Schema of a kind of file, for editors that complete keys and mark mistakes."""
    from hearsay.sim.scenario.scenario_file import scenario_schema
    from hearsay.studies.schemas import budget_schema, study_schema, tune_schema

    schemas = {"scenario": scenario_schema, "study": study_schema, "budget": budget_schema, "tune": tune_schema}
    print_json(schemas[what]())
