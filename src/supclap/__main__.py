"""``python -m supclap`` is the command."""

from supclap.cli import main

main()
