"""The analysis that several commands share: it loads readable runs, writes result tables and prints the answers.

The answers are the main metrics of each topic of a run, one JSON object for each.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.extras import require_extra
from hearsay.metrics import Metric, shown_in, value_at, without_unknown
from hearsay.text.numbers import shown
from hearsay.text.tables import prose, table_text
from hearsay.user_errors import Failure, InvalidInput

if TYPE_CHECKING:
    from hearsay.cli.spark_steps import SparkWork
    from hearsay.pipeline.input.run_facts import RunFacts
    from hearsay.pipeline.output.folders import Folder
    from hearsay.pipeline.spark.place import Where

_NAMES = ("run", "topic", "router")
_NOT_MEASURED = "n/m"
_TOPIC_BYTES = "sent per node: of each topic its own parts; IWANT names no topic"
_MAX_NAME_LENGTH = 40


def answers_text(lines: list[dict[str, Any]]) -> str:
    """Return the answers as a table. Leave out the topics if all are the same, and routers that repeat the runs."""
    known = (metric.name for metric in shown_in("terminal") for line in lines if value_at(line, metric) is not None)
    metrics = without_unknown(shown_in("terminal"), known)
    names = [name for name in _NAMES if name == "run" or not _is_redundant(name, lines)]
    head = [*names, *(metric.heading for metric in metrics)]
    rows = [
        [*(_printable(str(line[name])) for name in names), *(_cell(line, metric) for metric in metrics)]
        for line in lines
    ]
    text = table_text(head, rows, left=len(names))
    notes: list[str] = []
    if len({line["run"] for line in lines}) < len(lines):
        notes.append(prose(_TOPIC_BYTES))
    if any(_NOT_MEASURED in row for row in rows):
        notes.append("n/m: not measured")
    return "\n".join([text, *notes])


def _is_redundant(name: str, lines: list[dict[str, Any]]) -> bool:
    if name == "router":
        return all(line["router"] == line["run"] for line in lines)
    return len({line[name] for line in lines}) == 1


def _cell(line: dict[str, Any], metric: Metric) -> str:
    value = value_at(line, metric)
    return _NOT_MEASURED if value is None else shown(value, metric.form)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:_MAX_NAME_LENGTH]


def load_readable(folders: Sequence[Folder], window_us: int | None) -> tuple[dict[Folder, RunFacts], list[str]]:
    """Return the facts of the runs without problems, and a line for each problem of the other runs."""
    from hearsay.pipeline.output.folders import load_folders
    from hearsay.trace.language.errors import RunFolderError

    good: list[Folder] = []
    bad: list[str] = []
    for folder in folders:
        try:
            problems = folder.problems()
            if not problems:
                load_folders([folder])
        except RunFolderError as error:
            problems = [str(error).replace(str(folder.path), str(folder))]
        if problems:
            bad.extend(problem if str(folder) in problem else f"{folder}: {problem}" for problem in problems)
        else:
            good.append(folder)
    return dict(zip(good, load_folders(good, window_us), strict=True)), bad


@contextmanager
def store_session(where: Where, places: Sequence[Path | str | None]) -> Generator[SparkWork | None]:
    """Yield a Spark session if one of these places is the URI of a store, which only Spark reaches; else None."""
    from hearsay.cli.spark_steps import spark_steps
    from hearsay.pipeline.spark.settings import SMALL_ROWS

    uri = next((place for place in places if isinstance(place, str)), None)
    if uri is None:
        yield None
    elif where.remote is not None:
        raise WrongInput(f"{uri}: --remote does not reach stores; use --master or embedded Spark")
    else:
        with spark_steps(where, SMALL_ROWS) as work, failures_in_one_line():
            yield work


@contextmanager
def failures_in_one_line() -> Generator[None]:
    """Turn exceptions of an analysis into `CommandFailed` with one line."""
    from hearsay.pipeline.spark.failures import in_one_line
    from hearsay.trace.language.errors import RunFolderError

    try:
        yield
    except (RunFolderError, OSError) as error:
        raise CommandFailed(str(error)) from None
    except (Failure, InvalidInput):
        raise
    except Exception as error:
        raise CommandFailed(
            f"the analysis failed: {in_one_line(error)}; tables of earlier analyses are complete"
        ) from None


@contextmanager
def copied_runs(where: Where, places: Sequence[Path | str]) -> Generator[Sequence[Path]]:
    """Yield local folders with the files of these runs that a report needs."""
    from hearsay.pipeline.output.hadoop_folder import folder_at
    from hearsay.pipeline.output.outputs import is_for_a_report
    from hearsay.pipeline.spark.work_folder import work_folder

    require_extra("spark")
    with work_folder() as scratch:
        with store_session(where, places) as opened:
            folders = [folder_at(place, opened and opened.session, scratch) for place in places]
            for folder in folders:
                folder.refresh(is_for_a_report)
        yield [folder.path for folder in folders]


def analyzed_on_spark(
    where: Where, runs: Sequence[RunFacts], outputs: Mapping[str, Folder], opened: SparkWork | None = None
) -> list[dict[str, Any]]:
    """Analyse runs, write tables into the outputs (claimed, by run name), and return the answers.

    `opened` is a session to use. A failure is raised as `CommandFailed` with one line.
    """
    from hearsay.cli.spark_steps import spark_steps
    from hearsay.pipeline.analyze import analyze, headlines
    from hearsay.pipeline.output.outputs import carry
    from hearsay.pipeline.spark.session import adapt

    rows = sum(run.rows for run in runs)
    with spark_steps(where, rows) if opened is None else nullcontext(opened) as work, failures_in_one_line():
        if opened is not None:
            adapt(work.session, rows, dict(where.conf))
        for run in runs:
            carry(run.path, outputs[run.name])
        analyze(work.session, runs, outputs, work.step)
        return headlines(runs, outputs)


def show_answers(lines: list[dict[str, Any]], outputs: Sequence[Folder], as_json: bool) -> None:
    """Print the answers: JSON, or a table and the folders of the result tables."""
    if as_json:
        print_json(lines)
        return
    from hearsay.pipeline.output.stored_tables import read_table

    if lines:
        click.echo(answers_text(lines))
    for output in outputs:
        for check in read_table(output.path, "quality").to_pylist():
            name = output.path.resolve().name
            if check["check"] == "not_due":
                click.echo(f"{name}: {check['detail']}")
            elif check["check"] == "incomplete" and check["rows"]:
                ended = f"is {check['detail']}" if check["detail"] else "was interrupted"
                click.echo(f"{name}: INCOMPLETE: the run {ended}, its figures end there")
    for output in outputs:
        click.echo(f"tables: {output}/metrics")
