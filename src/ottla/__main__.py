"""`python -m ottla`: the command, where its script is not on the path."""

from ottla.cli.main import main

main()
