"""A message of a run, opened: what is known of the run, the names, and the books of the message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hearsay.explain.books import Books, books_of
from hearsay.explain.last_parts import last_parts
from hearsay.explain.link_model import LinkModel, link_model_of
from hearsay.explain.subject import SHORTENED, MessageName, NotInThisRun, find_message, rows_of_message
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.kernels.memberships import memberships_of
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.pipeline.metrics.knowledge import observers_of
from hearsay.text.escape import escape
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.read.names import Names, load_names

_LONGEST_NAME, _SHOWN_OF_LONG = 24, 8


@dataclass(frozen=True, slots=True)
class Story:
    run: RunFacts
    names: Names
    name: MessageName
    books: Books
    model: LinkModel | None
    observers: tuple[int, ...]
    """The nodes of which the trace tells what they did."""
    members: Members
    """Who was in the topic of the message, and when."""
    in_parts: bool
    """Messages of the topic go in parts."""

    def node(self, node: int) -> str:
        """A node for people: "node 3", "script", or the end of a long name, by which `--node` knows it too."""
        name = escape(self.names.peer(node)) if node != NONE else "somebody"
        if len(name) > _LONGEST_NAME:
            name = f"{SHORTENED}{name[-_SHOWN_OF_LONG:]}"
        return f"node {name}" if name.isdecimal() else name

    @property
    def only_one_traced(self) -> bool:
        """The trace is of one real node: of others it tells what that one saw."""
        return not self.run.simulated and len(self.observers) == 1

    def message(self) -> str:
        identifier = f" ({escape(self.name.identifier)})" if self.name.identifier else ""
        return f"message {self.name.number}{identifier}"

    def topic(self) -> str:
        return escape(self.names.topic(self.books.topic)) if self.books.topic != NONE else "unknown"

    def unknowns(self) -> list[str]:
        """What this trace cannot tell, a sentence each."""
        told: list[str] = []
        if not self.run.manifest.complete:
            told.append("The run was interrupted: what came later, or was lost, is not in it.")
        if not self.run.simulated:
            told.append(
                "A trace of real nodes: times are of each node's own clock, a copy is known by what its two ends "
                "told, and queues and lines cannot be told apart."
            )  # fmt: skip
            traced, named = len(self.observers), len(self.names.peers)
            if traced < named:
                saw = "this one" if traced == 1 else "these"
                told.append(f"{traced} of {named} nodes traced; of the others is known what {saw} saw.")
        elif self.model is None:
            told.append("The scenario cannot be read here, so queues and lines cannot be told apart.")
        if self.in_parts:
            told.append(
                "Messages of this topic go in parts, and rows of parts name no message: what is told of a delivery "
                "is who sent the part that made the message whole, and when."
            )  # fmt: skip
        if not self.names.peers:
            told.append(
                "The run's dictionary of peers is gone: nodes are called by their numbers, and so is a script that "
                "handed messages in."
            )  # fmt: skip
        if not self.books.published:
            told.append(
                "The trace has no publication of this message; times count from the first that is known of it."
            )
        return told


def open_story(path: Path, wanted: str, window_us: int | None = None) -> Story:
    """Raises `RunFolderError` for what is no run with a trace, and `NotInThisRun`."""
    (run,) = load_runs([path], window_us)
    name = find_message(run, wanted)
    rows = rows_of_message(run, name.number)
    if not len(rows[Column.EVENT]):
        raise NotInThisRun(
            f"{escape(wanted)}: {path} names this message and has no row of it: it was never published"
        )
    books, names, model = books_of(run, name.number, rows), load_names(run.path), link_model_of(run)
    in_parts = model is not None and books.topic != NONE and names.topic(books.topic) in model.topics_in_parts
    if in_parts:
        books = replace(books, last_parts=last_parts(run, books))
    members = memberships_of(run).of_topic(books.topic)
    return Story(run, names, name, books, model, observers_of(run), members, in_parts)
