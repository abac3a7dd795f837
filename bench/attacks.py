"""Measure the costs of attacks for a node under attack, the *victim*, and for its honest peers.

A real node runs in its own process. Honest nodes run in a second process, and reach each other only through the
victim. Attackers run in a third process, with other addresses of 127.0.0.0/8. All traffic stays on loopback, and all
attacks are bounded in bytes and time. The table has for each attack: the highest memory of the victim above idle, its
CPU time during the attack, the longest delay of its event loop, the share of honest messages that were delivered, the
99th percentile of their latency, and the victim's memory above idle a minute after the attack.

    python bench/attacks.py [--only NAME,NAME] [--against PATH] [--go] [--after 60] [--all-at-once [--seconds 300]]

`--only` takes attacks whose names begin with one of these words. `--against` runs the victim from another folder of
sources, such as the `src` of another version. `--go` also attacks go-libp2p-pubsub with its defaults. `--all-at-once`
runs all attacks on one victim at the same time, each from many addresses in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent / "attack_tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))

from catalogue import ATTACKS, SLOW, Attack, meshes
from children import SOURCES, Child
from foreign_peers import Missing, command_of
from outcome import GO_HEADINGS, HEADINGS, Outcome, peer_in_hex, print_processes, sent_amounts, table_row

TOOLS = Path(__file__).parent / "attack_tools"
SETTLE_S = 1.0
TRACED_SETTLE_S = 8.0
"""Seconds before the attack on a node with a trace. It loads libraries when it first writes, after five seconds;
their memory must count as idle."""
ATTACKING_PROCESSES = 3
"""Number of processes among which `--all-at-once` divides the attacks. One process would be too busy to end its
handshakes in time."""
NICENESS = 10
"""Niceness of attackers, so that they use only processor time that victim and honest peers leave."""
LATE_DELIVERIES_S = 3.0
"""Seconds after the attack in which honest messages still count as delivered."""


class Bench:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.sources = flags.against or SOURCES
        self.attack_lock = asyncio.Lock()
        """Held during an attack, but not during the minute after it: then the next attack may begin."""

    async def attack_hearsay(self, attack: Attack) -> Outcome:
        async with AsyncExitStack() as stack:
            flags = list(attack.victim)
            if attack.traced:
                folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
                flags += ["--trace", f"{folder}/trace"]
            path = (self.sources,) if attack.sodium else (TOOLS / "without_sodium", self.sources)
            victim = Child.python("victim.py", *flags, path=path)
            settle_s = TRACED_SETTLE_S if attack.traced else SETTLE_S
            return await self.attack(attack.carried_out, victim, [attack.honest], attack.seconds, settle_s=settle_s)

    async def attack_go(self, attack: Attack, command: list[str]) -> Outcome:
        victim = Child(*command, "-victim", *(attack.go or ()))
        return await self.attack(attack.carried_out, victim, [attack.honest], attack.seconds)

    async def attack(
        self,
        name: str,
        victim: Child,
        groups: list[tuple[str, ...]],
        seconds: float,
        *more: str,
        settle_s: float = SETTLE_S,
    ) -> Outcome:
        outcome = Outcome()
        async with AsyncExitStack() as stack:
            async with self.attack_lock:
                async with AsyncExitStack() as honest_stack:
                    await stack.enter_async_context(victim)
                    listening = await victim.next_event("listening", 20)
                    if listening is None:
                        outcome.ended = "did not start: " + victim.errors.decode(errors="replace")[-300:]
                        return outcome
                    target = listening["address"]
                    honest = [
                        Child.python("honest.py", target, "--network", str(2 + place), *flags)
                        for place, flags in enumerate(groups)
                    ]
                    for group in honest:
                        await stack.enter_async_context(group)
                    relays: list[str] = []
                    for group in honest:
                        ready = await group.next_event("ready", 60)
                        if ready is None:
                            outcome.ended = "honest peers have no mesh after 60 s: " + group.errors.decode()[-300:]
                            return outcome
                        relays += ready["relays"]
                    outcome.relays = {peer_in_hex(relay) for relay in relays}
                    await asyncio.sleep(settle_s)
                    idle_mb = victim.resident_mb
                    victim.reset_peak()
                    for group in honest:
                        group.send_command("publish")
                    parts = ATTACKING_PROCESSES if name == "all" else 1
                    common = (name, target, "--relays", ",".join(relays), "--seconds", str(seconds), *more)
                    attackers = [
                        Child.python("attackers.py", *common, "--part", f"{part}/{parts}", niceness=NICENESS)
                        for part in range(parts)
                    ]
                    begin, cpu_s = monotonic(), victim.cpu_s
                    honest_cpu_s = [group.cpu_s for group in honest]
                    for process in attackers:
                        await honest_stack.enter_async_context(process)
                    if name == "poisoned-rendezvous":
                        await attackers[0].next_event("set", 60)
                        seekers = Child.python("seekers.py", target, path=(self.sources,))
                        await honest_stack.enter_async_context(seekers)
                        met = await seekers.next_event("met", 80)
                        outcome.met_s = met["seconds"] if met else None
                    else:
                        for process in attackers:
                            done = await process.next_event("done", seconds + 20)
                            if done is None:
                                outcome.ended = (
                                    "an attacking process did not end in time: " + process.errors.decode()[-300:]
                                )
                            else:
                                outcome.counts |= done["counts"]
                                outcome.attackers |= set(done["peers"])
                    end = monotonic()
                    outcome.cpu_s, outcome.seconds = victim.cpu_s - cpu_s, end - begin
                    outcome.attackers_cpu_s = sum(process.cpu_s for process in attackers)
                    outcome.honest_cpu_s = [
                        group.cpu_s - before for group, before in zip(honest, honest_cpu_s, strict=True)
                    ]
                for group in honest:
                    group.send_command("stop")
                await asyncio.sleep(LATE_DELIVERIES_S)
                for group in honest:
                    group.send_command("report")
                for group in honest:
                    outcome.honest.append(await group.next_event("report", 20) or {})
                await victim.next_event("report", 20, since=monotonic())
                reports = [said for at, said in victim.events if said["event"] == "report" and at >= begin]
                outcome.reports = reports[: max(1, round(end - begin))] + reports[-1:]
                delays = [said["loop_delay_s"] for said in reports if "loop_delay_s" in said]
                outcome.delay_s = max(delays) if delays else None
                outcome.memory_mb = victim.peak_mb - idle_mb
                outcome.error_bytes = victim.error_bytes
                if victim.ended:
                    outcome.ended = "THE NODE ENDED: " + victim.errors.decode(errors="replace")[-300:]
            await asyncio.sleep(max(0.0, end + self.flags.after - monotonic()))
            outcome.later_mb = victim.resident_mb - idle_mb
        return outcome

    async def attack_terminal(self) -> str:
        """Return a cell of the table that says if a node escapes control characters in messages on a terminal."""
        ours, theirs = pty.openpty()
        said = bytearray()
        with suppress(OSError):
            os.set_blocking(ours, False)
        environment = {**os.environ, "PYTHONPATH": str(self.sources), "TERM": "xterm"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from hearsay.cli.main import main; main()", "node", "--subscribe", "news",
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment)  # fmt: skip
        os.close(theirs)

        async def until(found: Callable[[], bool], within_s: float) -> bool:
            end = monotonic() + within_s
            while not found() and monotonic() < end:
                with suppress(OSError):
                    said.extend(os.read(ours, 65536))
                await asyncio.sleep(0.05)
            return found()

        try:
            if not await until(lambda: b"/p2p/" in said and said.endswith(b"\n"), 20):
                return "did not start"
            await asyncio.sleep(0.3)
            address = next(word for word in said.decode().split() if "/p2p/" in word)
            async with Child.python("attackers.py", "terminal-control", address, "--seconds", "4"):
                if not await until(lambda: b"forged line" in said, 8):
                    return "no message was shown"
                await until(lambda: False, 1)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            os.close(ours)
        driven = b"\x1b]0;owned" in said or b"\x1b[2J" in said or b"\xc2\x9b" in said
        return "terminal driven" if driven else "shown escaped"


async def run_each(flags: argparse.Namespace) -> None:
    bench = Bench(flags)
    wanted = tuple(flags.only.split(",")) if flags.only else ("",)
    go: list[str] | None = None
    if flags.go:
        try:
            go = command_of("go")
        except Missing as missing:
            print(f"NOT MEASURED: {missing}", file=sys.stderr)
    heads = HEADINGS + (GO_HEADINGS if go else ())
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)

    async def measured(attack: Attack) -> str:
        both = [bench.attack_hearsay(attack)]
        if go and attack.go is not None:
            both.append(bench.attack_go(attack, go))
        ours, *others = await asyncio.gather(*both)
        theirs = others[0] if others else None
        seen = [", ".join(filter(None, (attack.seen(one), sent_amounts(one)))) for one in (ours, *others)]
        text = table_row(attack.name, attack.limit, ours, seen[0], theirs, seen[-1])
        if go and theirs is None:
            text += " |" * len(GO_HEADINGS)
        counted = " and ".join(str(outcome.counts.get(attack.carried_out, {})) for outcome in (ours, *others))
        print(f"{attack.name}: {counted}", file=sys.stderr, flush=True)
        return text

    running = [asyncio.ensure_future(measured(attack)) for attack in ATTACKS if attack.name.startswith(wanted)]
    for task in running:
        print(await task, flush=True)
    if "terminal-control".startswith(wanted) or any(name.startswith("terminal") for name in wanted):
        cells = ["`terminal-control`", "a message a line, escaped", *[""] * 6, await bench.attack_terminal()]
        print("| " + " | ".join(cells + [""] * (len(heads) - len(cells))) + " |", flush=True)


async def run_all_at_once(flags: argparse.Namespace) -> None:
    """Run all attacks at the same time, with three processes of honest nodes.

    They publish in `news`, in the attacked topic `slow`, whose validator takes a second, and in two unsigned topics.
    """
    bench = Bench(flags)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        victim = Child.python(
            "victim.py", "--rendezvous-point", *SLOW, "--unread", "--plain", "--rejects", "--parts",
            "--accept-exchange", "--trace", f"{folder}/trace", path=(bench.sources,))  # fmt: skip
        groups = [("--go", "2"), ("--topic", "slow", "--rate", "1"), ("--plain", "--rate", "1", "--nodes", "3")]
        left_out = ("--without", flags.without) if flags.without else ()
        more = ("--addresses", str(flags.addresses), *left_out)
        outcome = await bench.attack("all", victim, groups, flags.seconds, *more, settle_s=TRACED_SETTLE_S)
    print("| " + " | ".join(HEADINGS) + " |\n|" + " --- |" * len(HEADINGS))
    limit = "300 MB; 1 s; nothing lost; +40 MB a minute later"
    print(table_row("all at once", limit, outcome, meshes(outcome), None, ""), flush=True)
    print("\nHonest messages: in `news`, with Go; in `slow`, whose validator takes 1 s; in two unsigned topics.\n")
    print_processes(outcome)
    for name, counts in outcome.counts.items():
        print(f"    {name}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    parser.add_argument("--against", type=Path, help="folder with the sources of the victim")
    parser.add_argument("--go", action="store_true", help="also attack go-libp2p-pubsub")
    parser.add_argument(
        "--after", type=float, default=60, help="seconds after the attack until memory is measured again"
    )
    parser.add_argument("--all-at-once", action="store_true")
    parser.add_argument("--seconds", type=float, default=20, help="with --all-at-once: duration of the attacks")
    parser.add_argument("--addresses", type=int, default=64, help="with --all-at-once: addresses of each attack")
    parser.add_argument("--without", default="", help="with --all-at-once: attacks to omit, separated by commas")
    flags = parser.parse_args()
    asyncio.run(run_all_at_once(flags) if flags.all_at_once else run_each(flags))


if __name__ == "__main__":
    main()
