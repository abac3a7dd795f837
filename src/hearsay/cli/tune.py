"""`hearsay tune`: search for the parameters that do best within bounds, with paired seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, print_json
from hearsay.cli.spark_steps import spark_options
from hearsay.cli.study_session import (
    FOLDER,
    command_given,
    naming_what_is_kept,
    print_damaged_files,
    print_failures,
    progress_of,
    say,
)

if TYPE_CHECKING:
    from hearsay.pipeline.spark.place import Where
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.tuning.answer import Answer
    from hearsay.studies.tuning.space import Space
    from hearsay.studies.tuning.tune import Tuned
    from hearsay.studies.tuning.tune_file import Tuning


@click.command("tune")
@click.argument("what", metavar="TUNE.toml|SCENARIO")
@click.option("--vary", multiple=True, metavar="SECTION.KEY=VALUES",
              help="An axis to search, [1, 2] or 4..12 or 0..1..0.1, of a scenario or preset.")  # fmt: skip
@click.option("--aim", metavar="FIGURE", help="With --vary: the metric to optimise.")
@click.option("--bound", "bounds", multiple=True, metavar="FIGURE<=NUMBER",
              help="With --vary: limit of a metric; also >=, and “<=NUMBER worst”.")  # fmt: skip
@click.option("--condition", metavar="SECTION.KEY=VALUES",
              help="With --vary: a condition that you cannot choose; one answer for each value.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the base scenario.")  # fmt: skip
@click.option("--seeds", type=Whole(2, 100_000), metavar="N", help="Maximum seeds of a combination: 1…N.")
@click.option("--fresh-seeds", type=Whole(2, 10_000), metavar="N", help="Seeds that measure the best combination.")
@click.option("--final-seeds", type=Whole(2, 1_000_000), metavar="N",
              help="Maximum seeds for the final candidates.")  # fmt: skip
@click.option("--runs", type=Whole(10, 1_000_000), metavar="N", help="Maximum runs of the search, in each condition.")
@click.option("--search-seed", type=Whole(0, (1 << 32) - 1), metavar="N", help="Random seed of the search.")
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), help="Overrides the file's engine.")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of the search (default: {FOLDER}/tune-NAME). Its finished runs are kept.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Repeat failed runs.")
@click.option("--dry-run", is_flag=True, help="Print the planned search and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Search for the best parameters within limits; existing runs are kept."""
    from hearsay.extras import require_extra
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.tuning.space import spaces

    require_extra("tune")
    tuning, text = _asked(options)
    found = spaces(tuning)
    if options["dry_run"]:
        _print_plan(tuning, found, options["where"])
        return
    folder = StudyFolder.open(options["out"] or Path(FOLDER) / f"tune-{tuning.name}")
    folder.write_text("tune.toml", text)
    print_damaged_files(folder)
    tuned = _run(found, folder, options["where"], again=options["retry"])
    _finish(tuned, folder, options)


def _asked(options: dict[str, Any]) -> tuple[Tuning, str]:
    """Return the tuning that the options ask for, and the text of its tune file."""
    from hearsay.studies.tuning.tune_file import asked_tuning

    changes = {key: options[key] for key in _CHANGES if options[key] is not None}
    vary, settings = settings_of(options["vary"], "--vary"), settings_of(options["settings"])
    conditions = [] if options["condition"] is None else settings_of([options["condition"]], "--condition")
    return asked_tuning(options["what"], vary, options["aim"], options["bounds"], conditions, changes, settings)


_CHANGES = ("seeds", "fresh_seeds", "final_seeds", "runs", "search_seed", "engine")
"""Options that replace keys of the file."""


def _run(found: Sequence[Space], folder: StudyFolder, where: Where, *, again: bool) -> Tuned:
    from hearsay.studies.processes import choose_pack_maker
    from hearsay.studies.tuning.tune import Tune, most_runs

    open_maker = choose_pack_maker(found[0].tuning.study, where, say)
    before = len(folder.results())
    if before:
        say(f"{before} runs are there already")
    with (
        naming_what_is_kept(lambda: f"{len(folder.results())} runs", folder.path),
        progress_of(most_runs(found)) as listen,
    ):
        return Tune(found, folder, open_maker, listen, again=again).run()


def _print_plan(tuning: Tuning, found: Sequence[Space], where: Where) -> None:
    from hearsay.studies.processes import is_on_spark
    from hearsay.studies.tuning.tune import most_runs

    axes = " × ".join(f"{len(axis.steps)} {axis.name}" for axis in tuning.axes)
    listed = found[0].listed
    fitting = "" if listed is None else f", {len(listed):,} of them scenarios"
    click.echo(f"{tuning.title}: {axes}: {tuning.combinations:,} combinations{fitting}")
    runs = most_runs(found)
    conditions = f" in {len(found)} conditions" if len(found) > 1 else ""
    seconds = [point.estimated_s for space in found for point in (space.start, *space.examples)]
    each = sum(seconds) / len(seconds)
    start = ", plus the start of Spark" if is_on_spark(where) else ""
    click.echo(f"at most {runs:,} runs{conditions}, about {each * runs:.0f} s of one core{start}")


def _finish(tuned: Tuned, folder: StudyFolder, options: dict[str, Any]) -> None:
    from hearsay.report.tune_page import write_tune_report
    from hearsay.studies.tuning.answer import answer_of
    from hearsay.studies.tuning.answer_files import tuned_json, write_answers
    from hearsay.studies.tuning.tune_text import none_words
    from hearsay.text.numbers import plain

    answers = [answer_of(found) for found in tuned.searches]
    report = folder.path / "report.html"
    write_answers(folder, tuned.tuning, answers)
    write_tune_report(tuned, answers, report, folder.path / "pictures", _commands(options, answers, folder.path))
    if options["as_json"]:
        print_json({**tuned_json(tuned, answers, folder.path), "report": str(report)})
    else:
        _tell(tuned, answers, folder.path, report)
    print_failures(tuned.failures)
    missing = [plain(none_words(answer.searched)) for answer in answers if answer.best is None]
    if missing:
        raise CommandFailed("\nhearsay: ".join(missing))


def _commands(options: dict[str, Any], answers: Sequence[Answer], folder: Path) -> dict[str, str]:
    """Return the commands at the end of a report, by their purpose."""
    from hearsay.studies.settings import command_of
    from hearsay.studies.tuning.answer_files import BUDGETS

    again = command_given("tune", options["what"], options, ("aim", "condition", *_CHANGES))
    commands = {"The whole search again": again}
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        label = f", {answer.searched.label}" if answer.searched.label else ""
        commands[f"Base and best on fresh seeds{label}"] = answer.compare_command(folder)
    if found:
        commands["Whether the best stays within its bounds"] = command_of(["check", folder / BUDGETS])
    return commands


def _tell(tuned: Tuned, answers: Sequence[Answer], folder: Path, report: Path) -> None:
    from hearsay.studies.settings import command_of
    from hearsay.studies.tuning.answer_files import BUDGETS
    from hearsay.studies.tuning.tune_text import answers_text
    from hearsay.text.tables import prose

    click.echo(f"{answers_text(tuned.tuning, answers, prose)}\n")
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        click.echo(f"confirm: {answer.compare_command(folder)}")
    if found:
        click.echo(f"check: {command_of(['check', folder / BUDGETS])}")
    click.echo(f"tables: {folder / 'tables'}\nreport: {report}")
