"""Hooks of mkdocs that make every page of the site from a single source.

- Pages with a source elsewhere (README, CONTRIBUTING, CHANGELOG, SECURITY, derivation, notebooks) join the site.
- Links that leave ``docs/`` lead to a page with that file's source; a link to a folder becomes plain text.
- The API has a page for each room, with the names of its ``__all__``.
- Formulas become MathML when the site is built, so that the reader's browser loads and runs nothing for them.
- Numbers in tables stay on one line with their unit and deviation.
- Text below an item of a list is indented as Python's Markdown needs it.
- Anchors are GitHub's, which ``check_docs.py`` checks.

mkdocs calls the functions ``on_...`` by their names; run it as ``python -m mkdocs``, in the root of the repository.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
from typing import Any

from latex2mathml import converter
from mkdocs.structure.files import File, Files

from tools.check_docs import LINK, ROOT, split
from tools.notebook import NOTEBOOKS
from tools.notebook import markdown as notebook_page

DOWNLOAD = '\n<a href="{name}" download>Download this notebook</a>\n'
PAGES = {
    "overview.md": "README.md",
    "operator.md": "src/gnpool/ops/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    **{f"notebooks/{path.stem}.md": f"docs/notebooks/{path.name}" for path in sorted(NOTEBOOKS.glob("*.ipynb"))},
}  # page of the site -> its source
ROOMS = (
    *("ops", "nn", "training", "insight", "fit", "models", "data"),
    *("tasks", "lab", "store", "engine", "report", "influence", "theory"),
)
LANGUAGES = {".py": "python", ".toml": "toml", ".csv": "text", ".txt": "text", ".cff": "yaml"}
MATH = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.DOTALL)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
NUMBER = re.compile(r"(?<=\d) (?=[±%])|(?<=±) (?=\d)")  # the spaces of "1.2 ± 0.3 %"


def slug(title: str, separator: str) -> str:
    """The anchor of a heading, in GitHub's manner."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    """Choose GitHub's anchors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in ``docs/``."""
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for page, source in PAGES.items():
        path = ROOT / source
        if path.suffix == ".ipynb":
            texts[source] = notebook_page(path) + DOWNLOAD.format(name=path.name)
        else:
            texts[source] = path.read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=texts[source]))
    for room in ROOMS:
        files.append(File.generated(config, f"api/{room}.md", content=room_page(room)))
    for name in sorted({name for origin, text in texts.items() for name in outside(origin, text)}):
        files.append(File.generated(config, f"source/{name}.md", content=source_page(name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite links to the places of their targets on the site."""
    name = page.file.src_uri
    if name.startswith(("source/", "api/")):
        return markdown
    return relinked(markdown, PAGES.get(name, f"docs/{name}"), name)


def on_page_content(text: str, **_: Any) -> str:
    """Turn formulas into MathML."""
    return MATH.sub(_mathml, text)


def room_page(room: str) -> str:
    """The API page of a room: its docstring, and every class and function of its ``__all__``."""
    tree = ast.parse((ROOT / "src" / "gnpool" / room / "__init__.py").read_text(encoding="utf-8"))
    # the defining module, because a function may have the name of its module
    paths = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)  # some rooms import below TYPE_CHECKING
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    parts = [f"# gnpool.{room}", (ast.get_docstring(tree) or "").replace("``", "`")]
    parts += [
        f"::: {paths[name]}\n    options:\n      heading_level: 2\n      heading: {name}\n      toc_label: {name}"
        for name in names
        if not name.isupper()
    ]
    return "\n\n".join(parts) + "\n"


def source_page(name: str) -> str:
    """A file of the repository as a page."""
    path = ROOT / name
    language = LANGUAGES.get(path.suffix, "text")
    text = path.read_text(encoding="utf-8").rstrip()
    return f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {name}\n\n`````{language}\n{text}\n`````\n"


def place(name: str) -> str | None:
    """The address of a repository file on the site; None for a folder."""
    for page, source in PAGES.items():
        if source == name:
            return page
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"source/{name}.md" if (ROOT / name).is_file() else None


def outside(origin: str, text: str) -> set[str]:
    """The files that ``text`` links to and that need a page of their own."""
    found = set()
    for _, line in split(text)[0]:
        for target in LINK.findall(line):
            name = _resolve(origin, target)
            if name is not None and (place(name) or "").startswith("source/"):
                found.add(name)
    return found


def relinked(text: str, origin: str, page: str) -> str:
    """``text``, written at ``origin`` in the repository, with its links rewritten for ``page`` of the site."""
    lines = text.splitlines()
    for number, line in split(text)[0]:
        spans = [match.span() for match in CODE.finditer(line)]

        def replace(match: re.Match[str], spans: list[tuple[int, int]] = spans) -> str:
            name = _resolve(origin, match[1])
            if name is None or any(low <= match.start() < high for low, high in spans):
                return match[0]
            target = place(name)
            if target is None:
                return match[0][1 : match[0].rindex("](")]
            anchor = match[1].partition("#")[1:]
            address = posixpath.relpath(target, posixpath.dirname(page) or ".") + "".join(anchor)
            start, end = match.start(1) - match.start(), match.end(1) - match.start()
            return match[0][:start] + address + match[0][end:]

        line = LINK.sub(replace, line)
        if line.startswith("|"):
            line = NUMBER.sub("\u00a0", line)
        line = re.sub(r"^ {2,3}(?=\S)", " " * 4, line)  # below "- " or "1. ", where Python's Markdown wants four
        if number > 1 and re.match(r"\d+\. ", line) and lines[number - 2].startswith(" "):
            line = "\n" + line  # or it would join the paragraph above
        lines[number - 1] = line
    return "\n".join(lines) + "\n"


def _resolve(origin: str, target: str) -> str | None:
    """The file in the repository to which a link leads; None for an address or an anchor of the page itself."""
    name = target.partition("#")[0]
    if not name or re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), name))


def _mathml(match: re.Match[str]) -> str:
    block = match[2] == "["
    latex = html.unescape(match[3]).strip().replace(r"\Big\Vert", r"\parallel")  # the converter does not know it
    formula = converter.convert(latex, display="block" if block else "inline")
    if "\\" in formula:
        raise ValueError(f"the formula cannot be converted: {latex}")
    return f'<div class="formula">{formula}</div>' if block else formula
