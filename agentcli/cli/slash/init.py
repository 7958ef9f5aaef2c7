"""Have the agent describe this project in AGENTS.md, which every later session is given.

Text after the name is added to the task: `/init in German`.
"""

from __future__ import annotations

from agentcli.agent.prompts import INIT_TASK
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.ui.prompt.control import Submission


def init(conversation: Conversation, argument: str) -> None:
    typed = f"/init {argument}".rstrip()
    task = f"{INIT_TASK.rstrip()}\n\n{argument}".rstrip()
    conversation.say(Submission(task), typed=typed)


SLASH_COMMAND = SlashCommand(init, takes="[WISH]")
