"""Detection of secrets in text: passwords, keys, tokens, card numbers.

None of them may reach a model or a fact; what a policy says, nothing that is stored."""

import re
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

import orjson
from pydantic import Field, field_validator

from memsvc.core.background import run_in_thread
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.options import Options
from memsvc.core.text_cache import TextCache

PLACEHOLDER: Final = "[secret]"
NOT_ASKED_FOR: Final = "contains a secret or a code that the question did not ask for"
"""Reason why recall leaves out a message or fact."""

_WORDS: Final = (
    r"pass[ _-]?(?:word|wd|code|phrase)s?|(?<!\d )pwd?(?!-\d)|secret(?:["
    r" _-]key)?|(?:api|access|private|licen[cs]e)[ _-]?key"
    r"|(?:access|auth|bearer|refresh|session)[ _-]?token|credentials?|cv[vc]2?|pin(?:["
    r" _-](?:code|number))?"
    r"|(?:pass|kenn)w(?:ort|örter)|geheimzahl|mots? de passe|code"
    r" secret|contraseñas?|senha|parola|wachtwoord|пароль"
)
_CJK_WORDS: Final = r"密码|密碼|口令|パスワード|暗証番号|秘密鍵|비밀번호"
"""Names of secrets in statements such as "my password is"."""
_CONTEXT_WORDS: Final = (
    r"[a-z]+pass(?:word|code|phrase)s?|[a-zäöüß]+(?:passwort|kennwort)|secrets?|tokens?|otp|2fa|ssn|security"
    r" code|iban|card number|clave"
)
"""Words that also occur without a secret, so they are not masked; still no fact is made of them."""
_CARD_WORDS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:credit|debit) card|kreditkarten?(?:nummer)?"
    r"|carte bancaire|tarjeta)(?![A-Za-z])|银行卡|信用卡|身份证|クレジットカード",
    re.IGNORECASE,
)
"""Words for cards and papers whose secret is a number: no fact is made of them beside one."""
_DIGITS: Final = re.compile(r"\d[ ./-]?\d|[〇零一二三四五六七八九]{4}")
_SECRET_CONTEXT: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_WORDS}|{_CONTEXT_WORDS})(?![A-Za-z])|{_CJK_WORDS}|身份证号",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_WORDS}|{_CJK_WORDS})(?![A-Za-z0-9])[\"'”’]?"
    r"\s{0,4}(?::|=|：|\bis\b|\bare\b|\bist\b|\best\b|\bes\b|\bé\b|\bè\b|\bто\b|это|[-—–]|是|为|為|は|은|는)"
    r"\s{0,4}(?:\"(?P<quoted>[^\"\n]{1,512})\"|"
    r"(?P<secret>(?!\[secret\])[\"'“‘`]?[^\s,;，。、]{2,511}[^\s,;，。、\])}]))",
    re.IGNORECASE,
)
_CODE_WORD: Final = (
    r"(?<![A-Za-z])(?:(?:[a-zäöü]+)?codes?|pins?(?:[ -](?:code|number))?|geheimzahl|combination"
    r"|kombination|combinaison|códigos?|combinación)(?![a-z])|密[码碼]|暗証番号"
)
_CODE_NAME: Final = re.compile(_CODE_WORD, re.IGNORECASE)
_CODE: Final = re.compile(
    rf"(?:{_CODE_WORD})(?:[^.;!?\n\d]{{0,40}}?(?::|=|：|\b(?:is|ist|lautet|est|es)\b(?: now)?|是|成|为|為|は))?"
    r"\s{0,2}(?=(?:[A-Z#* -]{0,3}\d){3})[A-Z#*]{0,2}\d[A-Z]?[\d #*-]{1,10}[A-Z#*]{0,2}(?![A-Za-z0-9])",
    re.IGNORECASE,
)
"""A code or PIN, as of a door, with its name."""
_TOKENS: Final = re.compile(
    r"""
    -----BEGIN[ ][A-Z ]{0,30}PRIVATE[ ]KEY-----(?:[\s\S]{0,8000}?-----END[ ][A-Z ]{0,30}KEY-----|[\s\S]{0,8000})
    | \b(?:sk|pk|rk)[-_](?:ant|proj|live|test|or)?[-_]?[A-Za-z0-9_-]{16,200}   # OpenAI, Anthropic, Stripe and their kin
    | \b(?:gh[opsur]_|github_pat_|glpat-|npm_|pypi-|hf_|dop_v1_|shpat_|SG\.|ya29\.)[A-Za-z0-9_.-]{16,255}
    | \bxox[abeprs]-[A-Za-z0-9-]{10,200}
    | \b(?:AKIA|ASIA|AROA)[0-9A-Z]{16}\b
    | \bAIza[0-9A-Za-z_-]{35}
    | \beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{0,1000}  # JSON web tokens
    | \bBearer[ ]+[A-Za-z0-9._~+/=-]{16,2000}
    """,
    re.VERBOSE,
)
_ADDRESS: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,200}:(?P<secret>[^\s/@]{1,200})@", re.IGNORECASE
)
_NUMBERS: Final = re.compile(
    r"\b[A-Fa-f0-9]{32,}\b|\b\d{3}-\d{2}-\d{4}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,}"
)
_LONG: Final = re.compile(r"[A-Za-z0-9+/=_.~-]{16,}")
_CARD: Final = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w-])")


