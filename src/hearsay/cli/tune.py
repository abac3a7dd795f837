"""`hearsay tune`: the parameters that do best under bounds, searched with paired seeds."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.given_paths import GivenPath
from hearsay.cli.numbers import Whole
from hearsay.cli.spark_steps import chosen_place, require_spark_at
from hearsay.cli.study_session import (
    progress_of,
    require_cores,
    say,
    settings_of,
    spark_options,
    tell_failures,
)

if TYPE_CHECKING:
    from hearsay.pipeline.spark.session import Where
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.packs import PackMaker
    from hearsay.studies.tuning.answer import Answer
    from hearsay.studies.tuning.search import Searched, Tried
    from hearsay.studies.tuning.space import Space
    from hearsay.studies.tuning.tune import Tuned
    from hearsay.studies.tuning.tune_file import Tuning

FOLDER = "sweeps"


@click.command("tune")
@click.argument("what", metavar="TUNE.toml|SCENARIO")
@click.option("--vary", multiple=True, metavar="SECTION.KEY=VALUES",
              help="An axis to search, [1, 2] or 4..12 or 0..1..0.1, of a scenario or preset.")  # fmt: skip
@click.option("--aim", metavar="FIGURE", help="With --vary: the figure that is to be best.")
@click.option("--bound", "bounds", multiple=True, metavar="FIGURE<=NUMBER",
              help="With --vary: what a figure must keep to; also >=, and “<=NUMBER worst”.")  # fmt: skip
@click.option("--condition", metavar="SECTION.KEY=VALUES",
              help="With --vary: what one has to live with; an answer for each value.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the base scenario.")  # fmt: skip
@click.option("--seeds", type=Whole(2, 100_000), metavar="N", help="Seeds 1…N of a point at most.")
@click.option("--fresh-seeds", type=Whole(2, 10_000), metavar="N", help="Seeds that measure the best.")
@click.option("--runs", type=Whole(10, 1_000_000), metavar="N", help="Runs of the search at most, in each condition.")
@click.option(
    "--search-seed", type=Whole(0, (1 << 32) - 1), metavar="N", help="Another way through the combinations."
)
@click.option("--engine", type=click.Choice(["auto", "reference", "array"]), help="Instead of the file's.")
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR",
              help=f"The folder, {FOLDER}/tune-NAME without; what it holds is not run again.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Make the runs again that failed.")
@click.option("--dry-run", is_flag=True, help="Say what would be searched, and run nothing.")
@spark_options
@click.option("--json", "as_json", is_flag=True, help="What came of it as JSON on stdout, and nothing else there.")
def command(**options: Any) -> None:
    """Find the parameters that do best under bounds; go on from what is there."""
    from hearsay.extras import require_extra
    from hearsay.studies.errors import StudyError, StudyFolderError
    from hearsay.studies.folder import StudyFolder
    from hearsay.studies.tuning.space import spaces

    require_extra("tune")
    where = chosen_place(options["master"], options["remote"])
    try:
        tuning, text = _asked(options)
        found = spaces(tuning)
        if options["dry_run"]:
            _tell_plan(tuning, found, where)
            return
        folder = StudyFolder.open(options["out"] or Path(FOLDER) / f"tune-{tuning.name}")
        folder.write_text("tune.toml", text)
        for file in folder.damaged:
            click.echo(f"hearsay: {file}: cannot be read; its runs are made again", err=True)
    except StudyError as error:
        raise WrongInput(*error.problems) from None
    except StudyFolderError as error:
        raise CommandFailed(str(error)) from None
    tuned = _run(found, folder, where, again=options["retry"])
    _finish(tuned, folder, options)


def _asked(options: dict[str, Any]) -> tuple[Tuning, str]:
    """What is tuned, and the file that says it."""
    from hearsay.studies.tuning.tune_file import load_tuning

    if options["vary"]:
        tuning, text = _declared(options)
    else:
        for option, given in (("--aim", "aim"), ("--bound", "bounds"), ("--condition", "condition")):
            if options[given]:
                raise WrongInput(f"{option} needs --vary: a file says by itself what is searched")
        path = Path(options["what"])
        _require_tuning(path)
        tuning = load_tuning(path)
        text = path.read_text(encoding="utf-8")
        tuning = _with_numbers(tuning, options)
    settings = settings_of(options["settings"])
    tuning = replace(tuning, base=tuning.base.with_settings(settings))
    return (replace(tuning, engine=options["engine"]) if options["engine"] is not None else tuning), text


def _require_tuning(path: Path) -> None:
    """A scenario that is given without what is searched is told of."""
    from hearsay.sim.scenario.scenario_file import preset_names

    if str(path) in preset_names() and not path.exists():
        raise WrongInput(f"{path}: is a preset; say what is searched, --vary SECTION.KEY=VALUES and --aim FIGURE")


def _declared(options: dict[str, Any]) -> tuple[Tuning, str]:
    from hashlib import sha256

    import tomli_w

    from hearsay.studies.tuning.declared import declared_document
    from hearsay.studies.tuning.tune_file import declared_tuning

    numbers = {key: options[key] for key in _NUMBERS if options[key] is not None}
    condition = settings_of([options["condition"]], "--condition")[0] if options["condition"] is not None else None
    vary = settings_of(options["vary"], "--vary")
    document = declared_document(options["what"], vary, options["aim"], options["bounds"], condition, numbers)
    text = tomli_w.dumps(document)
    digest = sha256((text + "\n".join(options["settings"])).encode()).hexdigest()[:8]
    return declared_tuning(document, f"{Path(options['what']).stem}-{digest}"), text


_NUMBERS = ("seeds", "fresh_seeds", "runs", "search_seed")


def _with_numbers(tuning: Tuning, options: dict[str, Any]) -> Tuning:
    """With other numbers than the file's."""
    seeds, fresh = options["seeds"], options["fresh_seeds"]
    searched = tuning.seeds if seeds is None else tuple(range(1, seeds + 1))
    tuning = tuning.with_seeds(searched, len(tuning.fresh_seeds) if fresh is None else fresh)
    given = {key: options[key] for key in ("runs", "search_seed") if options[key] is not None}
    return replace(tuning, **given)


