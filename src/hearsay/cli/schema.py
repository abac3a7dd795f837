"""`hearsay schema`: print the JSON Schemas of scenarios, studies, budgets and tunings, for editors."""

from __future__ import annotations

import click

from hearsay.cli.ending import print_json


@click.command("schema")
@click.argument("what", type=click.Choice(["scenario", "study", "budget", "tune"]))
def command(what: str) -> None:
    """Print the JSON Schema of a kind of file, for editors that complete keys and mark mistakes."""
    from hearsay.sim.scenario.scenario_file import scenario_schema
    from hearsay.studies.budgets import BudgetFile
    from hearsay.studies.study_file import StudyFile, file_schema
    from hearsay.studies.tuning.tune_file import TuneFile

    models = {"study": StudyFile, "budget": BudgetFile, "tune": TuneFile}
    print_json(file_schema(models[what]) if what in models else scenario_schema())
