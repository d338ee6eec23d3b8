"""Runs the notebooks of docs/notebooks without Jupyter; ``python -m tools.notebook --write`` stores their outputs.

The code cells of a notebook run in order in one namespace, as in Jupyter; only text outputs are kept. The namespace is
a separate module, so that classes defined in a cell can be found.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

from tools.check_docs import ROOT

NOTEBOOKS = ROOT / "docs" / "notebooks"


def run(path: Path) -> dict[str, Any]:
    """The notebook with fresh outputs. An exception in a cell is not caught."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    module = types.ModuleType("notebook_of_the_docs")
    sys.modules[module.__name__] = module
    count = 0
    try:
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                count += 1
                cell["outputs"] = _run_cell("".join(cell["source"]), f"{path.name}[{number}]", module.__dict__, count)
                cell["execution_count"] = count
    finally:
        del sys.modules[module.__name__]
    return notebook


def markdown(path: Path) -> str:
    """The notebook as a page: its text, its code and the stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ()))
            parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _run_cell(source: str, name: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307 -- our own code
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Run every notebook."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="store the outputs in the files")
    arguments = parser.parse_args()
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = run(path)
        if arguments.write:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(notebook['cells'])} cells")


if __name__ == "__main__":
    main()
