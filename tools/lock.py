"""Write requirements-dev.lock: every package of the development environment with the hashes of its files.

python -m tools.lock      # takes some minutes

The versions are those of constraints.txt; other packages are resolved again. The lock is for Linux on x86_64 and
Python 3.11, with the CPU build of torch. It is made by pip-tools, in an environment that is removed afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.lock"
HEAD = """\
# The development environment to the bit, for Linux on x86_64 and Python 3.11, made from constraints.txt by `make lock`.
# First `pip install --require-hashes -r requirements-dev.lock`, then `pip install --no-deps -e .`.
# torch is the CPU build: offer pip its wheel by PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL, as for constraints.txt.
"""
EXTRAS = ("--extra", "dev", "--extra", "docs", "--extra", "ray")
PLAIN = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host")
OPTIONS = ("--quiet", *EXTRAS, "--generate-hashes", "--allow-unsafe", "--strip-extras", *PLAIN, "-c", "constraints.txt")


def main() -> None:
    """Resolve in a temporary environment; the lock is replaced only if this works."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("the lock is for Python 3.11: run this by an interpreter of that version")
    with tempfile.TemporaryDirectory() as folder:
        python, made = Path(folder, "bin", "python"), Path(folder, "made")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pip-tools"], check=True)
        command = [python, "-m", "piptools", "compile", *OPTIONS, "-o", made, "pyproject.toml"]
        subprocess.run(command, check=True, cwd=ROOT)
        LOCK.write_text(HEAD + "".join(filter(others, made.read_text().splitlines(keepends=True))))


def others(line: str) -> bool:
    """Whether a line of the lock is about another package. The extras name gnpool, which must not be in it."""
    return not line.startswith(("#", "gnpool @"))


if __name__ == "__main__":
    main()
