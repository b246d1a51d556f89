"""Which resource a URI names: what a client wrote, taken apart and matched against the template of a tool."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from memsvc.core.errors import invalid

URI_CHARS_MAX: Final = 2048
"""An identifier of 128 bytes takes 384 characters at the most, percent-encoded."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^?#]*)(?:\?([^#]*))?\Z")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"\{([a-z_]+)\}\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """A URI taken apart. What stands between its slashes is decoded, so that `a%2Fb` is one segment; `project` is that
    of `?project=NAME`."""

    scheme: str
    segments: tuple[str, ...]
    project: str | None


@dataclass(frozen=True, slots=True)
class Template:
    """A URI template whose variables are whole segments."""

    scheme: str
    segments: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "Template":
        """The template, from its text; ValueError for one that this does not understand."""
        scheme, separator, rest = text.partition("://")
        segments = tuple(rest.split("/"))
        if not separator or any("{" in one and not _VARIABLE.match(one) for one in segments):
            raise ValueError(f"a variable of {text} is not a whole segment")
        return cls(scheme, segments)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in their order."""
        return tuple(found[1] for one in self.segments if (found := _VARIABLE.match(one)))

    def match(self, address: Address) -> dict[str, str] | None:
        """The value of each variable; None when the URI is not of this form. No variable is empty."""
        if address.scheme != self.scheme or len(address.segments) != len(self.segments):
            return None
        values: dict[str, str] = {}
        for pattern, segment in zip(self.segments, address.segments, strict=True):
            variable = _VARIABLE.match(pattern)
            if variable is None and segment != pattern:
                return None
            if variable is not None:
                if not segment:
                    return None
                values[variable[1]] = segment
        return values


def address(uri: str) -> Address | None:
    """The parts of a URI; None for a text that no template here could match. INVALID_ARGUMENT for a URI that is longer
    than any of ours, or that is not text once it is decoded."""
    if len(uri) > URI_CHARS_MAX:
        raise invalid(f"the URI is longer than {URI_CHARS_MAX} characters")
    _check_text(uri)
    found = _URI.match(uri)
    if found is None:
        return None
    scheme, path, query = found.groups()
    project = None
    if query is not None:
        name, _, value = query.partition("=")
        if name != "project":
            return None
        project = _decoded(value)
    return Address(scheme.lower(), tuple(_decoded(segment) for segment in path.split("/")), project)


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    if _BROKEN.search(segment):
        raise invalid("the URI has a % that no two hexadecimal digits follow")
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the URI is not UTF-8 once it is decoded") from None
    _check_text(text)
    return text


def _check_text(text: str) -> None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise invalid("the URI must not hold control characters, nor halves of a character")
