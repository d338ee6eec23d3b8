"""The built site: it builds without a warning, loads nothing from elsewhere, and every link on it leads somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

for package in ("mkdocs", "material", "mkdocstrings", "griffe", "latex2mathml"):
    pytest.importorskip(package, reason="the site needs pip install 'gnpool[docs]'")

import gnpool  # noqa: E402 -- behind the check that the tools are there
from tools import docstrings, site_hooks  # noqa: E402
from tools.check_docs import ROOT  # noqa: E402

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LINKS_THAT_LOAD = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    images: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if name := values.get("id"):
            self.ids.add(name)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "link" and LINKS_THAT_LOAD & set((values.get("rel") or "").split()):
            self.loads.append(values.get("href") or "")
        if LOADED.get(tag) in values:
            self.loads.append(values[LOADED[tag]] or "")
        if tag == "img":
            self.images.append(values.get("alt"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING -" not in done.stderr
    assert "contains a link" not in done.stderr  # mkdocs' notices about anchors
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = Page()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_every_source_has_its_page(site: Path) -> None:
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in sources if not (site / name).is_file()] == []
    for page in site_hooks.PAGES:
        assert (site / page).with_suffix(".html").is_file()


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    far = {(path.name, url) for path, page in pages.items() for url in page.loads if urlsplit(url).netloc}
    assert far == set()
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)'\"]*", path.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_links_anchors_and_files(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute, since it can stand at any depth
            continue
        for url in page.links + page.loads:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {url}")
    assert broken == []


@pytest.mark.slow
def test_images_say_what_they_show(pages: dict[Path, Page]) -> None:
    assert [path.name for path, page in pages.items() for alt in page.images if not alt] == []


@pytest.mark.slow
def test_formulas_are_mathml(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert "arithmatex" not in path.read_text(encoding="utf-8"), path.name
    assert (site / "theory.html").read_text(encoding="utf-8").count("<math") > 20
    assert "<msup>" in (site / "api" / "ops.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("room", site_hooks.ROOMS)
def test_the_api_has_every_class_and_function(room: str, pages: dict[Path, Page], site: Path) -> None:
    module = importlib.import_module(f"gnpool.{room}")
    ids = pages[site / "api" / f"{room}.html"].ids
    values = [getattr(module, name) for name in module.__all__ if not name.isupper()]
    assert [f"{v.__module__}.{v.__qualname__}" for v in values if f"{v.__module__}.{v.__qualname__}" not in ids] == []


def test_every_room_has_a_page() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "gnpool").glob("*/__init__.py")}
    assert rooms - {"cli", "display"} == set(site_hooks.ROOMS)  # these two have no public names


@pytest.mark.slow
def test_the_api_page_has_the_public_names(pages: dict[Path, Page], site: Path) -> None:
    listed = {name.rpartition(".")[2] for name in pages[site / "api.html"].ids}
    assert set(gnpool.__all__) - {"__version__"} <= listed


@pytest.mark.slow
def test_the_search_finds_names_and_leaves_sources_out(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert '"comparison.html"' in index
    assert '"source/' not in index


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../src/gnpool/ops/README.md#centring)", "[a](operator.md#centring)"),
        ("[a](../README.md#speed) and [b](lab.md)", "[a](overview.md#speed) and [b](lab.md)"),
        ("[a](../benchmarks/comparison.py)", "[a](source/benchmarks/comparison.py.md)"),
        ("see [the raw scores](../results), all", "see the raw scores, all"),
        ("![p](figures/growth.png)", "![p](figures/growth.png)"),
        ("[a](#here) [b](https://example.org/x)", "[a](#here) [b](https://example.org/x)"),
        ("`[a](../README.md)` [`b`](../README.md)", "`[a](../README.md)` [`b`](overview.md)"),
        ("- a\n  - b", "- a\n    - b"),
        ("| 1.2 ± 0.3 % | a b |", "| 1.2\u00a0±\u00a00.3\u00a0% | a b |"),
        ("1. a\n\n   b\n2. c\n3. d", "1. a\n\n    b\n\n2. c\n3. d"),
        ("```text\n[a](../README.md)\n```", "```text\n[a](../README.md)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(text: str, expected: str) -> None:
    assert site_hooks.relinked(text, "docs/page.md", "page.md") == expected + "\n"


def test_links_of_a_page_from_elsewhere() -> None:
    text = "[a](docs/lab.md) [b](src/gnpool/ops/README.md) [c](CITATION.cff)"
    expected = "[a](lab.md) [b](operator.md) [c](source/CITATION.cff.md)\n"
    assert site_hooks.relinked(text, "README.md", "overview.md") == expected


def test_a_formula_that_cannot_be_converted_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be converted"):
        site_hooks.on_page_content(r'<span class="arithmatex">\(\nonsense{x}\)</span>')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Values :math:`n^{-q}` of :func:`gnpool.read`.", "Values $n^{-q}$ of `read`."),
        ("a (int): One. (default:\n    ``1``)\nb: (default: all)", "a (int): One.\nb: (default: all)"),
        ('From `"A\n    Title" <https://a.org>`_.', "From [A Title](https://a.org)."),
        (".. math::\n    a\n    b\n\nwhere", "\n$$\na\nb\n$$\n\nwhere"),
        (".. note::\n    One.\n    Two.", "\n!!! note\n\n    One.\n    Two.\n"),
        ("Example:\n    >>> 1\n    1", "Examples:\n    >>> 1\n    1"),
        ("Shapes:\n    - **x:** (N)\n\nMore", "**Shapes**\n\n- **x:** (N)\n\nMore"),
        ("==  ====\np   name\n==  ====\n1   a | b\n==  ====", "\n| p | name |\n|---|---|\n| 1 | a \\| b |\n"),
    ],
    ids=["roles", "default", "address", "math", "note", "example", "shapes", "table"],
)
def test_docstrings_become_markdown(text: str, expected: str) -> None:
    assert docstrings.markdown(text) == expected
