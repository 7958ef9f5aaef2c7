"""Set how much the model reasons, from none to max, or as the provider decides (default).

It applies from the next request on, for this conversation: the level, or the nearest that the model
takes. Without a level, the current one is shown. To keep it: agent config set model.effort high
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.errors import UsageError
from agentcli.settings import ModelSettings
from agentcli.ui.prompt.control import Completion

_DEFAULT = "default"
_LEVELS = {
    level or _DEFAULT: level for level in get_args(ModelSettings.model_fields["effort"].annotation)
}
_HELP = {_DEFAULT: "as the provider decides"}


def effort(conversation: Conversation, argument: str) -> None:
    if argument and argument not in _LEVELS:
        raise UsageError(f"there is no effort {argument!r}", hint=f"one of {', '.join(_LEVELS)}")
    if argument:
        conversation.use_effort(_LEVELS[argument])
    level = conversation.settings.model.effort or _HELP[_DEFAULT]
    others = "" if argument else f" (others: {', '.join(_LEVELS)})"
    conversation.tell(f"effort: {level}{others}")


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return beginning(typed, {level: _HELP.get(level, "") for level in _LEVELS})


SLASH_COMMAND = SlashCommand(effort, takes="[LEVEL]", complete=complete)
