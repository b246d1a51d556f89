"""Checks of JSON before it is parsed: UTF-8, shallow, and with a limited number of values."""

from array import array
from itertools import accumulate

from memsvc.core.errors import invalid

_STEP_BYTES = bytes.maketrans(b"[{]},", b"\x01\x01\xff\xff\x00")
_IGNORED = bytes(byte for byte in range(256) if byte not in b"[]{},")


def check_json(body: bytes, depth_max: int, values_max: int) -> None:
    """Raise INVALID_ARGUMENT for a body that is not UTF-8, too deep or with too many values.

    Lists and objects count twice. It does not check that the body is JSON. Linear in the body, and
    without recursion.

    UTF-16 and UTF-32, which Python's parser would read, are refused: they would hide brackets from
    these checks.
    """
    if b"\0" in body or body[:1] in (b"\xfe", b"\xff"):
        raise invalid("the request body must be UTF-8")
    opened = body.count(b"[") + body.count(b"{")
    if opened <= depth_max and opened + body.count(b",") < values_max:
        return
    # a value and its name are two strings
    many = body.count(b'"') - body.count(b'\\"') > 4 * values_max
    steps = _steps(body[:values_max] if many else body)
    if _depth(steps[:values_max]) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")
    if many or steps.count(1) + steps.count(0) >= values_max:
        raise invalid(f"the request body holds more than {values_max} values")
    if _depth(steps) > depth_max:
        raise invalid(f"the request body nests deeper than {depth_max} levels")


def is_too_deep(body: bytes, depth_max: int) -> bool:
    """Return whether JSON is nested deeper than this."""
    return body.count(b"[") + body.count(b"{") > depth_max and _depth(_steps(body)) > depth_max


def _steps(body: bytes) -> bytes:
    """Return the brackets that open and close levels of JSON, and the commas, as steps."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    return b"".join(unescaped.split(b'"')[::2]).translate(_STEP_BYTES, _IGNORED)


def _depth(steps: bytes) -> int:
    return max(accumulate(array("b", steps)), default=0)
