"""What a comparison was asked: the names of its sides, the folder that keeps it, and the command that asks it again.

Two comparisons that differ in anything but the number of seeds and the engine have different folders.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hearsay.studies.settings import command_of

_LONGEST_NAME = 100
_DIGEST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """`changes` and `both` as they were given: KEY=VALUE."""

    a: str
    b: str | None
    changes: tuple[str, ...]
    both: tuple[str, ...]
    seeds: int
    unpaired: bool = False
    engine: str = "auto"
    first_seed: int = 1

    @property
    def names(self) -> tuple[str, str]:
        a = Path(self.a).stem
        b = a if self.b is None else Path(self.b).stem
        return a, f"{b} with {', '.join(self.changes)}" if self.changes else b

    @property
    def conditions(self) -> list[str]:
        """What holds on both sides, in words."""
        way = "other seeds for B" if self.unpaired else "the same on both sides, compared seed by seed"
        both = [f"both: with {', '.join(self.both)}"] if self.both else []
        start = f" from {self.first_seed} on" if self.first_seed != 1 else ""
        return [*both, f"seeds: {self.seeds}{start}, {way}"]

    @property
    def folder_name(self) -> str:
        """Readable; where a readable name may stand for several comparisons, with a digest of what was asked."""
        a, b = self.names
        both = f"-both-with-{','.join(self.both)}" if self.both else ""
        start = f"-from-seed-{self.first_seed}" if self.first_seed != 1 else ""
        told = f"compare-{a}-{b}{both}{'-unpaired' if self.unpaired else ''}{start}".replace(", ", ",").replace(
            " ", "-"
        )
        name = re.sub(r"[^\w.=,-]", "-", told)[:_LONGEST_NAME]
        if name == told and {self.a, self.b or self.a} == {Path(self.a).stem, Path(self.b or self.a).stem}:
            return name
        asked = [self.a, self.b, self.changes, self.both, self.unpaired]
        whole = json.dumps(asked if self.first_seed == 1 else [*asked, self.first_seed])
        return f"{name}-{sha256(whole.encode()).hexdigest()[:_DIGEST_DIGITS]}"

    @property
    def command(self) -> str:
        words: list[object] = ["compare", self.a]
        if self.b is not None:
            words.append(self.b)
        for option, settings in (("--set", self.changes), ("--both", self.both)):
            for setting in settings:
                words += [option, setting]
        words += ["--seeds", self.seeds]
        if self.first_seed != 1:
            words += ["--first-seed", self.first_seed]
        if self.unpaired:
            words.append("--unpaired")
        if self.engine != "auto":
            words += ["--engine", self.engine]
        return command_of(words)
