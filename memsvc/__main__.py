"""`python -m memsvc` is `memsvc`."""

from memsvc.cli import main

main()
