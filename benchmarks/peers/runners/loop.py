"""Answers requests, a line of JSON each, with the methods of an object. Only the standard library
is there.

Methods get the request's parameters by name and return what JSON can say; how long one took is told
beside it, so that the pipe between the processes is not measured. What a library raises ends the
process: its traceback is on stderr.
"""

import json
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any


def serve(store: Callable[..., Any]) -> None:
    """Make the store by the first request, `open`, and answer until the input ends. What libraries
    print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    opened = json.loads(sys.stdin.readline())
    made = store(**opened["params"])
    _answer(answers, opened["id"], None, 0.0)
    for line in sys.stdin:
        request = json.loads(line)
        started = perf_counter()
        value = getattr(made, request["method"])(**request["params"])
        _answer(answers, request["id"], value, (perf_counter() - started) * 1000)
    made.close()


def _answer(answers: Any, number: int, value: Any, ms: float) -> None:
    answers.write(
        json.dumps({"jsonrpc": "2.0", "id": number, "result": {"value": value, "ms": ms}}) + "\n"
    )
    answers.flush()
