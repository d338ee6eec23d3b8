from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gnpool.report import StoredStudy, page, read_study
from gnpool.report.page.page import asset
from tests.report.shared import EVIL, make_study, tables

VOID = {"meta", "input", "br", "wbr"}


class Tree(HTMLParser):
    """Reads a document strictly: every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(read_study(make_study(tmp_path_factory.mktemp("study"))))


@pytest.fixture(scope="module")
def tree(text: str) -> Tree:
    return Tree(text)


def test_the_answer_stands_on_top(tree: Tree) -> None:
    words = " ".join(" ".join(tree.words).split())
    assert "GNP matches or beats the paper in all 2 published cells." in words
    assert "Of 3 published cells of the baselines, 1 are matched or better." in words
    assert "Not run: 1 of the baselines." in words
    assert "Reduced. less of everything." in words


def test_sections_and_their_links(tree: Tree) -> None:
    sections = [attributes["id"] for attributes in tree.all("section")]
    assert sections == ["answer", "sizes", "tables", "plane", "learning", "runs"]
    ids = Counter(attributes["id"] for _, attributes in tree.tags if "id" in attributes)
    assert max(ids.values()) == 1
    targets = [attributes["href"] for attributes in tree.all("a")]
    assert all(target is not None and target.startswith("#") and target[1:] in ids for target in targets)


def test_nothing_is_loaded(text: str, tree: Tree) -> None:
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not {"img", "link", "iframe", "object", "base"} & {tag for tag, _ in tree.tags}
    assert not [1 for _, attributes in tree.tags if "src" in attributes or "style" in attributes]
    policy = next(a["content"] for a in tree.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    for name, kind in (("page.js", "script"), ("page.css", "style")):
        digest = base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_names_stay_text(text: str, tree: Tree) -> None:
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert len(tree.all("script")) == 2  # the data of the plane, and the page's own
    data = re.search(r'<script type="application/json" id="plane-data">(.*?)</script>', text)
    assert data is not None
    labels = [walk["label"] for walk in json.loads(data[1])["walks"]]
    assert labels == ["harmonic · gnp · readout", f"harmonic · tree · gnp {EVIL} · readout"]


def test_tables_can_be_read_aloud(tree: Tree) -> None:
    assert len(tree.all("table")) == len(tree.all("caption")) > 5
    assert all(attributes.get("scope") in ("row", "col") for attributes in tree.all("th"))
    regions = [attributes for attributes in tree.all("div") if attributes.get("class") == "scroll"]
    assert all(a["role"] == "region" and a["tabindex"] == "0" and a["aria-label"] for a in regions)


def test_charts_have_words(tree: Tree) -> None:
    charts = [attributes for attributes in tree.all("svg") if attributes.get("class") == "chart"]
    assert len(charts) == 4  # two tasks by size, two of learning
    assert all(chart["role"] == "img" and chart["tabindex"] == "0" for chart in charts)
    label = charts[0]["aria-label"]
    assert label == "invsize. Error against size. GNP: 0.01 % at 50, 20 % at 1000; sum,max: 40 % at 50, 800 % at 1000"


def test_what_was_run(tree: Tree) -> None:
    words = " ".join("".join(tree.words).split())
    for fact in ("0, 1, 2", "3 with 9 runs, of which 3 failed", "2 min", "1 score, 4 training", "cpu: x"):
        assert fact in words
    assert "torch 2.13.0" in words
    assert "triton" not in words  # was not installed
    assert "sum, then max (2 seeds); b <script>alert(1)</script> (1 seed)" in words
    assert "rate 0.001, rate of p 0.03, rmsprop" in words


def test_seeds_are_told_once_and_the_floor_of_the_charts_too() -> None:
    first, second = tables()
    text = page(StoredStudy("a", tables=[first, {**second, "meta": {**second["meta"], "seeds": [0, 7]}}]))
    assert "<dt>seeds</dt><dd>0, 1, 2, 7</dd>" in text
    assert "Errors below 0.01 are drawn at 0.01." in text


def test_equal_results_give_equal_pages(tmp_path: Path) -> None:
    studies = [read_study(make_study(tmp_path / name)) for name in "ab"]
    first, second = (page(dataclasses.replace(study, name="same")) for study in studies)
    assert first == second


@pytest.mark.parametrize(
    ("study", "sections"),
    [
        pytest.param(StoredStudy("empty"), ["answer", "plane", "runs"], id="nothing"),
        pytest.param(StoredStudy("a", tables=tables()[:1]), ["answer", "tables", "plane", "runs"], id="results alone"),
        pytest.param(StoredStudy("a", tables=tables()[1:]), ["answer", "sizes", "plane", "runs"], id="sizes alone"),
    ],
)
def test_parts_may_be_missing(study: StoredStudy, sections: list[str]) -> None:
    tree = Tree(page(study))
    assert [attributes["id"] for attributes in tree.all("section")] == sections


def test_a_table_where_nothing_was_run() -> None:
    table: dict[str, Any] = tables()[0]
    for cell in table["cells"]:
        cell["ours"], cell["verdict"] = None, "not run"
    words = " ".join("".join(Tree(page(StoredStudy("a", tables=[table]))).words).split())
    assert "None of the 6 published cells was run" in words
