"""The variables that say which server a client talks to, and as whom: they are no settings of a server."""

from typing import Final

URL_VARIABLE: Final = "MEMSVC_URL"
KEY_VARIABLE: Final = "MEMSVC_API_KEY"
