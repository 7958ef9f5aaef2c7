"""Choose a model to work with: the provider, its key, the model.

Asks at the terminal. The key is stored in a file that only you can read, the model in your
settings.

Examples:
  agent setup
"""

from __future__ import annotations

from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.first_setup import set_up
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.system.programs import user_environ
from agentcli.ui.tty import can_ask


def setup() -> int:
    require_outside_session(user_environ(), "no session may choose its model")
    if not can_ask():
        raise UsageError(
            "there is no terminal to ask at",
            hint="export ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY or GEMINI_API_KEY,\n"
            "  and choose the model with: agent config set model.name PROVIDER/MODEL",
        )
    return 0 if set_up(builder_for(here(), report_config_error)) else 1


COMMAND = setup
