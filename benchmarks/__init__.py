"""Speed as ratios: gnpool beside its baselines, in one process, on an idle machine. Run ``python -m benchmarks``."""
