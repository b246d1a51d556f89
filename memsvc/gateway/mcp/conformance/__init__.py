"""Fixtures of the official conformance suite, for a server that is started to be tested by it.

Nothing else imports this. The fixtures are tools of the catalogue: found, permitted, logged and
counted like any other, and the suite's resources and prompts are calls of them.
"""