SLICE_CHARS: Final = 16_384
"""Characters that are looked through at once: others wait meanwhile."""
SECRET_CHARS: Final = 8_200
"""Length of the longest secret, a private key, and more."""
_NO_TEXTS: Final = frozenset({"id", "call_id", "encrypted_content"})
"""Members of items that programs read and no person wrote."""
_DATA_URL: Final = "data:"


_TELLS: Final = TextCache[bool](4096)
"""Results for the latest texts, as recalls look at the same ones again."""
_DIGIT: Final = re.compile(r"\d")
_BARE: Final = re.compile(r"\b(?:secret|token)s?\b(?! key)", re.IGNORECASE)


def replace_secrets(text: str) -> str:
    """Return the text with every secret replaced by a mark."""
    parts = []
    while len(text) > SLICE_CHARS:
        end = _end_of_slice(text)
        parts.append(_replaced(text[:end]))
        text = text[end:]
    return "".join([*parts, _replaced(text)])


def _end_of_slice(text: str) -> int:
    """Return where a long text can be cut, at white space that no secret spans."""
    end = SLICE_CHARS
    while end < len(text):
        start = max(text.rfind("\n", 0, end), text.rfind(" ", 0, end)) + 1
        for cut in (start, end) if start > SLICE_CHARS // 2 else (end,):
            before, after = text[max(0, cut - SECRET_CHARS) : cut], text[cut : cut + SECRET_CHARS]
            if _replaced(before + after) == _replaced(before) + _replaced(after):
                return cut
        end += SECRET_CHARS
    return len(text)


