"""Write requirements-dev.lock: every package of the development environment with the hashes of its files.

python -m tools.lock      # takes some minutes

The versions are those of constraints.txt; what it does not name is resolved anew. The lock is for Linux on x86_64 and
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
# The development environment to the bit, for Linux on x86_64 and Python 3.11: pip install --require-hashes -r <this file>
# `make lock` writes it from constraints.txt. torch is the CPU build: offer pip its wheel by PIP_FIND_LINKS or
# PIP_EXTRA_INDEX_URL, as for constraints.txt.
"""
OPTIONS = """--quiet --extra dev --extra docs --extra ray --generate-hashes --allow-unsafe --strip-extras --no-header
--no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -c constraints.txt pyproject.toml""".split()


def main() -> None:
    """Resolve in a temporary environment; the lock is replaced only if that worked."""
    if sys.version_info[:2] != (3, 11):
        sys.exit("the lock is for Python 3.11: run this by an interpreter of that version")
    with tempfile.TemporaryDirectory() as folder:
        python, made = Path(folder, "bin", "python"), Path(folder, "made")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pip-tools"], check=True)
        subprocess.run([python, "-m", "piptools", "compile", *OPTIONS, "--output-file", made], check=True, cwd=ROOT)
        LOCK.write_text(HEAD + made.read_text())


if __name__ == "__main__":
    main()
