"""What the attempts share: the list of them, and how they try."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from typing import Any

LIMIT_S = 2
libc = ctypes.CDLL(None, use_errno=True)
Attempt = Callable[[dict[str, Any]], object]
ATTEMPTS: dict[str, Attempt] = {}


def attempt(function: Attempt) -> Attempt:
    ATTEMPTS[function.__name__] = function
    return function


def require(condition: object, why: str = "refused") -> None:
    if not condition:
        raise OSError(why)


def called(result: int) -> int:
    """Of a function of the C library."""
    require(result >= 0, os.strerror(ctypes.get_errno()))
    return result


def append(path: str, text: str = "attacked\n") -> str:
    with open(path, "a") as file:
        file.write(text)
    return path


def content(path: str) -> str:
    with open(path, errors="replace") as file:
        text = file.read(10_000)
    require(text, "it is empty")
    return text


def by_child(work: Callable[[], object]) -> None:
    """What ends or changes the process that does it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    require(os.waitpid(child, 0)[1] == 0)


def first_success(act: Callable[[str], object], places: Iterable[str]) -> object:
    failure: OSError = OSError("nothing was tried")
    for place in places:
        try:
            return act(place)
        except OSError as error:
            failure = error
    raise failure