def _replaced(text: str) -> str:
    for pattern in (_TOKENS, _ADDRESS, _NAMED):
        text = pattern.sub(_replace_secret, text)
    return _CARD.sub(lambda match: PLACEHOLDER if _is_card(match[0]) else match[0], text)


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a JSON value with every secret in its texts replaced, also by the names of members."""
    if isinstance(value, dict):
        return {
            key: inner if key in _NO_TEXTS else without_secrets(inner, key)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(inner, name) for inner in value]
    if not isinstance(value, str) or value.startswith(_DATA_URL):
        return value
    head = f"{name}: " if name else ""
    return replace_secrets(head + value).removeprefix(head)


SecretPolicy = Literal["keep", "mask", "refuse"]
Value = TypeVar("Value")


class PolicyOptions(Options):
    """Policies for stored content, for all projects or for individual projects."""

    secrets: SecretPolicy = Field(
        "keep",
        description="what to do with passwords, keys, tokens and card numbers in written text: keep"
        " them (keep), mask them before storing (mask), or refuse the call with"
        " SECRET_REFUSED (refuse)",
    )
    secrets_by_project: Annotated[
        tuple[str, ...],
        Field(description="projects that have their own policy, each as PROJECT=POLICY"),
    ] = ()

    @field_validator("secrets_by_project")
    @classmethod
    def _by_project(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            project, _, policy = one.rpartition("=")
            if not project or policy not in get_args(SecretPolicy):
                raise ValueError("must be PROJECT=keep, PROJECT=mask or PROJECT=refuse")
        return value

    def of(self, project: str) -> str:
        """Return the policy of a project."""
        own = (one.rpartition("=") for one in self.secrets_by_project)
        return next((policy for name, _, policy in own if name == project), self.secrets)

    async def applied(self, project: str, value: Value) -> Value:
        """Return a JSON value as it may be stored in a project; SECRET_REFUSED where it may not."""
        policy = self.of(project)
        if policy == "keep":
            return value
        size = len(value) if isinstance(value, str) else len(orjson.dumps(value))
        masked: Value = await run_in_thread(size, without_secrets, value)
        if policy == "refuse" and masked != value:
            raise secret_refused()
        return masked


def secret_refused() -> MemsvcError:
    """Return the error of a call that would store a secret where the policy refuses it."""
    return MemsvcError(
        Code.SECRET_REFUSED,
        "the text appears to contain a password, key, token or card number, and the"
        " server's policy for this project is to refuse secrets",
        recovery="remove the secret and send the text again",
    )


def is_secret(value: str, context: str) -> bool:
    """Return whether a value must not be kept as a fact, by itself or by the words around it."""
    if (
        _SECRET_CONTEXT.search(context)
        or _SECRET_CONTEXT.search(value)
        or _NUMBERS.search(value)
        or PLACEHOLDER in value
        or (_CARD_WORDS.search(both := f"{context}\n{value}") and _DIGITS.search(both))
        or replace_secrets(value) != value
    ):
        return True
    return any(_is_random(word) for word in _LONG.findall(value))


def asks_for_secret(question: str) -> bool:
    """Return whether a question names a password, PIN, code or the like."""
    return any(pattern.search(question) for pattern in (_SECRET_CONTEXT, _CARD_WORDS, _CODE_NAME))


def holds_secret(text: str) -> bool:
    """Return whether a text contains or mentions a secret or a code; no fact is made of it."""
    return is_secret(text, text) or is_code(text)


def has_secret_value(text: str) -> bool:
    """Return whether a text contains a secret or a code itself, not only the word "secret".

    Recall withholds such a text unless the question asks for it."""
    return _TELLS.get(text, _tells)


def _tells(text: str) -> bool:
    return holds_secret(text if _DIGIT.search(text) else _BARE.sub(" ", text))


def is_code(text: str) -> bool:
    """Return whether a text tells a code or PIN, as of a door or an alarm, and no other secret.

    It may be kept where a person asks to remember it, and is told only where it is asked for."""
    rest = _CODE.sub("", text)
    return rest != text and not is_secret(rest, rest)


def _replace_secret(match: re.Match[str]) -> str:
    name = match.lastgroup
    if name is None:
        return PLACEHOLDER
    start = match.start(name) - match.start()
    return match[0][:start] + PLACEHOLDER + match[0][match.end(name) - match.start() :]


def _is_card(text: str) -> bool:
    """Return whether digits end with the check digit of card numbers (Luhn)."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_random(word: str) -> bool:
    """Return whether a word has letters of both cases and several digits, as keys have."""
    kinds = (str.isdigit, str.isupper, str.islower)
    mixed = all(any(map(kind, word)) for kind in kinds)
    return mixed and "@" not in word and sum(map(str.isdigit, word)) > 2
