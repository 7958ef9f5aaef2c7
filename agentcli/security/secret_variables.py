"""Defines which variables hold a secret. Everything uses this one definition: what commands get to
see, what is recorded of their exports, and what is masked wherever it appears."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

_NAME = re.compile(
    r"SECRET|TOKEN(?!IZ)|PASSW(?:OR)?D|PASSPHRASE|PASSCODE|CREDENTIAL|COOKIE|MNEMONIC|WEBHOOK"
    r"|LICEN[CS]E|SESSION_?ID|(?:API|ACCESS|PRIVATE)_?KEY|CONN(?:ECTION)?_?STR"
    r"|(?<!ASK)(?:PASS|KEY)$|(?<!^OLD)(?<=\w)PWD$|(?:^|_)(?:AUTH|PIN)$"
    r"|(?:^|_)(?:KEY|PASS|PW|PAT|DSN|CRED|JWT|OTP|TOTP|MFA|SAS|BEARER|SALT|SEED|HMAC)S?(?:_|$)",
    re.IGNORECASE,
)
"""Words in names, and endings that people attach without a separator (`DBPASS`, `GHTOKEN`)."""
_FORM = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_\w{20,}|\bxox[abeprs]-[\w-]{10,}|\bA(?:KI|SI)A[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    r"|\bglpat-[\w-]{16,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bdckr_pat_[\w-]{20,}|\bdop_v1_[0-9a-f]{32,}|\bSG\.[\w-]{16,}\.|\bAGE-SECRET-KEY-"
    r"|\beyJ[\w-]{10,1000}\.eyJ|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|hooks\.slack\.com/services/"
    r"|://[^/\s:@]{0,200}:[^/\s@]{1,500}@|://[^/\s@]{20,200}@"
    r"|(?:AccountKey|SharedAccessKey|[Pp]assword|[Pp]wd)="
)
"""Secret values whatever the variable's name: keys as issuers format them, or a URL with a
password."""

_SHORTEST_MASKED = 8
_SURELY_RANDOM = 16
"""A value of at least this length is no word that could appear by chance."""
_COMMON = re.compile(
    r"(?:pass(?:word|wd)?|secret|change(?:me|it)|test(?:ing)?|admin|root|postgres|mysql|redis|guest"
    r"|user|default|example|dummy|fake|token|key|local(?:host)?|letmein|qwerty|welcome|sample|demo"
    r"|dev(?:elopment)?|prod(?:uction)?|staging|\d|[-_.!@#$])+",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?![^/\s]*@)", re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a secret, by its name or the form of its value."""
    return bool(_NAME.search(name) or _FORM.search(value))


def masked_values(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values to mask wherever they appear: those of secret variables that ordinary text
    would not contain by chance."""
    secret = {name: value for name, value in environ.items() if is_secret(name, value)}
    ordinary = {value for name, value in environ.items() if name not in secret}
    for value in map(str.strip, secret.values()):
        if value not in ordinary and _is_unmistakable(value):
            yield value


def _is_unmistakable(value: str) -> bool:
    """Return False for a number, word, path, address without a password, or example password."""
    if len(value) < _SHORTEST_MASKED or len(set(value)) < _SHORTEST_MASKED // 2:
        return False
    if _ADDRESS.match(value) or _is_place(value) or _COMMON.fullmatch(value):
        return False
    if len(value) >= _SURELY_RANDOM:
        return not value.isdecimal()
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_letter and has_digit and not _is_version(value)


def _is_place(value: str) -> bool:
    if value.startswith(("~/", "./", "../")):
        return True
    first = "/".join(value.split("/")[:2])
    return value.startswith("/") and (os.path.lexists(first) or "." in value)


def _is_version(value: str) -> bool:
    """Match values like `python-3.11` or `v1.2.3-rc1`: words and numbers between separators."""
    parts = re.split(r"[-_./: ]", value)
    return all(part.isdecimal() or part.isalpha() or len(part) <= 3 for part in parts)
