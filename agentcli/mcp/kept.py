"""What of an answer the model sees, and where the rest of it is."""

from __future__ import annotations

from itertools import count

from agentcli.shell.output import Capture
from agentcli.shell.output_folder import OutputFolder


class KeptAnswers:
    """Head and tail of each text within `most_chars`; of a longer one the whole is in a file."""

    def __init__(self, outputs: OutputFolder, most_chars: int) -> None:
        self.most_chars = most_chars
        self._outputs = outputs
        self._numbers = count(1)

    def keep(self, server: str, text: str) -> tuple[str, str | None]:
        """What is shown of it, and the file that has all of it, if that is more."""
        path = next(
            place
            for number in self._numbers
            if not (place := self._outputs.path / f"{server}-{number}.txt").exists()
        )
        capture = Capture(path, keep=self.most_chars, folder=self._outputs)
        capture.feed(text.encode("utf-8", "replace"))
        rendered = capture.render(self.most_chars)
        return rendered.text, rendered.path
