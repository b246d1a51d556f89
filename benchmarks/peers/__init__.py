"""Other memories doing the same work beside this service on the same machine: `python -m
benchmarks.peers`."""
