"""The model's window: what of it the prompt and the reply may take."""

from __future__ import annotations

import re
from collections.abc import Callable

FULL = 0.95
"""Share that an estimate may fill; the rest is for what the estimate is off by."""
_REPLY_PARTS = 4
_LEAST_REPLY_PARTS = 16
_LEAST_TOLD = 256
_MOST_OFF = 4
"""How many times the estimate a window that refused it may be; other numbers count bytes."""
_TOLD = (
    r"(?:>=?|<=)\s*(?:n_ctx:?\s*)?(\d[\d,]*)",
    r"\[\d+, ?(\d+)\]",
    r"(\d[\d,]*) (?:tokens? )?max(?:imum)? context",
    r"(?:context|window|limit)[a-z_ ]{0,30}\W{0,4}(?:of |is )?(\d[\d,]*)",
    r"max(?:imum)?[a-z_ ]{0,40}\W{0,3}(?:of |is )?(\d[\d,]*)",
)
"""How a window is named by refusals, the clearest form first: Anthropic and TGI compare, DashScope
gives a range, Mistral says `32768 maximum context length`, most `context length is`, `context size
(`, `token limit:`, and Gemini and xAI `maximum` of something."""


def reply_reserve(window_tokens: int, max_output_tokens: int) -> int:
    """Return how many tokens are kept free for a reply: at most a quarter of the window."""
    return min(max_output_tokens, window_tokens // _REPLY_PARTS)


def told_window(refusal: str) -> int:
    """Return the window in tokens that the words of a refusal name; 0 if they name none."""
    for form in _TOLD:
        numbers = [int(number.replace(",", "")) for number in re.findall(form, refusal, re.I)]
        if found := [number for number in numbers if number >= _LEAST_TOLD]:
            return found[0]
    return 0


class Window:
    """How many tokens prompt and reply may have together. `ask` returns what is believed at first
    and is called once that matters; refusals correct it. `is_known`: someone who must know says so,
    so that a prompt beyond it need not be tried."""

    def __init__(
        self,
        ask: Callable[[], int],
        max_output_tokens: int = 0,
        *,
        is_known: bool = False,
    ) -> None:
        self._ask = ask
        self._max_output_tokens = max_output_tokens
        self._is_known = is_known
        self._was_refused = False
        self._tokens = self._most_accepted = 0

    @property
    def tokens(self) -> int:
        if not self._tokens:
            self._tokens = self._ask()
        return self._tokens

    @property
    def prompt_tokens(self) -> int:
        """The most that a prompt may take, with room for a reply beside it."""
        return self.tokens - reply_reserve(self.tokens, self._max_output_tokens)

    def is_full(self, prompt_tokens: int) -> bool:
        """Whether a prompt of this estimate must become shorter."""
        return prompt_tokens > self.prompt_tokens * FULL

    def refuses(self, prompt_tokens: int) -> bool:
        """Whether a prompt of this estimate is certain to be refused, or cut without a word."""
        return self._is_known and prompt_tokens > self.tokens

    def reply_tokens(self, prompt_tokens: int, most: int) -> int:
        """Return the cap for a reply beside such a prompt: `most`, or what room there is; once a
        request was refused, no more than is kept for it anyway."""
        room = int(self.tokens * FULL) - prompt_tokens
        if self._was_refused:
            most = reply_reserve(self.tokens, most)
        return min(most, max(room, self.tokens // _LEAST_REPLY_PARTS, 1))

    def was_refused(
        self, prompt_tokens: int, output_tokens: int, words: str, *, counted: bool
    ) -> int:
        """Take in that a prompt of this estimate, with this cap for its reply, did not fit. Return
        the fewest tokens that the prompt then has, 0 if that is unknown. If the `words` of the
        refusal tell the window, or it is known and the estimate not `counted` (learned from a
        count), the estimate is wrong; otherwise the window is, and of what lies between the prompt
        and both together half is taken off."""
        self._was_refused = True
        told = told_window(words)
        if 0 < told <= _MOST_OFF * (prompt_tokens + output_tokens):
            self._tokens, self._is_known = min(self.tokens, told), True
            return max(told - output_tokens, 0)
        if self._is_known and not counted:
            return max(self.tokens - output_tokens, 0)
        halved = prompt_tokens + output_tokens // 2
        self._is_known = False
        self._tokens = max(min(self.tokens, halved), self._most_accepted, 1)
        return 0

    def was_measured(self, tokens: int) -> None:
        """Take in that prompt and reply have exactly so many `tokens` together."""
        self._tokens, self._is_known = min(self.tokens, tokens), True

    def was_accepted(self, tokens: int) -> None:
        """Take in that a request with a prompt and cap of so many `tokens` was answered: a window
        that was only guessed is no smaller."""
        self._most_accepted = max(self._most_accepted, tokens)
        if not self._is_known and self._tokens:
            self._tokens = max(self._tokens, tokens)