def _run(found: Sequence[Space], folder: StudyFolder, where: Where, *, again: bool) -> Tuned:
    from hearsay.pipeline.spark.session import SparkUnavailable
    from hearsay.studies.errors import StudyFolderError
    from hearsay.studies.run_places import is_on_spark, place_of_runs
    from hearsay.studies.tuning.tune import Tune, most_runs

    tuning = found[0].tuning
    require_cores(tuning.study, where)
    before = len(folder.results())
    if before:
        say(f"{before} runs are there already")
    open_place = place_of_runs(where, tuning.cores_per_task, say)

    def place(modules: Sequence[Path]) -> AbstractContextManager[PackMaker]:
        if is_on_spark(where):
            require_spark_at(where)
        return open_place(modules)

    try:
        with progress_of(most_runs(tuning) * len(found)) as listen:
            return Tune(found, folder, place, listen, again=again).run()
    except StudyFolderError as error:
        raise CommandFailed(str(error)) from None
    except (SparkUnavailable, CommandFailed) as error:
        raise CommandFailed(f"{error}; {_kept(folder)}") from None
    except KeyboardInterrupt as stopped:
        stopped.add_note(_kept(folder))
        raise


def _kept(folder: StudyFolder) -> str:
    return f"{len(folder.results())} runs are kept in {folder.path}; the same command goes on from there"


def _tell_plan(tuning: Tuning, found: Sequence[Space], where: Where) -> None:
    from hearsay.studies.run_places import is_on_spark
    from hearsay.studies.tuning.tune import most_runs

    axes = " × ".join(f"{len(axis.steps)} {axis.name}" for axis in tuning.axes)
    listed = found[0].listed
    fitting = "" if listed is None else f", {len(listed):,} of them scenarios"
    click.echo(f"{tuning.title}: {axes}: {tuning.combinations:,} combinations{fitting}")
    runs = most_runs(tuning) * len(found)
    conditions = f" in {len(found)} conditions" if len(found) > 1 else ""
    seconds = [point.estimated_s for space in found for point in (space.start, *space.examples)]
    each = sum(seconds) / len(seconds)
    start = ", and what Spark takes to start" if is_on_spark(where) else ""
    click.echo(f"at most {runs:,} runs{conditions}, about {each * runs:.0f} s of one core{start}")


def _finish(tuned: Tuned, folder: StudyFolder, options: dict[str, Any]) -> None:
    from hearsay.report.errors import ReportError
    from hearsay.report.study.tune_page import write_tune_report
    from hearsay.studies.errors import StudyFolderError
    from hearsay.studies.tuning.answer import answer_of
    from hearsay.studies.tuning.answer_files import write_answers
    from hearsay.studies.tuning.tune_text import none_words
    from hearsay.text.numbers import plain

    answers = [answer_of(found) for found in tuned.searches]
    report = folder.path / "report.html"
    try:
        write_answers(folder, tuned.tuning, answers)
        write_tune_report(tuned, answers, report, folder.path / "pictures", _commands(options, answers, folder.path))
    except (StudyFolderError, ReportError) as error:
        raise CommandFailed(str(error)) from None
    if options["as_json"]:
        _tell_json(tuned, answers, folder.path, report)
    else:
        _tell(tuned, answers, folder.path, report)
    tell_failures(tuned.failures)
    missing = [plain(none_words(answer.searched)) for answer in answers if answer.best is None]
    if missing:
        raise CommandFailed("\nhearsay: ".join(missing))


