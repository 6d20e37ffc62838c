"""`python -m polytc.cli`."""

from polytc.cli import main

main()
