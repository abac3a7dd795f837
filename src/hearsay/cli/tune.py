"""`hearsay tune`: search for the parameters with the best value of a metric within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole, settings_of
from hearsay.cli.ending import CommandFailed, print_json
from hearsay.cli.spark import spark_options
from hearsay.cli.sweep import (
    FOLDER,
    command_given,
    print_damaged_files,
    print_failures,
    progress_of,
    say,
    spark_start,
)

if TYPE_CHECKING:
    from hearsay.pipeline.spark.settings import Where
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.tuning.space import Space
    from hearsay.studies.tuning.tune import Answer, Tuned
    from hearsay.studies.tuning.tune_file import Tuning


@click.command("tune")
@click.argument("what", metavar="TUNE.toml|SCENARIO")
@click.option("--vary", multiple=True, metavar="SECTION.KEY=VALUES",
              help="Search values of a key: [1, 2], 4..12 or 0..1..0.1 (step 0.1); can be repeated.")  # fmt: skip
@click.option("--aim", metavar="METRIC",
              help="With --vary: the metric to optimise, such as latency_p99_ms (minimised) or delivery_ratio "
              "(maximised).")  # fmt: skip
@click.option("--bound", "bounds", multiple=True, metavar="METRIC<=NUMBER",
              help="With --vary: a bound on the mean over all seeds, such as copies_per_delivery<=6. Every seed must "
              "keep 'delivery_ratio>=0.99 worst'. Can be repeated.")  # fmt: skip
@click.option("--condition", metavar="SECTION.KEY=VALUES",
              help="With --vary: a key that you cannot choose, such as loss; each value gets an answer.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the base scenario; can be repeated.")  # fmt: skip
@click.option("--seeds", type=Whole(2, 100_000), metavar="N",
              help="Maximum seeds of a combination. A combination that loses early gets fewer.")  # fmt: skip
@click.option("--fresh-seeds", type=Whole(2, 10_000), metavar="N",
              help="Number of new seeds for the comparison of base and best combination at the end.")  # fmt: skip
@click.option("--final-seeds", type=Whole(2, 1_000_000), metavar="N",
              help="Maximum seeds of the best combinations while they do not differ significantly [default: four "
              "times --seeds].")  # fmt: skip
@click.option("--runs", type=Whole(10, 1_000_000), metavar="N", help="Maximum runs of the search, in each condition.")
@click.option("--search-seed", type=Whole(0, (1 << 32) - 1), metavar="N", help="Random seed of the search.")
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), help="Replace the engine of the file.")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"Folder of runs, tables and the report (default: {FOLDER}/tune-NAME).")  # fmt: skip
@click.option("--retry", is_flag=True, help="Repeat failed runs.")
@click.option("--dry-run", is_flag=True, help="Print the planned search and exit.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(**options: Any) -> None:
    """Search for the parameters with which a metric is best, while other metrics keep bounds.

    The argument is a tune file or, with --vary and --aim, a scenario or preset. Finished runs are not repeated.
    """
    from hearsay.studies.results import StudyFolder
    from hearsay.studies.tuning.space import spaces
    from hearsay.user_errors import require_extra

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
    """Return the tuning that the options declare, and the text of its tune file."""
    from hearsay.studies.tuning.tune_file import asked_tuning

    changes = {key: options[key] for key in _CHANGES if options[key] is not None}
    vary, settings = settings_of(options["vary"], "--vary"), settings_of(options["settings"])
    conditions = [] if options["condition"] is None else settings_of([options["condition"]], "--condition")
    return asked_tuning(options["what"], vary, options["aim"], options["bounds"], conditions, changes, settings)


_CHANGES = ("seeds", "fresh_seeds", "final_seeds", "runs", "search_seed", "engine")
"""The options that replace keys of the tune file."""


def _run(found: Sequence[Space], folder: StudyFolder, where: Where, *, again: bool) -> Tuned:
    from hearsay.studies.processes import choose_pack_maker
    from hearsay.studies.tuning.tune import Tune, most_runs

    open_maker = choose_pack_maker(found[0].tuning.study, where, say)
    before = len(folder.results())
    if before:
        say(f"{before} runs are there already")
    with progress_of(most_runs(found), lambda: f"{len(folder.results())} runs", folder.path) as listen:
        return Tune(found, folder, open_maker, listen, again=again).run()


def _print_plan(tuning: Tuning, found: Sequence[Space], where: Where) -> None:
    from hearsay.studies.tuning.tune import most_runs

    axes = " × ".join(f"{len(axis.steps)} {axis.name}" for axis in tuning.axes)
    listed = found[0].listed
    fitting = "" if listed is None else f", {len(listed):,} of them scenarios"
    click.echo(f"{tuning.title}: {axes}: {tuning.combinations:,} combinations{fitting}")
    runs = most_runs(found)
    conditions = f" in {len(found)} conditions" if len(found) > 1 else ""
    seconds = [point.estimated_s for space in found for point in (space.start, *space.examples)]
    each = sum(seconds) / len(seconds)
    click.echo(f"at most {runs:,} runs{conditions}, about {each * runs:.0f} s of one core{spark_start(where)}")


def _finish(tuned: Tuned, folder: StudyFolder, options: dict[str, Any]) -> None:
    from hearsay.number_text import plain
    from hearsay.report.tune_page import write_tune_report
    from hearsay.studies.tuning.output import none_words, tuned_json, write_answers
    from hearsay.studies.tuning.tune import answer_of

    answers = [answer_of(found) for found in tuned.searches]
    report = folder.path / "report.html"
    write_answers(folder, tuned.tuning, answers)
    write_tune_report(tuned, answers, report, folder.path / "pictures", _commands(options, answers, folder.path))
    if options["as_json"]:
        print_json({**tuned_json(tuned, answers, folder.path), "report": str(report)})
    else:
        _print_result(tuned, answers, folder.path, report)
    print_failures(tuned.failures)
    missing = [plain(none_words(answer.searched)) for answer in answers if answer.best is None]
    if missing:
        raise CommandFailed("\nhearsay: ".join(missing))


def _commands(options: dict[str, Any], answers: Sequence[Answer], folder: Path) -> dict[str, str]:
    """Return the commands that the report shows at its end, by purpose."""
    from hearsay.studies.settings import command_of
    from hearsay.studies.tuning.output import BUDGETS

    again = command_given("tune", options["what"], options, ("aim", "condition", *_CHANGES))
    commands = {"The whole search again": again}
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        label = f", {answer.searched.label}" if answer.searched.label else ""
        commands[f"Base and best on fresh seeds{label}"] = answer.compare_command(folder)
    if found:
        commands["Whether the best stays within its bounds"] = command_of(["check", folder / BUDGETS])
    return commands


def _print_result(tuned: Tuned, answers: Sequence[Answer], folder: Path, report: Path) -> None:
    from hearsay.studies.settings import command_of
    from hearsay.studies.tuning.output import BUDGETS, answers_text
    from hearsay.text import prose

    click.echo(f"{answers_text(tuned.tuning, answers, prose)}\n")
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        click.echo(f"confirm: {answer.compare_command(folder)}")
    if found:
        click.echo(f"check: {command_of(['check', folder / BUDGETS])}")
    click.echo(f"tables: {folder / 'tables'}\nreport: {report}")
