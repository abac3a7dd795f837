"""Measure the effect of the threshold of tree optimisation on the length of paths and on the stability of the tree.

    python bench/episub_threshold.py [SEEDS]

It prints a table and draws `docs/pictures/episub-threshold.svg`. 500 nodes have a fixed overlay of 3 dials each, and
60 messages are published, one a second. In the first case the source moves to another node after 20 messages: this
shows if the tree adapts to a new source. In the second case two sources publish in turn: this shows if the tree
becomes stable, although it cannot be optimal for both. Hops are the mean over the deliveries of the last ten
messages. Changes are the GRAFTs and PRUNEs per message after the 23rd.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import log10
from pathlib import Path
from statistics import fmean

from episub_network import mean_sd, run_publications

NODES = 500
MESSAGES = 60
MOVES_AT = 20
WARMUP_S = 2
THRESHOLDS = (1, 2, 3, 4, 5, 6, 7, 8, 0)
SETTLED_S = WARMUP_S + MOVES_AT + 3
CASES = {"moves": "the source moves", "turns": "two sources in turn"}
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "episub-threshold.svg"


def measure(seed: int, threshold: int, case: str) -> tuple[float, float]:
    """Return the mean hops of the last ten messages, and GRAFTs and PRUNEs per message after the 23rd."""
    at = [
        (WARMUP_S + number, number % 2 if case == "turns" else int(number >= MOVES_AT)) for number in range(MESSAGES)
    ]
    run = run_publications(
        NODES,
        seed,
        at,
        router__overlay="connections",
        router__optimisation_threshold=threshold,
        network__degree=3,
        warmup_s=WARMUP_S,
    )
    hops = run.by_message()
    late = sum(time >= SETTLED_S * 1_000_000 for time in run.recorder.tree_changes)
    return (
        fmean(hops[number][1] for number in range(MESSAGES - 10, MESSAGES)),
        late / (MESSAGES - (SETTLED_S - WARMUP_S)),
    )


Point = tuple[float, float]
LEFT, TOP, WIDTH, HEIGHT = 64, 46, 560, 300
LEAST, MOST = -0.5, 3.2
"""Ends of the horizontal axis: decimal logarithms of the changes per message."""


def to_svg(curves: dict[str, Sequence[Point]]) -> str:
    """Return an SVG picture of hops over changes per message: a curve for each case, a point for each threshold."""
    hops = [hop for points in curves.values() for hop, _ in points]
    low, high = int(min(hops)), int(max(hops)) + 1

    def place(hop: float, changes: float) -> Point:
        across = (max(LEAST, log10(max(changes, 0.001))) - LEAST) / (MOST - LEAST)
        return LEFT + WIDTH * across, TOP + HEIGHT * (high - hop) / (high - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 24} {TOP + HEIGHT + 52}" '
        'font-family="sans-serif" font-size="12" role="img">',
        "<title>Mean hops against tree changes per message, by optimisation threshold</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="14">Shorter paths or a quiet tree: thresholds 1 to 8 and none</text>',
    ]
    for hop in range(low, high + 1):
        _, y = place(hop, 1)
        lines.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{hop}</text>')
    for power in range(4):
        x, _ = place(low, 10**power)
        lines.append(f'<path d="M{x:.1f} {TOP}v{HEIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{10**power:,}</text>')
    lines.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 40}" text-anchor="middle">'
        "GRAFT and PRUNE per message (500 nodes)</text>"
    )
    lines.append(f'<text x="{LEFT - 8}" y="{TOP - 10}">mean hops of a delivery</text>')
    for number, ((case, points), colour) in enumerate(zip(curves.items(), ("#0b6e99", "#c2410c"), strict=True)):
        places = [place(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for threshold, (x, y) in zip(THRESHOLDS, places, strict=True):
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            across, down = (0, 16) if case == "turns" else (9, 4)
            lines.append(
                f'<text x="{x + across:.1f}" y="{y + down:.1f}" text-anchor="{"start" if across else "middle"}" '
                f'fill="{colour}">{threshold or "none"}</text>'
            )
        y = TOP + 16 + 18 * number
        lines.append(f'<circle cx="{LEFT + WIDTH - 150}" cy="{y - 4}" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + WIDTH - 140}" y="{y}">{CASES[case]}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    curves: dict[str, list[Point]] = {case: [] for case in CASES}
    print(f"{NODES} nodes, {seeds} seeds: mean hops in the end; GRAFTs and PRUNEs per message\n")
    print("| threshold | the source moves: hops | changes | two sources in turn: hops | changes |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for threshold in THRESHOLDS:
        columns: list[str] = []
        for case, points in curves.items():
            found = [measure(seed, threshold, case) for seed in range(1, seeds + 1)]
            hops, changes = zip(*found, strict=True)
            points.append((fmean(hops), fmean(changes)))
            columns += [mean_sd(hops), mean_sd(changes, "{:.1f}")]
        print(f"| {threshold or 'none'} | {' | '.join(columns)} |", flush=True)
    PICTURE.write_text(to_svg(curves), encoding="utf-8")
    print(f"\n{PICTURE.name} drawn")


if __name__ == "__main__":
    main()
