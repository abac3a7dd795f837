"""An opened message: facts of its run, names, history, link model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hearsay.explain.copies import History, history_of
from hearsay.explain.find import SHORTENED, MessageName, NotInThisRun, find_message, rows_of_message
from hearsay.explain.link_model import LinkModel, link_model_of
from hearsay.explain.trace_rows import last_parts
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.kernels.memberships import memberships_of
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.pipeline.metrics.knowledge import observers_of
from hearsay.text.escape import escape
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.read.show import Names, load_names

_MAX_NAME_LENGTH, _SHOWN_LENGTH = 24, 8


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a run, with all that an explanation needs."""

    run: RunFacts
    names: Names
    name: MessageName
    history: History
    model: LinkModel | None
    observers: tuple[int, ...]
    """Nodes that traced."""
    members: Members
    """Members of the message's topic over time."""
    in_parts: bool
    """Messages of the topic are sent as partial messages."""

    def node(self, node: int) -> str:
        """Return the name of a node: "node 3", "script", or the end of a long name, which `--node` accepts."""
        name = escape(self.names.peer(node)) if node != NONE else "an unknown node"
        if len(name) > _MAX_NAME_LENGTH:
            name = f"{SHORTENED}{name[-_SHOWN_LENGTH:]}"
        return f"node {name}" if name.isdecimal() else name

    @property
    def only_one_traced(self) -> bool:
        """Return whether the trace is that of one real node."""
        return not self.run.simulated and len(self.observers) == 1

    def short_name(self, node: int) -> str:
        """Return the name of a node for a table or a path."""
        return self.node(node).removeprefix("node ")

    def us_after(self, time_us: int) -> int:
        """Return a time as microseconds after the publication."""
        return time_us - self.history.start_us()

    def title(self) -> str:
        identifier = f" ({escape(self.name.identifier)})" if self.name.identifier else ""
        return f"message {self.name.number}{identifier}"

    def topic(self) -> str:
        return escape(self.names.topic(self.history.topic)) if self.history.topic != NONE else "unknown"

    def unknowns(self) -> list[str]:
        """Return what this trace does not show, a sentence each."""
        unknown: list[str] = []
        if not self.run.manifest.complete:
            unknown.append("The run was interrupted: later events are not in the trace.")
        if not self.run.simulated:
            unknown.append(
                "This is a trace of real nodes: each time is of the node's own clock, and a copy is known from its "
                "two ends, so delays in queues and on links are not separated."
            )  # fmt: skip
            traced, named = len(self.observers), len(self.names.peers)
            if traced < named:
                saw = "this one" if traced == 1 else "these"
                unknown.append(f"{traced} of {named} nodes traced; the others are known from what {saw} saw.")
        elif self.model is None:
            unknown.append("The scenario cannot be read, so delays in queues and on links are not separated.")
        if self.in_parts:
            unknown.append(
                "Messages of this topic are sent in parts, and rows of parts name no message: a delivery shows only "
                "the sender and the time of the part that completed the message."
            )  # fmt: skip
        if not self.names.peers:
            unknown.append(
                "The run's dictionary of peers is missing: nodes, and a script that injects messages, are shown by "
                "number."
            )  # fmt: skip
        if not self.history.published:
            unknown.append("The trace has no publication of this message; times count from its first known event.")
        return unknown


def open_message(path: Path, wanted: str, window_us: int | None = None) -> Message:
    """Open a message by number or id. Raise `RunFolderError` for a folder without a trace, and `NotInThisRun`."""
    (run,) = load_runs([path], window_us)
    name = find_message(run, wanted)
    rows = rows_of_message(run, name.number)
    if not len(rows[Column.EVENT]):
        raise NotInThisRun(
            f"{escape(wanted)}: {path} names this message but has no row of it: it was never published"
        )
    history, names, model = history_of(run, name.number, rows), load_names(run.path), link_model_of(run)
    in_parts = model is not None and history.topic != NONE and names.topic(history.topic) in model.topics_in_parts
    if in_parts:
        history = replace(history, last_parts=last_parts(run, history))
    members = memberships_of(run).of_topic(history.topic)
    return Message(run, names, name, history, model, observers_of(run), members, in_parts)
