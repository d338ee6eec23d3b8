from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer.main

import gnpool
from gnpool.cli.app import app
from tools import check_docs, doc_figures, notebook

NOTEBOOKS = sorted(notebook.NOTEBOOKS.glob("*.ipynb"))


def name(path: Path) -> str:
    return path.relative_to(check_docs.ROOT).as_posix()


@pytest.mark.parametrize("path", check_docs.files(check_docs.LINKED), ids=name)
def test_links(path: Path) -> None:
    assert check_docs.check_links(path) == []


@pytest.mark.parametrize("path", check_docs.files(check_docs.EXECUTED), ids=name)
def test_code(path: Path) -> None:
    assert check_docs.check_code(path) == []


def commands(path: Path) -> list[str]:
    """The lines of the console blocks of a page that call gnpool."""
    blocks = check_docs.split(path.read_text(encoding="utf-8"))[1]
    lines = [line for block in blocks if block.language == "console" for line in block.text.splitlines()]
    return [line for line in lines if line.startswith("gnpool ")]


@pytest.mark.parametrize("path", check_docs.files(check_docs.EXECUTED), ids=name)
def test_commands_and_their_options_exist(path: Path) -> None:
    for line in commands(path):
        command = typer.main.get_command(app)
        words = shlex.split(line, comments=True)[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        while words[:1] == ["--load"]:  # an option of the program, with its value
            words = words[2:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
            known |= {o for parameter in command.params for o in (*parameter.opts, *parameter.secondary_opts)}
        assert not getattr(command, "commands", {}) or set(words) <= known, f"no such command: {line}"
        options = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
        assert options <= known | {"--help"}, line


def navigation() -> list[str]:
    """The pages of the site's navigation, and its parts."""
    text = (check_docs.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [line.removeprefix("  - ") for line in text.partition("\nnav:\n")[2].splitlines()]


def test_the_navigation_has_four_parts_and_few_entries() -> None:
    lines = navigation()
    assert [line for line in lines if not line.startswith(" ")] == ["Start:", "Guides:", "Reference:", "Results:"]
    pages = [line.split(": ")[1] for line in lines if line.endswith(".md")]
    assert len(pages) == len(set(pages)) <= 25
    assert all(len(line) - len(line.lstrip()) == 6 for line in lines if line.startswith(" "))  # no deeper level


LISTS = ("index.md", "tutorials.md", "reference.md", "results.md", "record.md")  # pages that lead to others


@pytest.mark.parametrize("path", check_docs.files(("docs/*.md", "docs/*/*.md")), ids=name)
def test_every_page_is_in_the_navigation_or_in_a_list(path: Path) -> None:
    place = path.relative_to(check_docs.ROOT / "docs").as_posix()
    linked = "".join((check_docs.ROOT / "docs" / page).read_text(encoding="utf-8") for page in LISTS)
    assert any(line.endswith(f": {place}") for line in navigation()) or f"]({place})" in linked


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_every_notebook_is_listed(path: Path) -> None:
    assert f"(notebooks/{path.name})" in (check_docs.ROOT / "docs" / "tutorials.md").read_text(encoding="utf-8")


def test_the_api_page_lists_every_public_name() -> None:
    page = (check_docs.ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(gnpool.__all__) - {"__version__"} <= set(re.findall(r"^::: [\w.]+\.(\w+)$", page, re.MULTILINE))


def test_the_readme_is_short() -> None:
    assert len((check_docs.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("path", check_docs.files(("docs/*.md",)), ids=name)
def test_pages_that_people_write_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    written = re.sub(r"<!-- \w+:(?!end)[\w ]+ -->\n.*?<!-- \w+:end -->\n", "", text, flags=re.DOTALL)
    assert len(written.splitlines()) <= 250


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebook_runs(path: Path) -> None:
    done = notebook.run(path)
    cells = [cell for cell in done["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in cells if cell["execution_count"] is None] == []
    assert any("assert " in "".join(cell["source"]) for cell in cells)  # it checks what it says


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebook_is_stored_with_its_outputs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    printing = [cell for cell in cells if "print(" in "".join(cell["source"])]
    assert all(cell["outputs"] for cell in printing if "def " not in "".join(cell["source"]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebook_links(path: Path, tmp_path: Path) -> None:
    text = notebook.markdown(path)
    beside = tmp_path / "docs" / "notebooks" / "page.md"
    beside.parent.mkdir(parents=True)
    for other in [*(check_docs.ROOT / "docs").glob("*.md"), *NOTEBOOKS]:
        copy = tmp_path / other.relative_to(check_docs.ROOT)
        copy.write_text(other.read_text(encoding="utf-8"), encoding="utf-8")
    beside.write_text(text, encoding="utf-8")
    assert check_docs.check_links(beside) == []


def test_a_notebook_runs_like_in_jupyter(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(
        '{"cells": [{"cell_type": "markdown", "source": ["# A"]},'
        ' {"cell_type": "code", "source": ["x = 2\\n", "print(x)\\n", "x + 1"], "outputs": []},'
        ' {"cell_type": "code", "source": ["x *= 5\\n", "x"], "outputs": []}]}'
    )
    first, second = (cell["outputs"] for cell in notebook.run(path)["cells"][1:])
    assert [first[0]["text"], first[1]["data"]["text/plain"]] == [["2\n"], ["3"]]
    assert second[0]["data"]["text/plain"] == ["10"]


def test_figures_are_drawn(tmp_path: Path) -> None:
    doc_figures.growth(tmp_path / "a.png")
    doc_figures.p_and_q(tmp_path / "b.png")
    doc_figures.plane(tmp_path / "c.png", epochs=2)
    doc_figures.lattice(tmp_path / "d.png")
    assert all((tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in "abcd")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_anchors_are_githubs() -> None:
    text = "# A `norm_pool`, exactly\n## [Linked](x.md)\n### Twice\n# Twice\n```text\n# code\n```\n"
    assert check_docs.anchors(text) == {"a-norm_pool-exactly", "linked", "twice", "twice-1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a](gone.md)", ":1: 'gone.md' does not exist"),
        ("x\n![a](gone.png)", ":2: 'gone.png' does not exist"),
        ("[`code`](gone.md) and [b](page.md)", ":1: 'gone.md' does not exist"),
        ("[a]: gone.md", ":1: 'gone.md' does not exist"),
        ("# Here\n[a](#there)", ":2: '#there' names no heading"),
        ("# Here\n[a](page.md#there)", ":2: 'page.md#there' names no heading"),
    ],
)
def test_broken_link_is_caught(page: Path, text: str, message: str) -> None:
    page.write_text(text)
    assert check_docs.check_links(page) == [f"{page}{message}"]


def test_good_links_pass(page: Path) -> None:
    page.write_text(
        "# Here\n[a](#here) [b](page.md#here) [c](.) [d](https://example.org/gone) `[e](gone.md)`\n"
        "```text\n[f](gone.md)\n```\n"
    )
    assert check_docs.check_links(page) == []


def test_blocks_share_a_namespace_and_print_what_they_promise(page: Path) -> None:
    page.write_text("```python\nx = 20\n```\n```python\nprint(x + 1)\n```\nwhich prints\n```text\n21\n```\n")
    assert check_docs.check_code(page) == []


def test_random_numbers_start_from_the_seed(page: Path) -> None:
    page.write_text("```python\nimport torch\nprint(torch.initial_seed())\n```\n```text\n3\n```\n")
    assert check_docs.check_code(page, seed=3) == []
    (problem,) = check_docs.check_code(page)
    assert "the block prints\n0\nand not\n3" in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page.md:2: the block prints\n1\nand not\n2"),
        ("\n```python\nx = 1\nx / 0\n```\n", 'page.md", line 4, in <module>'),
        ("```python\nx = \n```\n", "SyntaxError"),
        ("```python\nimport sys; sys.exit(3)\n```\n", "page.md:2: the block fails"),
    ],
)
def test_wrong_block_is_caught(page: Path, text: str, message: str) -> None:
    page.write_text(text)
    (problem,) = check_docs.check_code(page)
    assert message in problem


def test_open_fence_is_caught(page: Path) -> None:
    page.write_text("```python\nx = 1\n")
    with pytest.raises(ValueError, match="opened at line 1 is never closed"):
        check_docs.check_code(page)
