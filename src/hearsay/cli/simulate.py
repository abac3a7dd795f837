"""`hearsay simulate`: run a scenario, print a summary, and write a run folder with `--out`."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.arguments import GivenPath, Real, Whole, settings_of
from hearsay.cli.ending import CommandFailed, WrongInput, print_json
from hearsay.cli.signals import Signalled, first_signal

if TYPE_CHECKING:
    from hearsay.sim.plan.engines import EngineName
    from hearsay.sim.scenario.scenario import Scenario
    from hearsay.sim.simulate import Result
    from hearsay.trace.folder.run_folder import RunFolder

ENGINES = ("auto", "reference", "array")
MAX_NODES = 100_000_000
MAX_SEED = (1 << 63) - 1


def _show_presets(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from hearsay.sim.scenario.scenario_file import preset_names, preset_text

        for name in preset_names():
            comment = takewhile(lambda line: line.startswith("#"), preset_text(name).splitlines())
            first_sentence = " ".join(line.lstrip("# ") for line in comment).partition(". ")[0]
            click.echo(f"{name:<16} {first_sentence.rstrip('.')}")
        ctx.exit()


def _show_preset(ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    if name is not None:
        from hearsay.sim.scenario.scenario_file import preset_text

        click.echo(preset_text(name), nl=False)
        ctx.exit()


def _complete_preset(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from hearsay.sim.scenario.scenario_file import preset_names

    return [name for name in preset_names() if name.startswith(incomplete)]


@click.command("simulate")
@click.argument("scenario", required=False, type=GivenPath(path_type=Path))
@click.option("--preset", metavar="NAME", shell_complete=_complete_preset,
              help="Start from a preset instead of a file.")  # fmt: skip
@click.option("--list-presets", is_flag=True, is_eager=True, expose_value=False, callback=_show_presets,
              help="List the presets and exit.")  # fmt: skip
@click.option("--show-preset", metavar="NAME", is_eager=True, expose_value=False, callback=_show_preset,
              shell_complete=_complete_preset, help="Show a preset as a commented file and exit.")  # fmt: skip
@click.option("--show-scenario", is_flag=True, help="Print the scenario with all keys and exit.")
@click.option("--router", metavar="NAME", help="floodsub, randomsub, meshsub, gossipsub, episub or module:attribute.")
@click.option("--nodes", type=Whole(1, MAX_NODES), help="Number of nodes.")
@click.option("--connect", type=Whole(0, 10_000), help="Number of peers that each node dials (network.degree).")
@click.option("--messages", type=Whole(0, MAX_NODES), help="Number of messages.")
@click.option("--message-delay", type=Real(min=0), metavar="SECONDS", help="Time between messages.")
@click.option("--fanout", type=Whole(1, MAX_NODES),
              help="Number of nodes that publish each message for the script (workload.inject).")  # fmt: skip
@click.option("--seed", type=Whole(0, MAX_SEED), help="Random seed.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
              help="reference runs every scenario; array is for large networks, with the same trace.")  # fmt: skip
@click.option("--threads", type=Whole(1, 64), default=1, show_default=True, help="Threads of the array engine.")
@click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE",
              help="Change any key of the scenario; the last value for a key counts.")  # fmt: skip
@click.option("--trace", type=click.Choice(["full", "none"]), default="full", show_default=True,
              help="Content of the trace in the run folder.")  # fmt: skip
@click.option("--out", type=GivenPath(path_type=Path), metavar="DIR", help="Write a run folder at DIR.")
@click.option("--rotate", type=Real(min=0.001), metavar="SECONDS",
              help="Start new trace files every SECONDS of simulated time, for `analyze --follow`.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Check the invariants; exit 1 if one is broken. The array engine checks some of them for all "
              "nodes, and the others for 64 nodes.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--yes", is_flag=True, help="Run even if an estimate exceeds this machine's memory or an hour.")
def command(**options: Any) -> None:
    """Simulate SCENARIO (a TOML file) or a preset (default: the preset r1).

    Options such as --nodes and --set replace values of the scenario.
    """
    from hearsay.sim.plan.engines import CHECKED_NODES, choose_engine, estimate, warnings
    from hearsay.sim.scenario.scenario_file import dump_scenario
    from hearsay.sim.simulate import InvariantViolation
    from hearsay.trace.folder.run_folder import RunFolder

    if options["show_scenario"] and (options["out"] is not None or options["as_json"]):
        raise WrongInput("--show-scenario only prints the scenario; leave out --out and --json")
    if options["rotate"] is not None and (options["out"] is None or options["trace"] == "none"):
        raise WrongInput("--rotate needs --out and --trace full")
    try:
        scenario = given_scenario(options)
        if options["show_scenario"]:
            click.echo(dump_scenario(scenario), nl=False)
            return
        engine, reason = choose_engine(scenario, options["engine"])
        if options["engine"] == "auto":
            click.echo(f"engine: {engine} ({reason})", err=True)
        if options["threads"] > 1:
            one = _why_one_thread(scenario, engine)
            if one is not None:
                click.echo(f"--threads {options['threads']}: {one}", err=True)
        if options["check"] and engine == "array":
            click.echo(f"check: real routers repeat the calls of {CHECKED_NODES} nodes", err=True)
        needs = estimate(scenario, engine)
        refusal = needs.refusal()
        if refusal and not options["yes"]:
            raise WrongInput(f"{refusal}; --yes runs it anyway")
        if needs.is_large:
            click.echo(needs.needs, err=True)
        for warning in warnings(scenario):
            click.echo(f"warning: {warning}", err=True)
        folder = RunFolder.create(options["out"]) if options["out"] is not None else None
        result, stopped_by = _run(scenario, options, folder, engine)
    except InvariantViolation as error:
        raise CommandFailed(f"the checker found broken invariants:\n{error}") from None
    _report(result, options, folder)
    if result.problems:
        raise CommandFailed("the checker found broken invariants:\n  " + "\n  ".join(result.problems))
    if not result.summary.complete:
        raise Signalled(stopped_by[0])
    if options["check"]:
        click.echo("check: all invariants hold", err=True)


def given_scenario(options: dict[str, Any]) -> Scenario:
    """Return the scenario that the options of `simulate` or `watch` describe. Raise `WrongInput` or `ScenarioError`
    if that is impossible.
    """
    from hearsay.sim.scenario.layers import OPTION_KEYS
    from hearsay.sim.scenario.scenario_file import load_scenario, preset_names

    overrides, origins = settings_of(options["overrides"]), dict[str, str]()
    for flag, key in OPTION_KEYS.items():
        if options.get(flag) is not None:
            overrides.append((key, str(options[flag])))
            origins[key] = f"--{flag.replace('_', '-')}"
    if options["scenario"] is not None and options["preset"] is not None:
        raise WrongInput('give a scenario file or --preset, not both (a file may say preset = "…")')
    given: Path | None = options["scenario"]
    if given is not None and str(given) in preset_names() and not given.exists():
        raise WrongInput(f"{given}: no such file; did you mean --preset {given}?")
    return load_scenario(given, options["preset"], overrides, router=options["router"], origins=origins)


def _run(
    scenario: Scenario, options: dict[str, Any], folder: RunFolder | None, engine: EngineName
) -> tuple[Result, list[int]]:
    """Run the scenario. Return the result, and a list with the signal that ended the run early, or an empty list.

    If `auto` selected the array engine, and the run exceeds its capacity, run again on the reference engine. Raise
    `CommandFailed` if that is impossible, if memory runs out, or if the run cannot be written.
    """
    from hearsay.cli.progress import simulated_time
    from hearsay.sim.plan.engines import CapacityExceeded, array_entry, checked_entry, estimate
    from hearsay.sim.simulate import Simulation

    if engine == "array":
        say_if_it_compiles(checked_entry(scenario) if options["check"] else array_entry(scenario))
    write_trace = options["trace"] == "full"
    rotate = options["rotate"]
    try:
        simulation = Simulation(
            scenario,
            check=options["check"],
            folder=folder,
            write_trace=write_trace,
            rotate_us=None if rotate is None else round(rotate * 1_000_000),
            engine=engine,
            threads=options["threads"],
        )
        stopped_by: list[int] = []

        def stop(number: int) -> None:
            stopped_by.append(number)
            simulation.engine.stop_requested = True

        with first_signal(stop), simulated_time(simulation) as progress:
            return simulation.run(progress), stopped_by
    except CapacityExceeded as error:
        refusal = None if options["yes"] else estimate(scenario, "reference").refusal()
        if options["engine"] != "auto" or refusal:
            raise CommandFailed(
                f"{error}; {refusal or 'the reference engine may have room (--engine reference)'}"
            ) from None
        click.echo(f"engine: reference ({error}; starting again)", err=True)
        if folder is not None:
            folder.start_again()
        return _run(scenario, options, folder, "reference")
    except MemoryError:
        raise CommandFailed("out of memory; a smaller network or fewer messages at a time will fit") from None
    except OSError as error:
        where = f"{folder.path}: " if folder is not None else ""
        raise CommandFailed(
            f"{where}cannot write the run: {error.strerror or error}. Finished trace files there are whole; "
            "there is no manifest.json, so the run counts as unfinished"
        ) from None


def say_if_it_compiles(entry: str) -> str | None:
    """Print a message if the function `entry` of the array engine must be compiled before the run.

    Return the message; None if the machine code is in the cache.
    """
    from hearsay.sim.array.compiling import KEPT

    if KEPT.holds(entry):
        return None
    words = "compiling the array engine, once for such runs; this takes up to two minutes"
    if not KEPT.is_kept_for_good:
        where = f"is kept in {KEPT.folder}" if KEPT.folder else "cannot be kept, so every run does this"
        words = (
            "compiling the array engine, which takes up to two minutes; the user's cache cannot be written, so its "
            f"code {where} (XDG_CACHE_HOME names another place)"
        )
    click.echo(words, err=True)
    return words


def _why_one_thread(scenario: Scenario, engine: EngineName) -> str | None:
    """Return the reason why a run uses only one thread. Return None if it can use several, or if it uses one because
    of latencies below 512 µs."""
    from hearsay.sim.plan.engines import chooses_neighbours, part_words

    if engine == "reference":
        return "the reference engine uses one thread; only the array engine uses more"
    if chooses_neighbours(scenario):
        return "routers that choose their neighbours run on one thread"
    if part_words(scenario):
        return "runs with partial messages use one thread"
    return None


def _report(result: Result, options: dict[str, Any], folder: RunFolder | None) -> None:
    if options["as_json"]:
        print_json(result.summary.to_json())
        return
    click.echo(str(result.summary))
    if folder is not None:
        click.echo(f"run folder: {folder.path}")
