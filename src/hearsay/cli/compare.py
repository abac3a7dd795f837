"""`hearsay compare`: two scenarios on the same seeds: better, worse, or no difference that one could see."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.main import CommandFailed, WrongInput
from hearsay.cli.study_session import chosen_place, make_runs, settings_of, spark_options, tell_failures

if TYPE_CHECKING:
    from hearsay.studies.comparison import Compared
    from hearsay.studies.points import Point
    from hearsay.studies.study_file import Study

FOLDER = "sweeps"


@click.command("compare")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--seeds", type=click.IntRange(2, 10_000), default=20, show_default=True, help="Runs of each side.")
@click.option("--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of B.")
@click.option("--both", multiple=True, metavar="SECTION.KEY=VALUE", help="Change a key of both.")
@click.option("--unpaired", is_flag=True, help="B gets other seeds than A.")
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), default="auto", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help=f"Where runs, tables and the report go, {FOLDER}/compare-A-B without.")  # fmt: skip
@spark_options
@click.option("--json", "as_json", is_flag=True, help="The comparison as JSON on stdout, and nothing else there.")
def command(**options: Any) -> None:
    """Compare scenario A with B, each a file or a preset; without B, A with A changed by --set."""
    from hearsay.report.errors import ReportError
    from hearsay.report.study.comparison_page import write_comparison_report
    from hearsay.studies.comparison import compare
    from hearsay.studies.errors import StudyError, StudyFolderError
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.sweep import Sweep

    where = chosen_place(options)
    names = _names(options)
    try:
        study, points = _sides(options, names)
        folder = StudyFolder.open(options["out"] or _folder(names))
        sweep = Sweep(study, points, folder)
    except StudyError as error:
        raise WrongInput(*error.problems) from None
    except StudyFolderError as error:
        raise CommandFailed(str(error)) from None
    swept = make_runs(sweep, where)
    lines = compare(points, swept.results)
    report = folder.path / "report.html"
    try:
        write_comparison_report(lines, names, points, swept.results, report)
    except ReportError as error:
        raise CommandFailed(str(error)) from None
    _tell(lines, names, options, report)
    tell_failures(swept)
    if swept.failures:
        raise CommandFailed(f"{len(swept.failures)} of {sweep.runs} runs failed and count on neither side")


def _names(options: dict[str, Any]) -> tuple[str, str]:
    a = Path(options["a"]).stem
    b = a if options["b"] is None else Path(options["b"]).stem
    changes = ", ".join(options["changes"])
    return a, f"{b} with {changes}" if changes else b


def _folder(names: tuple[str, str]) -> Path:
    return Path(FOLDER) / re.sub(r"[^\w.=-]+", "-", f"compare-{names[0]}-{names[1]}")[:120]


def _sides(options: dict[str, Any], names: tuple[str, str]) -> tuple[Study, list[Point]]:
    from hearsay.studies.comparison import side, sides

    if options["b"] is None and not options["changes"] and not options["unpaired"]:
        raise WrongInput("nothing to compare: name a second scenario, or say with --set what is different")
    both = settings_of(options["both"], "--both")
    a = side(options["a"]).with_settings(both)
    b = side(options["b"] or options["a"]).with_settings([*both, *settings_of(options["changes"])])
    same_seeds = not options["unpaired"]
    return sides(a, b, names, options["seeds"], same_seeds=same_seeds, engine=options["engine"])


def _tell(lines: list[Compared], names: tuple[str, str], options: dict[str, Any], report: Path) -> None:
    from hearsay.cli.study_text import columns
    from hearsay.studies.comparison_words import interval_words, overall_words, value_words, verdict_words

    if options["as_json"]:
        told = {
            "a": names[0],
            "b": names[1],
            "seeds": options["seeds"],
            "paired": not options["unpaired"],
            "words": overall_words(lines, names),
            "report": str(report),
            "figures": [
                {
                    "figure": line.figure.name,
                    "verdict": str(line.verdict),
                    "words": verdict_words(line),
                    "detectable": line.detectable,
                    **({} if line.difference is None else asdict(line.difference)),
                }
                for line in lines
            ],
        }
        json.dump(told, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    click.echo(f"A: {names[0]}\nB: {names[1]}\n")
    rows = [["", "A", "B", "B − A (95 % interval)", "verdict"]]
    for line in lines:
        difference = line.difference
        values = ("–", "–") if difference is None else (difference.mean_a, difference.mean_b)
        shown = [value if isinstance(value, str) else value_words(line, value) for value in values]
        rows.append([line.figure.title, *shown, interval_words(line), verdict_words(line)])
    click.echo(columns(rows, left=(0, 4)))
    click.echo(f"\n{overall_words(lines, names)}")
    click.echo(f"tables: {report.parent / 'tables'}\nreport: {report}")
