"""What the official conformance suite wants to find beside memory, for a server that is started to be tested by it.

Nothing here is imported otherwise. The fixtures are tools of the catalogue: found, permitted, logged and counted as any
other, and what a resource or prompt of the suite answers is a call of one of them.
"""
