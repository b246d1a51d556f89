"""How often an address may come with a key that opens nothing."""

import ipaddress
from collections import OrderedDict
from time import monotonic
from typing import Final

from starlette.types import Scope

ADDRESSES_MAX: Final = 10_000
MINUTE_S: Final = 60.0


class Guesses:
    """Counts keys that opened nothing, by address: so many a minute, and so many at once. It is for whoever asks to let
    in keys that are known to be good whatever this says."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """How long this address is to wait before its next guess; 0 when it may guess now."""
        spent = self._spent_now(address)
        if self._a_minute == 0 or spent <= self._a_minute - 1:
            return 0.0
        return (spent - self._a_minute + 1) * MINUTE_S / self._a_minute

    def note(self, address: str) -> None:
        """This address came with a key that opens nothing."""
        if self._a_minute == 0:
            return
        self._spent[address] = self._spent_now(address) + 1, monotonic()
        self._spent.move_to_end(address)
        while len(self._spent) > ADDRESSES_MAX:
            self._spent.popitem(last=False)

    def _spent_now(self, address: str) -> float:
        spent, at = self._spent.get(address, (0.0, 0.0))
        return max(0.0, spent - (monotonic() - at) * self._a_minute / MINUTE_S)


def address_of(scope: Scope) -> str:
    """What a request counts under: the address that it came from, of IPv6 the network that one customer has."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)
