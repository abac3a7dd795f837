"""The notebooks run from their first cell to their last, each in its own folder, and are stored without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from test_examples import internal_imports

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = "01-first-look"
GUIDE = FOLDER.parent / "guide" / "python.md"


def cells(book, kind):
    return [cell for cell in nbformat.read(book, as_version=4).cells if cell.cell_type == kind]


def test_there_are_four_and_the_guide_names_them():
    guide = GUIDE.read_text(encoding="utf-8")
    assert len(BOOKS) == 4
    assert [book.name for book in BOOKS if f"../notebooks/{book.name}" not in guide] == []


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_notebooks_are_stored_without_outputs(book):
    nbformat.validate(nbformat.read(book, as_version=4))
    for cell in cells(book, "code"):
        assert (cell.outputs, cell.execution_count) == ([], None)
        assert internal_imports(cell.source) == set()


@pytest.mark.parametrize(
    "book", [pytest.param(book, marks=() if book.stem == QUICK else pytest.mark.thorough) for book in BOOKS],
    ids=lambda book: book.stem,
)  # fmt: skip
def test_a_notebook_runs_twice(book, tmp_path):
    """Users run a notebook again from its first cell, when its files exist already."""
    read = nbformat.read(book, as_version=4)
    client = NotebookClient(read, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    code = [(place, cell) for place, cell in enumerate(read.cells) if cell.cell_type == "code"]
    with client.setup_kernel():
        for _ in range(2):
            for place, cell in code:
                client.execute_cell(cell, place)
            shown = [cell for _, cell in code if cell.outputs]
            assert len(shown) >= 3
            for cell in shown:
                assert all(output.get("name") != "stderr" for output in cell.outputs), cell
