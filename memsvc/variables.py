"""Environment variables that commands read without loading the settings of a server."""

from typing import Final

DATA_DIR_VARIABLE: Final = "MEMSVC_DATA_DIR"
PORT_VARIABLE: Final = "MEMSVC_PORT"
URL_VARIABLE: Final = "MEMSVC_URL"
KEY_VARIABLE: Final = "MEMSVC_API_KEY"
USER_VARIABLE: Final = "MEMSVC_USER"
PROJECT_VARIABLE: Final = "MEMSVC_PROJECT"
HOOKS_DIR_VARIABLE: Final = "MEMSVC_HOOKS_DIR"
"""Variables of the hooks of hosts."""
CLIENT_VARIABLES: Final = (
    URL_VARIABLE,
    KEY_VARIABLE,
    USER_VARIABLE,
    PROJECT_VARIABLE,
    HOOKS_DIR_VARIABLE,
)
