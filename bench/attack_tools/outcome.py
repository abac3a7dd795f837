"""The measurements of an attack, and its row in the table."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearsay.libp2p.names.multiaddr import Multiaddr


@dataclass
class Outcome:
    """The measurements of an attack. Memory is in MB above idle."""

    memory_mb: float = 0.0
    later_mb: float | None = None
    cpu_s: float = 0.0
    seconds: float = 0.0
    delay_s: float | None = None
    honest: list[dict] = field(default_factory=list)
    """The report of each process of honest nodes."""
    honest_cpu_s: list[float] = field(default_factory=list)
    attackers_cpu_s: float = 0.0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    attackers: set[str] = field(default_factory=set)
    relays: set[str] = field(default_factory=set)
    """Peer ids of the honest peers, in hexadecimal."""
    reports: list[dict] = field(default_factory=list)
    """Reports of the victim, one for each second of the attack, and the last."""
    error_bytes: int = 0
    met_s: float | None = None
    ended: str = ""

    @property
    def last(self) -> dict:
        return self.reports[-1] if self.reports else {}

    @property
    def kept_out(self) -> list[str]:
        """Reasons for which the victim keeps honest peers out."""
        return [why for peer, why in self.last.get("kept_out", ()) if peer in self.relays]

    def members(self, report: dict) -> tuple[int, int]:
        """Return the numbers of attackers and of other peers in the mesh of `news`."""
        mesh = set(report.get("mesh", ()))
        return len(mesh & self.attackers), len(mesh - self.attackers)


def peer_in_hex(address: str) -> str:
    peer = Multiaddr.parse(address).peer
    assert peer is not None
    return peer.hex()


def delivered_shares(outcome: Outcome) -> str:
    parts: list[str] = []
    for group in outcome.honest:
        if not group.get("due"):
            parts.append("?")
            continue
        share = 100 * group["arrived"] / group["due"]
        text = "100 %" if group["arrived"] == group["due"] else f"{min(share, 99.9):.1f} %"
        if group["dialled"] < group["dials"]:
            text += f", {group['dialled']} of {group['dials']} dials"
        if group["starved"]:
            text += f", {group['starved']} received nothing"
        parts.append(text)
    parts += [f"AN HONEST PEER IS KEPT OUT: {why}" for why in outcome.kept_out]
    return "; ".join(parts)


def sent_amounts(outcome: Outcome) -> str:
    """Return the amount that the attackers could send. Memory can be compared only for equal amounts."""
    counts = next(iter(outcome.counts.values()), {}) if len(outcome.counts) == 1 else {}
    return ", ".join(f"{counts[what]:,} {what} sent" for what in ("MiB", "kB", "names", "streams") if what in counts)


def slowest_deliveries(outcome: Outcome) -> str:
    return "; ".join(milliseconds(group.get("p99_s")) for group in outcome.honest)


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def table_row(name: str, limit: str, outcome: Outcome, seen: str, go: Outcome | None, go_seen: str) -> str:
    cells = [f"`{name}`", limit, f"{outcome.memory_mb:+.0f} MB", f"{outcome.cpu_s:.1f} s of {outcome.seconds:.0f}",
             milliseconds(outcome.delay_s), delivered_shares(outcome), slowest_deliveries(outcome),
             "" if outcome.later_mb is None else f"{outcome.later_mb:+.0f} MB",
             outcome.ended.replace("\n", " ").replace("|", "/") or seen]  # fmt: skip
    if go is not None:
        cells += [f"{go.memory_mb:+.0f} MB", f"{go.cpu_s:.1f} s", delivered_shares(go), slowest_deliveries(go),
                  go.ended.replace("\n", " ").replace("|", "/") or go_seen]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


HEADINGS = ("attack", "stated limit", "memory above idle", "CPU", "longest loop delay", "honest delivered", "p99",
        "a minute later", "seen")  # fmt: skip
GO_HEADINGS = ("Go: memory", "CPU", "honest delivered", "p99", "seen")


def print_processes(outcome: Outcome) -> None:
    """Print CPU time and delay of the event loop for each process; a late honest process delays its own messages."""
    print(f"    node: {outcome.cpu_s:.0f} s of CPU, {milliseconds(outcome.delay_s)} late at most")
    print(f"    attackers: {outcome.attackers_cpu_s:.0f} s of CPU")
    for place, (group, cpu_s) in enumerate(zip(outcome.honest, outcome.honest_cpu_s, strict=False)):
        late, most = (milliseconds(group.get(name)) for name in ("late_p99_s", "late_max_s"))
        times = ", ".join(f"{name} {milliseconds(group.get(f'{name}_s'))}" for name in ("p50", "p99", "max"))
        refused = ", ".join(f"{count} {why}" for why, count in group.get("refusals", {}).items()) or "none"
        print(f"    honest {place}: {cpu_s:.0f} s of CPU, late {late} (p99), {most} (max); messages {times}; "
              f"{group.get('arrived')} of {group.get('due')}; "
              f"{group.get('dialled')} of {group.get('dials')} dials, refused: {refused}")  # fmt: skip
    print()
