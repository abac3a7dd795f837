"""Which axis of a study goes where in its pictures.

Along the abscissa the numbers with the most steps; a line for each step of the next; a picture for each combination
of the others. Axes of the router are choices, all others are conditions that one has to live with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hearsay.studies.axes import Axis
from hearsay.studies.points import Point
from hearsay.studies.study_file import Study

MOST_LINES = 8
MOST_FACETS = 12


@dataclass(frozen=True, slots=True)
class Roles:
    """Axes by their places in the study; a facet fixes the steps of all others."""

    x: int
    lines: int | None
    facets: tuple[dict[int, int], ...]
    left_out: int
    """Facets beyond those drawn."""


def roles(study: Study) -> Roles | None:
    """None for a study without axes."""
    axes = study.axes
    if not axes:
        return None
    x = max(range(len(axes)), key=lambda number: (axes[number].numbers is not None, len(axes[number].steps), -number))
    others = [number for number in range(len(axes)) if number != x]
    fitting = [number for number in others if len(axes[number].steps) <= MOST_LINES]
    lines = max(fitting, key=lambda number: (len(axes[number].steps), -number)) if fitting else None
    fixed = [number for number in others if number != lines]
    facets = combinations(axes, fixed)
    return Roles(x, lines, tuple(facets[:MOST_FACETS]), max(0, len(facets) - MOST_FACETS))


def combinations(axes: Sequence[Axis], numbers: Sequence[int]) -> list[dict[int, int]]:
    """All steps of some axes."""
    ranges = [range(len(axes[number].steps)) for number in numbers]
    return [dict(zip(numbers, steps, strict=True)) for steps in product(*ranges)]


def choices(study: Study) -> list[int]:
    """The axes that change the router."""
    return [
        number
        for number, axis in enumerate(study.axes)
        if any(key == "router" or key.startswith("router.") for key in axis.keys)
    ]


def where(study: Study, steps: dict[int, int]) -> str:
    """Steps in words: "loss.rate 0.2, router.degree 6"."""
    return ", ".join(f"{study.axes[number].name} {study.axes[number].labels[step]}" for number, step in steps.items())


def at(points: Sequence[Point], steps: dict[int, int]) -> list[Point]:
    """The points that have these steps, in order."""
    return [point for point in points if all(point.steps[number] == step for number, step in steps.items())]


def all_steps(point: Point) -> dict[int, int]:
    return dict(enumerate(point.steps))
