"""Parser of resource URIs, which are matched against the templates of tools."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from memsvc.core.errors import invalid

URI_CHARS_MAX: Final = 2048
"""Limit of a URI: an identifier of 128 bytes takes up to 384 characters, percent-encoded."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^?#]*)(?:\?([^#]*))?\Z")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"\{(\+?)([a-z_]+)\}\Z")


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """A parsed URI.

    Its segments are decoded, so that `a%2Fb` is one segment; `project` is that of `?project=NAME`.
    """

    scheme: str
    segments: tuple[str, ...]
    project: str | None


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A URI template whose variables are whole segments.

    The last may be a path of all remaining segments, which begins with a slash.
    """

    scheme: str
    segments: tuple[str, ...]
    rest: str | None

    @classmethod
    def read(cls, text: str) -> "UriTemplate":
        """Parse a template; ValueError for an unsupported one."""
        scheme, separator, rest = text.partition("://")
        segments = tuple(rest.split("/"))
        variables = [_VARIABLE.match(segment) for segment in segments]
        if not separator or any(
            "{" in segment and not found for segment, found in zip(segments, variables, strict=True)
        ):
            raise ValueError(f"a variable of {text} is not a whole segment")
        if any(found and found[1] for found in variables[:-1]):
            raise ValueError(f"a path of {text} is not at its end")
        last = variables[-1]
        if last is not None and last[1]:
            return cls(scheme, segments[:-1], last[2])
        return cls(scheme, segments, None)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables, in order."""
        named = tuple(found[2] for segment in self.segments if (found := _VARIABLE.match(segment)))
        return named if self.rest is None else (*named, self.rest)

    def match(self, address: ResourceAddress) -> dict[str, str] | None:
        """Return the value of each variable; None when the URI is not of this form.

        No variable but the path is empty.
        """
        count, segment_count = len(self.segments), len(address.segments)
        if (
            address.scheme != self.scheme
            or segment_count < count
            or (self.rest is None) != (segment_count == count)
        ):
            return None
        values: dict[str, str] = {}
        if self.rest is not None:
            values[self.rest] = "/" + "/".join(address.segments[count:])
        for pattern, segment in zip(self.segments, address.segments[:count], strict=True):
            variable = _VARIABLE.match(pattern)
            if variable is None and segment != pattern:
                return None
            if variable is not None:
                if not segment:
                    return None
                values[variable[2]] = segment
        return values


def address(uri: str) -> ResourceAddress | None:
    """Parse a URI; None for a text that no template here could match.

    INVALID_ARGUMENT for a URI that is longer than any of ours, or that is not text once it is
    decoded.
    """
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
    return ResourceAddress(
        scheme.lower(), tuple(_decoded(segment) for segment in path.split("/")), project
    )


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
