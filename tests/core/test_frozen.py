"""Values compare, hash and show themselves as the standard library's dataclasses do."""

from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from memsvc.core.frozen import frozen


def test_a_value_is_equal_hashed_and_shown_by_its_fields() -> None:
    @frozen
    class Place:
        name: str
        number: int = 0
        secret: str = field(default="", repr=False)
        seen: int = field(default=0, compare=False)

    @dataclass(frozen=True, slots=True)
    class Other:
        name: str

    @frozen
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

    here = Place("a", 1, "b", 2)
    assert here == Place("a", 1, "b", 3) != Place("a", 1, "c", 2)
    assert len({here, Place("a", 1, "b", 3), Place("a")}) == 2
    others: tuple[object, ...] = (("a", 0, "", 0), Other("a"), Named("a"))
    assert Place("a") not in others
    assert Named("a") not in others[:2]
    assert (Named("a"), len({Named("a"), Named("a")})) == (Named("a"), 1)
    assert repr(here).endswith("Place(name='a', number=1, seen=2)")
    assert repr(Named("a")) == "a"
    with pytest.raises(FrozenInstanceError):
        here.number = 2  # type: ignore[misc]