def _commands(options: dict[str, Any], answers: Sequence[Answer], folder: Path) -> dict[str, str]:
    """The commands that a report ends with, by what they do."""
    from hearsay.studies.tuning.answer_files import BUDGETS
    from hearsay.studies.what_ran import command_of

    words: list[object] = ["tune", options["what"]]
    for option in ("vary", "bounds", "settings"):
        for given in options[option]:
            words += [_OPTION.get(option, f"--{option}"), given]
    for option in ("aim", "condition", *_NUMBERS, "engine"):
        if options[option] is not None:
            words += [f"--{option.replace('_', '-')}", options[option]]
    told = {"The whole search again": command_of(words)}
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        label = f", {answer.searched.label}" if answer.searched.label else ""
        told[f"Base and best on seeds that nobody has looked at{label}"] = answer.compare_command(folder)
    if found:
        told["Whether the best stays within its bounds"] = command_of(["check", folder / BUDGETS])
    return told


_OPTION = {"bounds": "--bound", "settings": "--set"}


def _tell(tuned: Tuned, answers: Sequence[Answer], folder: Path, report: Path) -> None:
    from hearsay.studies.comparison_text import by_itself_words
    from hearsay.studies.study_text import compared_text
    from hearsay.studies.tuning.answer_files import BUDGETS
    from hearsay.studies.tuning.tune_text import (
        as_good_words,
        best_words,
        conditions_cells,
        matters_words,
        searched_words,
        start_words,
    )
    from hearsay.studies.what_ran import command_of
    from hearsay.text.text_table import prose, table_text

    tuning = tuned.tuning
    for answer in answers:
        label = f"{tuning.conditions.name} {answer.searched.label}: " if tuning.conditions else ""
        click.echo(prose(f"{label}{searched_words(answer.searched)}"))
        if answer.best is not None:
            click.echo(prose(f"best: {best_words(answer)}"))
        for words in (as_good_words(answer), matters_words(answer)):
            if words:
                click.echo(prose(words))
        if answer.best is not None:
            click.echo(
                prose(f"\non {len(tuning.fresh_seeds)} seeds that the search has not seen; A: as it is, B: best")
            )
            click.echo(compared_text(answer.lines))
            for words in (by_itself_words(answer.lines), start_words(answer)):
                if words:
                    click.echo(prose(words))
        click.echo("")
    if tuning.conditions is not None:
        head, rows = conditions_cells(tuning, answers)
        click.echo(f"{table_text(head, rows, left=1 + len(tuning.axes))}\n")
    found = [answer for answer in answers if answer.best is not None]
    for answer in found:
        click.echo(f"confirm: {answer.compare_command(folder)}")
    if found:
        click.echo(f"check: {command_of(['check', folder / BUDGETS])}")
    click.echo(f"tables: {folder / 'tables'}\nreport: {report}")


def _tell_json(tuned: Tuned, answers: Sequence[Answer], folder: Path, report: Path) -> None:
    from hearsay.studies.tuning.answer_files import BUDGETS

    found = any(answer.best is not None for answer in answers)
    document = {
        "tuning": tuned.tuning.name,
        "folder": str(folder),
        "report": str(report),
        "runs": sum(found.runs for found in tuned.searches),
        "made": tuned.made,
        "failed": len(tuned.failures),
        "budgets": str(folder / BUDGETS) if found else None,
        "answers": [_answer_json(answer, folder) for answer in answers],
    }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _answer_json(answer: Answer, folder: Path) -> dict[str, Any]:
    from hearsay.studies.tuning.answer import FOLDER as ANSWER
    from hearsay.studies.tuning.tune_text import best_words
    from hearsay.text.numbers import plain

    searched, best = answer.searched, answer.best
    said: dict[str, Any] = {
        "condition": searched.label or None,
        "points": len(searched.tried),
        "runs": searched.runs,
        "words": plain(best_words(answer)),
        "matters": answer.matters,
        "best": None,
    }
    if best is None:
        return said
    said["best"] = _settings_json(searched, best)
    said["scenario"] = str(folder / ANSWER / answer.file("best"))
    said["compare"] = answer.compare_command(folder)
    said["as_good"] = [_settings_json(searched, each) for each in answer.as_good]
    said["figures"] = [
        {
            "figure": line.figure.name,
            "verdict": str(line.verdict),
            **asdict(mean),
            "difference": None if line.difference is None else asdict(line.difference),
        }
        for line, mean in zip(answer.lines, answer.means(), strict=True)
    ]
    return said


def _settings_json(searched: Searched, tried: Tried) -> dict[str, object]:
    """The keys that a combination sets, with their values."""
    steps = zip(searched.tuning.axes, tried.steps, strict=True)
    settings = [setting for axis, step in steps for setting in axis.settings(step)]
    return {key: float(value) if isinstance(value, Decimal) else value for key, value in settings}
