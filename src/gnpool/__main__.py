"""``python -m gnpool``."""

from gnpool.cli import main

main()
