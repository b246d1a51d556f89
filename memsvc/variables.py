"""Environment variables of clients: the server's URL and the key; no settings of a server."""

from typing import Final

URL_VARIABLE: Final = "MEMSVC_URL"
KEY_VARIABLE: Final = "MEMSVC_API_KEY"
