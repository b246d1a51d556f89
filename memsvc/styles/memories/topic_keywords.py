"""Category keywords that find a memory besides its own words.

A short list of everyday things, so that "outdoor activities" finds hiking without an embedder. It
is no thesaurus: what is not in it is found by its own words, or by similarity where an embedder is
configured.
"""

from collections.abc import Mapping
from typing import Final

from memsvc.core.analysis import terms

_KINDS: Final[Mapping[str, str]] = {
    "food diet eat meal dietary": (
        "vegetarian vegan pescatarian allergic allergy intolerant gluten lactose nuts peanuts"
        " dairy meat fish seafood pizza pasta sushi cheese chocolate fruit vegetables breakfast"
        " lunch dinner cook cooking bake spicy curry bread salad mushrooms olives eggs rice soup"
        " dessert keto halal kosher restaurant snack"
    ),
    "drink beverage": "coffee tea espresso latte wine beer juice whisky whiskey water milk"
    " cocktail",
    "outdoor activity sport exercise fitness hobby": (
        "hiking hike climbing bouldering camping cycling running jogging marathon skiing"
        " snowboarding swimming surfing kayaking fishing gardening trekking sailing rowing"
        " football soccer tennis basketball golf yoga gym"
    ),
    "hobby interest free time": (
        "chess painting drawing photography reading knitting pottery gaming puzzles dancing"
        " singing guitar piano violin crafts birdwatching"
    ),
    "programming language code software development technology": (
        "python javascript typescript java kotlin rust golang ruby php swift haskell scala perl"
        " sql fastapi django flask react angular svelte rails nodejs"
    ),
    "interface ui appearance theme display setting preference": "dark light mode theme font"
    " colour color layout",
    "work job career profession": (
        "engineer developer programmer teacher nurse doctor lawyer designer architect manager"
        " analyst scientist student accountant consultant employer company office retired"
        " freelance"
    ),
    "home place city location address": "lives live moved apartment house",
    "family relative": (
        "wife husband partner mother father daughter son brother sister child kids grandmother"
        " grandfather cousin baby"
    ),
    "pet animal": "dog cat puppy kitten horse parrot rabbit hamster turtle",
    "health medical condition": (
        "diabetes asthma epilepsy migraine depression anxiety adhd cancer allergic allergy"
        " pregnant insulin medication"
    ),
    "music": "guitar piano violin drums band concert jazz rock classical techno singing",
    "film book entertainment": "movie film series novel book cinema theatre reading netflix",
    "travel trip vacation holiday": "travel trip flight flying visit vacation holiday hotel tour",
    "education school study degree": "university college degree studies course exam learning"
    " thesis",
}


def _by_term() -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for kind, keywords in _KINDS.items():
        for term in terms(keywords):
            kinds.setdefault(term, []).append(kind)
    return kinds


_BY_TERM: Final = _by_term()


def kinds_of(text: str) -> str:
    """Return the categories of the things that a text names, each word once; "" for none."""
    kinds = [kind for term in terms(text) for kind in _BY_TERM.get(term, ())]
    return " ".join(dict.fromkeys(" ".join(kinds).split()))
