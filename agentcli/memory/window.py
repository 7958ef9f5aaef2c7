"""The model's window: what of it the prompt and the reply may take."""

from __future__ import annotations

from collections.abc import Callable

FULL = 0.95
"""Share that an estimate may fill; the rest is for what the estimate is off by."""
_REPLY_PARTS = 4
_LEAST_REPLY_PARTS = 16


def reply_reserve(window_tokens: int, max_output_tokens: int) -> int:
    """Return how many tokens are kept free for a reply: at most a quarter of the window."""
    return min(max_output_tokens, window_tokens // _REPLY_PARTS)


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
        self._tokens = 0

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
        """Return the cap for a reply beside such a prompt: `most`, or what room there is."""
        room = int(self.tokens * FULL) - prompt_tokens
        return min(most, max(room, self.tokens // _LEAST_REPLY_PARTS, 1))

    def was_refused(self, prompt_tokens: int, output_tokens: int) -> None:
        """Take in that a prompt of this estimate, with this cap for its reply, did not fit. What
        lies between the prompt and both together is halved, for want of better knowledge."""
        self._is_known = True
        self._tokens = max(min(self.tokens, prompt_tokens + output_tokens // 2), 1)
