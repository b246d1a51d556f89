"""Cache of what was read in texts."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

Value = TypeVar("Value")


class TextCache(Generic[Value]):
    """Cache of what was read in the latest texts, by their hashes: it keeps no text."""

    def __init__(self, texts_max: int) -> None:
        self._texts_max = texts_max
        self._values: OrderedDict[bytes, Value] = OrderedDict()

    def get(self, text: str, read: Callable[[str], Value]) -> Value:
        """Return what `read` returns for a text."""
        mark = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        value = self._values.pop(mark, None)
        self._values[mark] = value = read(text) if value is None else value
        if len(self._values) > self._texts_max:
            self._values.popitem(last=False)
        return value
