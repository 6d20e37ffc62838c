"""`python -m polytc`."""

from polytc.cli import main

main()
