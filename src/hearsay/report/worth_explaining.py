"""The messages of a report that are worth explaining: the slowest, and those that did not reach all due nodes.

Rules:

* Due nodes are the eligible nodes of an analysis; nodes that join the topic late are not due. The duration of a
  message is the time from its publication to its last delivery at a due node. This time is unknown if some due nodes
  never got the message but other nodes did. Then the duration ends when 99, 90 or 50 % of the due nodes had it: the
  largest of these shares that was reached.
* Each message has the command that explains it.
* The page has explanations of the messages if there is a single run with at most `MAX_ROWS` rows, or with the
  argument `everything`.
* If the trace cannot be read, the row of the message has the reason in place of the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hearsay.explain.answers import Explanation, explain
from hearsay.explain.message import NotInThisRun, open_message
from hearsay.explain.path import Path
from hearsay.explain.words import heading
from hearsay.number_text import count, milliseconds, plural
from hearsay.report.explain_page import section_parts
from hearsay.report.first_screen import named
from hearsay.report.html import Html, folded, labelled_table, tag
from hearsay.report.runs import Row, Run, Selection, topic_name
from hearsay.report.what_ran import command_line
from hearsay.studies.settings import command_of
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError, load_manifest

MAX_ROWS = 1_000_000
MAX_OF_ONE_RUN, MAX_OF_SEVERAL = 3, 1
MAX_NODES = 20
_SHARES = (100, 99, 90, 50)
_COLUMNS = (
    "topic", "message", "eligible", "delivered_eligible", "delivered", "max_us",
    *(f"t{share}_us" for share in _SHARES),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Notable:
    """A message that is worth explaining."""

    run: int
    row: Row
    missing: bool
    words: str
    command: str

    @property
    def id(self) -> str:
        return f"explained-{self.run}-{self.row['message']}{'-missing' if self.missing else ''}"


def worth_explaining(selection: Selection, everything: bool, log: Callable[[str], None]) -> Html:
    """Return the part of the page about the messages that are worth explaining; empty HTML if there are none.

    With `everything`, messages of large runs and of several runs are also explained. `log` is called with texts about
    the progress.
    """
    notable = [each for place, run in enumerate(selection.runs) for each in _notable(place, run, len(selection.runs))]
    if not notable:
        return Html("")
    explained: dict[str, Html] = {}
    refused: dict[str, str] = {}
    for number, each in enumerate(notable, 1):
        run = selection.runs[each.run]
        if not everything and (len(selection.runs) > 1 or load_manifest(run.folder).trace.rows > MAX_ROWS):
            continue
        log(f"explaining message {each.row['message']} ({number} of {len(notable)})")
        try:
            explanation = explain(open_message(run.folder, str(each.row["message"])), None, each.missing)
            explained[each.id] = _article(each, explanation)
        except (RunFolderError, NotInThisRun) as error:
            refused[each.id] = str(error)
    rows = [_table_row(selection, each, explained, refused) for each in notable]
    topics = any(len(run.headlines) > 1 for run in selection.runs)
    left_out = {"run": len(selection.runs) == 1, "topic": not topics}
    heads = [head for head in rows[0] if not left_out.get(head)]
    table = labelled_table(
        heads, [[row[head] for head in heads] for row in rows], "Messages worth explaining", range(5)
    )
    return folded("Worth explaining", "explained", table, *explained.values())


def _notable(place: int, run: Run, runs: int) -> Iterator[_Notable]:
    if not (run.folder / MANIFEST).exists():
        return

    def explain_command(row: Row, *more: str) -> str:
        return command_of(["explain", run.folder, "--message", row["message"], *more])

    limit = MAX_OF_ONE_RUN if runs == 1 else MAX_OF_SEVERAL
    messages = run.read("messages", *_COLUMNS)
    known = messages.append_column("took_us", _took_us(messages))
    slow = known.filter(compute.is_valid(known.column("took_us")))
    for row in slow.sort_by([("took_us", "descending"), ("message", "ascending")])[:limit].to_pylist():
        yield _Notable(place, row, False, _slow_words(row), explain_command(row))
    missing = compute.subtract(messages.column("eligible"), messages.column("delivered_eligible"))
    known = messages.append_column("missing", compute.fill_null(missing, 0))
    for row in known.sort_by([("missing", "descending"), ("message", "ascending")])[:limit].to_pylist():
        if row["missing"] > 0:
            words = f"{plural(row['missing'], 'node')} of {count(row['eligible'])} never got it"
            yield _Notable(place, row, True, words, explain_command(row, "--missing"))


def _took_us(messages: Any) -> Any:
    """Return the duration of each message in microseconds (see the rules of the module); null if unknown."""
    undue = compute.subtract(messages.column("delivered"), messages.column("delivered_eligible"))
    all_due = compute.fill_null(compute.equal(undue, 0), True)
    last = compute.if_else(all_due, messages.column("max_us"), None)
    return compute.coalesce(messages.column("t100_us"), last, *(messages.column(f"t{share}_us") for share in _SHARES))


def _slow_words(row: Row) -> str:
    took = milliseconds(row["took_us"] / 1000)
    if row["took_us"] == row["max_us"]:
        return f"its last delivery took {took}"
    share = next(share for share in _SHARES if row[f"t{share}_us"] is not None)
    nodes = "the last due node" if share == 100 else f"{share} % of the due nodes"
    return f"{nodes} had it after {took}, other nodes later"


def _table_row(
    selection: Selection, notable: _Notable, explained: Mapping[str, Html], refused: Mapping[str, str]
) -> dict[str, object]:
    why: list[object] = [command_line(notable.command)]
    if notable.id in explained:
        why = [tag("a", "explained below", href=f"#{notable.id}"), " ", *why]
    elif notable.id in refused:
        why = [tag("span", refused[notable.id], class_="faint")]
    headlines = selection.runs[notable.run].headlines
    return {
        "message": str(notable.row["message"]),
        "run": tag("span", named(selection, notable.run)),
        "topic": next((topic_name(one) for one in headlines if one["topic"] == notable.row["topic"]), ""),
        "what happened": notable.words,
        "why": tag("div", *why),
    }


def _article(notable: _Notable, explanation: Explanation) -> Html:
    message = explanation.message
    title = f"Message {message.name.number}: {'missing' if notable.missing else 'slowest'} deliveries"
    parts: list[Html] = []
    for each in explanation.sections:
        parts += [tag("h4", each.title), *section_parts(explanation, each, MAX_NODES)]
        if isinstance(each.path, Path):
            node = shlex.quote(message.names.peer(each.path.node))
            parts.append(command_line(f"{notable.command} --node {node}"))
    return tag(
        "details",
        tag("summary", tag("strong", title), " ", tag("span", heading(message), class_="faint")),
        tag("p", explanation.summary),
        *parts,
        *(tag("p", line, class_="faint") for line in message.unknowns()),
        class_="card explained",
        id=notable.id,
        data_run=notable.run,
    )
