from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_docs


def name(path: Path) -> str:
    return path.relative_to(check_docs.ROOT).as_posix()


@pytest.mark.parametrize("path", check_docs.files(check_docs.LINKED), ids=name)
def test_links(path: Path) -> None:
    assert check_docs.check_links(path) == []


@pytest.mark.parametrize("path", check_docs.files(check_docs.EXECUTED), ids=name)
def test_code(path: Path) -> None:
    assert check_docs.check_code(path) == []


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
