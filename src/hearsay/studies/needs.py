"""What the runs of a study need of the place where they are made, and whether others may use that place too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearsay.studies.code import carried_modules, has_routers_from_outside
from hearsay.studies.study_file import Study

MOST_SHARED_S = 60.0
"""Of one core: runs that take longer gain little from a session that is there, and are in the way of others."""


@dataclass(frozen=True, slots=True)
class Needs:
    modules: Sequence[Path]
    """Files of Python and zips of packages, beside this package."""
    may_share: bool
    """Whether workers can make them that make other things before and after: not with several cores each, not where
    modules from outside stay imported, and not where a command that is killed would leave large traces there."""


def needs_of(study: Study, scenarios: Iterable[str], seconds: float, work: Path) -> Needs:
    """For runs of these scenarios that take so many seconds of one core; zips are made in `work`."""
    texts = set(scenarios)
    alike = study.cores_per_task == 1 and not study.traces and not has_routers_from_outside(texts)
    return Needs(carried_modules(texts, work), alike and seconds <= MOST_SHARED_S)
