"""`python -m memsvc` is `memsvc`."""

from memsvc.start import main

main()
