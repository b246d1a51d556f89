"""Detection of secrets in text: passwords, keys, tokens, card numbers.

None of them may reach a model or a fact."""

import re
from typing import Final

PLACEHOLDER: Final = "[secret]"

_WORDS: Final = (
    r"pass[ _-]?(?:word|wd|code|phrase)s?|pwd|secret(?:["
    r" _-]key)?|(?:api|access|private|licen[cs]e)[ _-]?key"
    r"|(?:access|auth|bearer|refresh|session)[ _-]?token|credentials?|cv[vc]2?|pin(?:["
    r" _-](?:code|number))?"
    r"|passwort|kennwort|geheimzahl|mot de passe|code"
    r" secret|contraseña|senha|parola|wachtwoord|пароль"
)
_CJK_WORDS: Final = r"密码|密碼|口令|パスワード|暗証番号|秘密鍵|비밀번호"
"""Names of secrets in statements such as "my password is"."""
_CONTEXT_WORDS: Final = (
    r"[a-z]+pass(?:word|code|phrase)s?|secrets?|tokens?|otp|2fa|ssn|security"
    r" code|iban|(?:credit|debit) card"
    r"|card number|kreditkarten?(?:nummer)?|carte bancaire|tarjeta|clave"
)
_CJK_CONTEXT_WORDS: Final = r"银行卡|信用卡|身份证|クレジットカード"
"""Words that also occur without a secret, so they are not masked; still no fact is made of them."""
_SECRET_CONTEXT: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_WORDS}|{_CONTEXT_WORDS})(?![A-Za-z])|{_CJK_WORDS}|{_CJK_CONTEXT_WORDS}",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_WORDS}|{_CJK_WORDS})(?![A-Za-z0-9])[\"'”’]?"
    r"\s{0,4}(?::|=|：|\bis\b|\bare\b|\bist\b|\best\b|\bes\b|\bé\b|\bè\b|\bто\b|это|[-—–]|是|为|為|は|은|는)"
    r"\s{0,4}(?P<secret>[\"'“‘`]?[^\s,;，。、]{3,512})",
    re.IGNORECASE,
)
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


def replace_secrets(text: str) -> str:
    """Return the text with every secret replaced by a mark."""
    for pattern in (_TOKENS, _ADDRESS, _NAMED):
        text = pattern.sub(_replace_secret, text)
    return _CARD.sub(lambda match: PLACEHOLDER if _is_card(match[0]) else match[0], text)


def is_secret(value: str, context: str) -> bool:
    """Return whether a value must not be kept as a fact, by itself or by the words around it."""
    if (
        _SECRET_CONTEXT.search(context)
        or _SECRET_CONTEXT.search(value)
        or _NUMBERS.search(value)
        or replace_secrets(value) != value
    ):
        return True
    return any(_is_random(word) for word in _LONG.findall(value))


def _replace_secret(match: re.Match[str]) -> str:
    if "secret" not in match.re.groupindex:
        return PLACEHOLDER
    start = match.start("secret") - match.start()
    return match[0][:start] + PLACEHOLDER + match[0][match.end("secret") - match.start() :]


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
