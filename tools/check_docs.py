"""Check the documentation: relative links resolve, and the code of ```python blocks runs.

Links: the file must exist, and `#anchor` must be a heading of it. Addresses with a scheme are not followed.

Code: the ```python blocks of one file run in order in one fresh interpreter and share a namespace. If the
next fenced block after one is ```text, it is the block's expected output, compared exactly but for trailing
white space. torch draws from `--seed`, so that the check is repeatable; what a page prints must
hold for every seed (`python tools/check_docs.py --seed 1`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "src/gnpool/ops/README.md", "docs/*.md", "docs/*/*.md")
EXECUTED = ("README.md", "docs/*.md", "docs/*/*.md")

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(\w*)")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the line its code starts at, and the code."""

    language: str
    line: int
    text: str


def split(text: str) -> tuple[list[tuple[int, str]], list[Block]]:
    """Separate Markdown into numbered prose lines and fenced blocks."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    fence, language, start, body = "", "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and line.strip() == match[1]:
                blocks.append(Block(language, start, "\n".join(body)))
                fence = ""
            else:
                body.append(line)
        elif match:
            fence, language, start, body = match[1], match[2], number + 1, []
        else:
            prose.append((number, line))
    if fence:
        raise ValueError(f"the block opened at line {start - 1} is never closed")
    return prose, blocks


def anchors(text: str) -> set[str]:
    """Anchors of a Markdown file's headings, in GitHub's manner."""
    found: set[str] = set()
    for _, line in split(text)[0]:
        if match := HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count, name = 0, slug
            while name in found:
                count += 1
                name = f"{slug}-{count}"
            found.add(name)
    return found


def check_links(path: Path) -> list[str]:
    """Return the links of a Markdown file that do not resolve, as messages."""
    problems = []
    text = path.read_text(encoding="utf-8")
    for number, line in split(text)[0]:
        targets = LINK.findall(re.sub(r"(`+).*?\1", "", line))  # without inline code
        if match := DEFINITION.match(line):
            targets.append(match[1])
        for target in targets:
            if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                problems.append(f"{path}:{number}: '{target}' does not exist")
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                problems.append(f"{path}:{number}: '{target}' names no heading")
    return problems


def run_blocks(path: Path, seed: int = 0) -> list[str]:
    """Run the ```python blocks of a Markdown file here and return what went wrong, as messages."""
    torch.manual_seed(seed)
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = split(path.read_text(encoding="utf-8"))[1]
    for place, block in enumerate(blocks):
        if block.language != "python":
            continue
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                # Empty lines in front give the traceback the line numbers of the Markdown file.
                exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)
        except (Exception, SystemExit):
            return [f"{path}:{block.line}: the block fails\n{traceback.format_exc()}"]
        follows = blocks[place + 1] if place + 1 < len(blocks) else None
        if follows is not None and follows.language == "text":
            wanted, got = _stripped(follows.text), _stripped(printed.getvalue())
            if wanted != got:
                return [f"{path}:{block.line}: the block prints\n{got}\nand not\n{wanted}"]
    return []


def check_code(path: Path, seed: int = 0) -> list[str]:
    """Run the ```python blocks of a Markdown file in a fresh interpreter and an empty folder."""
    if not any(block.language == "python" for block in split(path.read_text(encoding="utf-8"))[1]):
        return []
    command = [sys.executable, str(Path(__file__).resolve()), "--run", str(path.resolve()), "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [done.stdout.strip() or done.stderr.strip()]


def files(patterns: tuple[str, ...]) -> list[Path]:
    """Return the files that the patterns name; a plain name is listed even if the file is missing."""
    return [path for name in patterns for path in (sorted(ROOT.glob(name)) if "*" in name else [ROOT / name])]


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main() -> int:
    """Check every file, print the problems, and return the exit status."""
    parser = argparse.ArgumentParser(description="Check the links and run the code of the documentation.")
    parser.add_argument("--run", type=Path, metavar="FILE", help="only run the code of FILE, in this process")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    arguments = parser.parse_args()
    if arguments.run is not None:
        problems = run_blocks(arguments.run, arguments.seed)
    else:
        missing = [path for path in files(LINKED) if not path.is_file()]
        problems = [f"{path} is missing" for path in missing]
        problems += [item for path in files(LINKED) if path not in missing for item in check_links(path)]
        executed = [path for path in files(EXECUTED) if path not in missing]
        problems += [item for path in executed for item in check_code(path, arguments.seed)]
    for problem in problems:
        print(problem.replace(f"{ROOT}{os.sep}", ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
