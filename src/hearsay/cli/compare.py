"""`hearsay compare`: run two scenarios A and B with several seeds, and test if B is better or worse than A."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, print_json
from hearsay.cli.spark import spark_options
from hearsay.cli.sweep import FOLDER, make_runs, print_failures, print_missing_runs
from hearsay.studies import LAST_FIRST_SEED


@click.command("compare")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--seeds", type=Whole(2, 10_000), default=20, show_default=True, help="Number of seeds per side.")
@click.option("--first-seed", type=Whole(0, LAST_FIRST_SEED), default=1, metavar="N",
              help="First seed (default 1). To confirm a result, give a seed above all that were used.")  # fmt: skip
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of B; can be repeated."
)
@click.option("--both", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of A and B; can be repeated.")
@click.option("--factorial", is_flag=True, help="Also run every combination of the 2 or 3 changed settings.")
@click.option("--unpaired", is_flag=True, help="Use different seeds for A and B.")
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), default="auto", show_default=True,
              help="auto selects the faster engine.")  # fmt: skip
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of runs, tables and the report (default: {FOLDER}/compare-A-B).")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the planned runs and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(**options: Any) -> None:
    """Compare scenario A with scenario B. Each is a file or a preset.

    Without B, compare A with A changed by --set.
    """
    from hearsay.api.studies import Comparison
    from hearsay.report.comparison_page import write_comparison_report
    from hearsay.studies.comparison import ComparisonRequest, compare
    from hearsay.studies.factorial import effects, planned
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.runner import Sweep
    from hearsay.studies.study_text import comparison_text
    from hearsay.text import prose

    changes, both = (
        tuple(f"{key}={value}" for key, value in settings_of(options[name], option))
        for name, option in (("changes", "--set"), ("both", "--both"))
    )
    rest = {name: options[name] for name in ("seeds", "unpaired", "engine", "first_seed", "factorial")}
    asked = ComparisonRequest(options["a"], options["b"], changes, both, **rest)
    plan = planned(asked)
    place: Path = options["out"] or Path(FOLDER) / asked.folder_name
    folder = StudyFolder.open_for_reading(place) if options["dry_run"] else StudyFolder.open(place)
    sweep = Sweep(plan.study, plan.points, folder)
    if options["dry_run"]:
        click.echo(f"{asked.names[1]} against {asked.names[0]}: {sweep.runs} runs")
        print_missing_runs(sweep, options["where"])
        return
    swept = make_runs(sweep, options["where"])
    lines = compare(plan.points, swept.results)
    found = effects(plan.points, swept.results, lines) if asked.factorial else []
    report = folder.path / "report.html"
    write_comparison_report(lines, asked, plan.points, swept.results, report, plan.changed, found)
    comparison = Comparison(asked, lines, swept.failures, folder.path, plan.changed, found)
    if options["as_json"]:
        print_json({**comparison.to_json(), "report": str(report)})
    else:
        click.echo(comparison_text(asked, lines, plan.changed, found, prose))
        click.echo(f"\nagain: {asked.command}\ntables: {report.parent / 'tables'}\nreport: {report}")
    print_failures(swept.failures)
    if swept.failures:
        raise CommandFailed(f"{len(swept.failures)} of {sweep.runs} runs failed; the comparison leaves them out")
