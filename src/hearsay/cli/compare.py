"""`hearsay compare`: two scenarios on the same seeds: better, worse, or no difference that one could see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.cli.spark_steps import chosen_place
from hearsay.cli.study_session import FOLDER, make_runs, spark_options, tell_failures, tell_missing

if TYPE_CHECKING:
    from hearsay.api.comparisons import Comparison
    from hearsay.studies.comparison import ComparisonRequest
    from hearsay.studies.points import Point
    from hearsay.studies.study_file import Study

LAST_FIRST_SEED = 10**15


@click.command("compare")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--seeds", type=Whole(2, 10_000), default=20, show_default=True, help="Runs of each side.")
@click.option("--first-seed", type=Whole(0, LAST_FIRST_SEED), default=1, metavar="N",
              help="First seed (default 1). Use fresh seeds to confirm a result.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of B.")
@click.option("--both", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of A and B.")
@click.option("--unpaired", is_flag=True, help="Use different seeds for A and B.")
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), default="auto", show_default=True)
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Where runs, tables and the report go, {FOLDER}/compare-A-B without.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the planned runs and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(**options: Any) -> None:
    """Compare scenario A with scenario B, each a file or a preset.

    Without B, compare A with A changed by --set.
    """
    from hearsay.api.comparisons import Comparison
    from hearsay.report.comparison_page import write_comparison_report
    from hearsay.studies.comparison import compare
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.sweep import Sweep

    where = chosen_place(options["master"], options["remote"])
    asked = _asked(options)
    names = asked.names
    study, points = _sides(options, names)
    place: Path = options["out"] or Path(FOLDER) / asked.folder_name
    folder = StudyFolder.look(place) if options["dry_run"] else StudyFolder.open(place)
    sweep = Sweep(study, points, folder)
    if options["dry_run"]:
        click.echo(f"{names[1]} against {names[0]}: {sweep.runs} runs")
        tell_missing(sweep)
        return
    swept = make_runs(sweep, where)
    lines = compare(points, swept.results)
    report = folder.path / "report.html"
    write_comparison_report(lines, asked, points, swept.results, report)
    _tell(Comparison(asked, lines, swept.failures, folder.path), report, options["as_json"])
    tell_failures(swept.failures)
    if swept.failures:
        raise CommandFailed(f"{len(swept.failures)} of {sweep.runs} runs failed and count on neither side")


def _asked(options: dict[str, Any]) -> ComparisonRequest:
    from hearsay.studies.comparison import ComparisonRequest

    return ComparisonRequest(
        options["a"],
        options["b"],
        tuple(options["changes"]),
        tuple(options["both"]),
        options["seeds"],
        options["unpaired"],
        options["engine"],
        options["first_seed"],
    )


def _sides(options: dict[str, Any], names: tuple[str, str]) -> tuple[Study, list[Point]]:
    from hearsay.studies.comparison import side, sides

    if options["b"] is None and not options["changes"] and not options["unpaired"]:
        raise WrongInput("nothing to compare: name a second scenario, or say with --set what is different")
    both = settings_of(options["both"], "--both")
    a = side(options["a"]).with_settings(both)
    b = side(options["b"] or options["a"]).with_settings([*both, *settings_of(options["changes"])])
    same_seeds = not options["unpaired"]
    seeds, first, engine = options["seeds"], options["first_seed"], options["engine"]
    return sides(a, b, names, seeds, same_seeds=same_seeds, engine=engine, first_seed=first)


def _tell(comparison: Comparison, report: Path, as_json: bool) -> None:
    if as_json:
        print_json({**comparison.to_json(), "report": str(report)})
        return
    from hearsay.studies.comparison import by_itself_words, overall_words, unasked_words
    from hearsay.studies.study_text import compared_text
    from hearsay.text.tables import prose

    lines, asked = comparison.figures, comparison.asked
    names = asked.names
    for line in (overall_words(lines, names), "", f"A: {names[0]}", f"B: {names[1]}", *asked.conditions):
        click.echo(prose(line))
    notes = [prose(words) for words in (by_itself_words(lines), unasked_words(lines)) if words]
    click.echo("\n".join(["", compared_text(lines), *notes, ""]))
    click.echo(f"again: {asked.command}\ntables: {report.parent / 'tables'}\nreport: {report}")
