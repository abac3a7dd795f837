"""`hearsay check`: run the cases of a budget file, and exit with 1 if a budget is broken, for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hearsay.cli.arguments import GivenPath
from hearsay.cli.ending import CommandFailed, print_json
from hearsay.cli.spark import spark_options
from hearsay.cli.sweep import FOLDER, make_runs, print_failures, print_plan


@click.command("check")
@click.argument("budget", type=GivenPath(path_type=Path))
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of runs and tables (default: {FOLDER}/check-BUDGET).")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the planned runs and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Run the cases of the file BUDGET; exit 1 if a metric is outside its bounds or a run fails."""
    from hearsay.number_text import plain
    from hearsay.studies.budgets import judged_words, judgements, load_budgets
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.runner import Sweep
    from hearsay.text import prose

    path: Path = options["budget"]
    study, points, cases = load_budgets(path)
    place: Path = options["out"] or Path(FOLDER) / f"check-{path.stem}"
    folder = StudyFolder.open_for_reading(place) if options["dry_run"] else StudyFolder.open(place)
    sweep = Sweep(study, points, folder, again=True)
    if options["dry_run"]:
        print_plan(sweep, options["where"])
        return
    swept = make_runs(sweep, options["where"])
    found = judgements(cases, points, swept.results)
    if options["as_json"]:
        answer = [
            {
                "case": each.budget.case,
                "figure": each.budget.figure.name,
                "held": each.held,
                "value": each.value,
                "at_least": each.budget.at_least,
                "at_most": each.budget.at_most,
                "excess": each.excess,
                "words": plain(judged_words(each)),
            }
            for each in found
        ]
        print_json(answer)
    else:
        for each in found:
            click.echo(prose(judged_words(each)))
    print_failures(swept.failures)
    broken = [plain(judged_words(each)) for each in found if not each.held]
    if broken:
        summary = f"{len(broken)} of {len(found)} budgets are broken"
        raise CommandFailed("\n".join([summary, *broken]) if options["as_json"] else summary)
