"""What must never become a fact: passwords, keys, tokens, numbers of cards and accounts."""

import re

from memsvc.core.secrets import masked

_WORDS = re.compile(
    r"pass ?(?:word|wd|phrase|code)s?\b|\bpwd\b|\bpin\b|\bcvv\b|\bcvc\b|\bssn\b|api[-_ ]?key|\bsecret|\btoken"
    r"|private key|credential|\botp\b|\b2fa\b|security code|\biban\b|credit card|card number|passwort|kennwort"
    r"|geheimzahl|kreditkarte|mot de passe|code secret|carte bancaire|contraseña|\bclave\b|tarjeta"
    r"|密码|口令|银行卡|信用卡|身份证|パスワード|暗証番号|クレジットカード|秘密鍵",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\b[A-Fa-f0-9]{32,}\b|\b\d{3}-\d{2}-\d{4}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,}")
_LONG = re.compile(r"[A-Za-z0-9+/=_.~-]{16,}")


def is_secret(value: str, around: str) -> bool:
    """Whether a value, or the words that it was said in, is such that it must not be kept as a fact."""
    if _WORDS.search(around) or _WORDS.search(value) or _NUMBERS.search(value) or masked(value) != value:
        return True
    return any(_looks_random(word) for word in _LONG.findall(value))


def _looks_random(word: str) -> bool:
    kinds = (str.isdigit, str.isupper, str.islower)
    mixed = all(any(map(kind, word)) for kind in kinds)
    return mixed and "@" not in word and sum(map(str.isdigit, word)) > 2
