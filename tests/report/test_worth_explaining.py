"""A report names the messages that are worth explaining, with commands that work and links that lead somewhere."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import hearsay
from result_tables import write_table
from runs_with_tables import publications_and_deliveries, simulate_with_tables
from test_write_report import ParsedPage

from chromium import open_page
from hearsay.report.run_page import write_report


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [simulate_with_tables(folder / name, seed, loss=0.6) for seed, name in enumerate(("<b>a'b", "right"), 1)]


@pytest.fixture(scope="module")
def report(runs) -> Path:
    return write_report(runs[:1], None)


def read(file: Path) -> ParsedPage:
    return ParsedPage(file.read_text(encoding="utf-8"))


def commands_on(page: ParsedPage) -> list[str]:
    return [text for text in page.texts if text.startswith("hearsay explain ") and "--message" in text]


def links_on(page: ParsedPage) -> set[str]:
    links = {str(attributes["href"]) for name, attributes in page.tags if name == "a"}
    assert all(link.startswith("#") for link in links)
    return {link[1:] for link in links}


def test_the_slowest_and_the_least_delivered_are_named(runs, report):
    published, delivered = publications_and_deliveries(runs[0])
    last = {
        number: max(row.time_us for row in rows) - published[number].time_us for number, rows in delivered.items()
    }
    slowest = sorted(last, key=lambda number: (-last[number], number))[:3]
    got = {number: len(rows) for number, rows in delivered.items()}
    least = [number for number in sorted(got, key=lambda number: (got[number], number))[:3] if got[number] < 30]
    assert least
    asked = [shlex.split(command)[4:] for command in commands_on(read(report))]
    assert sum("--node" in words for words in asked) == 3
    wanted = [[str(number)] for number in slowest] + [[str(number), "--missing"] for number in least]
    assert [words for words in asked if "--node" not in words] == wanted


def test_deliveries_to_nodes_that_are_not_due_do_not_make_a_message_slow(runs, tmp_path):
    run = tmp_path / "churn"
    shutil.copytree(runs[0], run)
    lines = pq.read_table(run / "metrics" / "messages").sort_by("message").to_pylist()
    for line, (t100_us, t99_us) in zip(lines, [(8_000_000, 900), (None, 1000), (None, 7_000_000)], strict=False):
        undue = {"delivered": line["delivered_eligible"] + 2, "max_us": 9_000_000}
        line |= {**undue, "t100_us": t100_us, "t99_us": t99_us}
    write_table(run, "messages", lines)
    page = read(write_report([run], tmp_path / "out.html"))
    slow = [text for text in page.texts if " had it after " in text or text.startswith("its last delivery took")]
    assert slow[0] == "the last due node had it after 8\N{NO-BREAK SPACE}s, other nodes later"
    assert slow[1] == "99 % of the due nodes had it after 7\N{NO-BREAK SPACE}s, other nodes later"
    assert slow[2].startswith("its last delivery took")
    assert [shlex.split(command)[4] for command in commands_on(page)][:2] == ["0", "2"]


def test_every_command_works_as_it_stands(report):
    assert "hearsay explain RUN" not in read(report).text
    for command in commands_on(read(report)):
        done = hearsay(*shlex.split(command)[1:], "--json")
        assert (done.returncode, done.stderr) == (0, "")
        assert str(json.loads(done.stdout)["message"]) == shlex.split(command)[4]


def test_every_link_leads_somewhere_on_the_page(runs, report, tmp_path):
    both = write_report(runs, tmp_path / "both.html")
    all_of_both = write_report(runs, tmp_path / "all.html", explain=True)
    for file, explained in ((report, 4), (both, 0), (all_of_both, 4)):
        page = read(file)
        ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
        assert len(ids) == len(set(ids))
        assert links_on(page) <= set(ids)
        assert sum(link.startswith("explained-") for link in links_on(page)) >= explained
        assert len(commands_on(page)) >= 4


def test_without_a_trace_no_explanation_is_offered(runs, tmp_path):
    shutil.copytree(runs[0] / "metrics", tmp_path / "tables" / "metrics")
    page = read(write_report([tmp_path / "tables"], tmp_path / "out.html", explain=True))
    assert commands_on(page) == []
    assert "Worth explaining" not in page.text


def test_what_cannot_be_explained_has_a_reason_and_no_link(runs, tmp_path):
    run = tmp_path / "damaged"
    shutil.copytree(runs[0], run)
    for file in (run / "trace").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    page = read(write_report([run], tmp_path / "out.html"))
    assert "Worth explaining" in page.text
    assert "not a readable Parquet file" in page.text
    assert not any(link.startswith("explained-") for link in links_on(page))


def test_a_link_opens_the_explanation_and_a_button_copies_the_command(browser, report):
    page = open_page(browser, report)
    assert page.value("document.querySelectorAll('details.explained[open]').length") == 0
    page.value("document.querySelector('#explained a').click()")
    assert page.value("document.querySelectorAll('details.explained[open]').length") == 1
    assert any(text.startswith("What they have in common") for text in page.visible_texts("details.explained h4"))
    assert page.value("document.querySelectorAll('details[open] .lanes svg .had').length") > 1
    page.value("document.querySelector('#explained .copy').click()")
    page.until("document.querySelector('#explained .copy').textContent !== 'Copy'")
    (first, *_) = commands_on(read(report))
    assert page.value("getSelection().toString().trim()") == first
    assert page.console_messages() == []


def test_an_address_that_names_an_explanation_opens_it(browser, report):
    """When the page is opened, and when the address of the open page changes."""
    one, *_, other = sorted(link for link in links_on(read(report)) if link.startswith("explained-"))
    unfolded = "[...document.querySelectorAll('details.explained[open]')].map(each => each.id).sort().join()"
    page = open_page(browser, report)
    page.visit("about:blank")
    page.visit(f"{report.as_uri()}#{one}")
    page.until(f"{unfolded} === '{one}'")
    page.value(f"location.hash = '{other}'")
    page.until(f"{unfolded} === '{one},{other}'")


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)])
def test_explanations_fit_wide_and_narrow_pages(browser, report, dark, width):
    page = open_page(browser, report, dark=dark, width=width)
    page.value("document.querySelectorAll('details.explained').forEach(each => { each.open = true; })")
    assert page.value("document.documentElement.scrollWidth") <= width


def test_figures_and_explanations_exclude_each_other(runs, tmp_path):
    done = hearsay("report", runs[0], "--figures", tmp_path / "figures", "--explain")
    assert done.returncode == 2
    assert "--figures and --explain" in done.stderr
