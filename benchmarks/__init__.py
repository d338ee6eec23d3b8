"""Speed as ratios: gnpool and its baselines in one process, on an idle machine. Run ``python -m benchmarks``."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.csv"
