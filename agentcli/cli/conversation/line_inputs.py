"""The user's input where it is typed line by line: it is read when it is needed."""

from __future__ import annotations

import time
from queue import SimpleQueue

from agentcli.cli.conversation.control import ConversationControl, Input, Quit
from agentcli.errors import TurnInterrupted
from agentcli.ui.prompt.control import Submission
from agentcli.ui.prompt.line_prompt import LinePrompt

_INTERRUPTED = 130
_AGAIN_S = 2.0


class LineInputs(SimpleQueue[Input]):
    """The inputs of `control` when its prompt has no thread of its own."""

    def __init__(self, control: ConversationControl, prompt: LinePrompt) -> None:
        super().__init__()
        self._control = control
        self._prompt = prompt
        self._interrupted_at = -_AGAIN_S

    def get(self, block: bool = True, timeout: float | None = None) -> Input:
        while self.empty():
            try:
                text = self._prompt.read()
            except TurnInterrupted as interrupt:
                if interrupt.exit_code != _INTERRUPTED:
                    raise
                now = time.monotonic()
                if now - self._interrupted_at < _AGAIN_S:
                    self._prompt.say("\nleaving")
                    return Quit()
                self._interrupted_at = now
                self._prompt.say("\nCtrl-C again leaves")
                continue
            if text is None:
                return Quit()
            self._control.submit(Submission(text))
        return super().get()
