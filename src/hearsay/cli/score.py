"""`hearsay score`: check score parameters. It exits with 1 if there are findings of the severity of --fail-on or a
higher one, for CI.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Whole
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.user_errors import require_extra

if TYPE_CHECKING:
    from hearsay.score_check.check import Checked
    from hearsay.score_check.findings import Check
    from hearsay.score_check.subject import Subject

LEVELS = ("error", "warning", "note", "never")
NEVER = LEVELS[-1]


@click.command("score")
@click.argument("file", required=False, type=GivenPath(path_type=Path))
@click.option("--preset", metavar="NAME", help="Check a named set instead of a file, such as lighthouse or filecoin.")
@click.option("--validators", type=Whole(1), metavar="N",
              help="With --preset: number of validators, for Ethereum's sets (default: one million).")  # fmt: skip
@click.option("--only", multiple=True, metavar="CHECK", help="Run only this check; can be repeated.")
@click.option("--ignore", multiple=True, metavar="CHECK", help="Skip this check; can be repeated.")
@click.option("--fail-on", type=click.Choice(LEVELS), default="warning", show_default=True,
              help="Exit 1 if a finding has this severity or a higher one.")  # fmt: skip
@click.option("--page", type=GivenPath(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write an HTML file with findings, tables, and score curves of simulated peers.")  # fmt: skip
@click.option("--list-checks", is_flag=True, help="List the checks, their severities and the faults that they find.")
@click.option("--json", "as_json", is_flag=True, help="Print findings and numbers as JSON.")
def command(**options: Any) -> None:
    """Check score parameters: FILE is a scenario with [router.score], or a file with [score] and [expect].

    Finds silent peers that are never pruned, honest peers that are pruned, and thresholds that no peer reaches. The
    exit code is 1 if a finding has the severity of --fail-on or a higher one.
    """
    from hearsay.score_check.check import check_subject, check_text

    if options["list_checks"]:
        _list_checks()
        return
    checks = _chosen(options["only"], options["ignore"])
    subject = _subject(options["file"], options["preset"], options["validators"])
    checked = check_subject(subject, checks)
    if options["page"] is not None:
        from hearsay.report.score_page import write_score_page

        write_score_page(checked, options["page"])
    if options["as_json"]:
        print_json(checked.to_json(), allow_nan=False)
    else:
        click.echo(check_text(checked))
        if options["page"] is not None:
            click.echo(f"page: {options['page']}")
    _end(checked, options["fail_on"])


def _list_checks() -> None:
    from hearsay.score_check.check import CHECKS
    from hearsay.text import prose

    for each in CHECKS:
        click.echo(prose(f"{each.id} ({each.severity}): {each.meaning}"))


def _chosen(only: Sequence[str], ignored: Sequence[str]) -> tuple[Check, ...]:
    from difflib import get_close_matches

    from hearsay.score_check.check import IDS, chosen

    problems: list[str] = []
    for option, names in (("--only", only), ("--ignore", ignored)):
        for name in names:
            if name not in IDS:
                near = get_close_matches(name, IDS, 1)
                hint = f", did you mean {near[0]}?" if near else "; --list-checks lists them"
                problems.append(f"{option} {name}: no such check{hint}")
    if problems:
        raise WrongInput(*problems)
    return chosen(only, ignored)


def _subject(file: Path | None, preset: str | None, validators: int | None) -> Subject:
    if (file is None) == (preset is None):
        raise WrongInput("give a FILE, or --preset NAME" if file is None else "give a FILE or --preset, not both")
    if preset is None and validators is not None:
        raise WrongInput(f"--validators {validators}: needs --preset; a FILE does not depend on it")
    require_extra("sim")
    from hearsay.score_check.subjects import read_subject

    return read_subject(file) if file is not None else _of_set(preset or "", validators)


def _of_set(name: str, validators: int | None) -> Subject:
    from hearsay.core.shell.parameters import ParameterError
    from hearsay.score_check.subjects import subject_of_set

    try:
        return subject_of_set(name, validators)
    except ParameterError as error:
        options = {"set": "--preset", "validators": "--validators"}
        problems = [f"{options[each.field]} {each.value}: {each.rule}" for each in error.violations]
        raise WrongInput(*problems) from None


def _end(checked: Checked, fail_on: str) -> None:
    if fail_on == NEVER:
        return
    failing = checked.at_least(fail_on)
    if failing:
        what = "finding" if len(failing) == 1 else "findings"
        raise CommandFailed(f"{len(failing)} {what} of severity {fail_on} or above")
