"""Complete commands, options, sessions, models and settings in your shell.

Prints the script for the shell, as in: source <(agent completion bash). With --install, the script
is put where the shell finds it.

Examples:
  source <(agent completion bash)
  agent completion --install
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from agentcli.cli.options import argument, option
from agentcli.errors import ConfigError, UsageError, os_error_text
from agentcli.system.homes import user_home, xdg_folder
from agentcli.system.programs import user_environ
from agentcli.ui.text import say

_SCRIPTS = Path(__file__).parents[1] / "completion"
_SHELLS = ("bash", "zsh", "fish")
_ZSH_HINT = "zsh looks there if ~/.zshrc has, before compinit: fpath=({folder} $fpath)"
_HINTS = {
    "bash": "bash-completion loads it in new shells; without that: source {path} in ~/.bashrc",
    "zsh": _ZSH_HINT,
    "fish": "new shells have it",
}


def completion(
    shell: Annotated[str | None, argument("|".join(_SHELLS), "By default yours.")] = None,
    install: Annotated[bool, option("--install", "Put it where the shell finds it.")] = False,
) -> int:
    shell = shell or Path(user_environ().get("SHELL", "")).name
    if shell not in _SHELLS:
        raise UsageError(
            f"there is no completion for {shell or 'an unknown shell'}",
            hint=f"agent completion {'|'.join(_SHELLS)}",
        )
    script = (_SCRIPTS / f"agent.{shell}").read_text(encoding="utf-8")
    if not install:
        print(script, end="")
        return 0
    path = _place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {os_error_text(error)}") from error
    say(f"{path}\n  {_HINTS[shell].format(path=path, folder=path.parent)}")
    return 0


def _place(shell: str) -> Path:
    """Return where the shell looks for the user's own completions."""
    environ = user_environ()
    home = user_home(environ)
    data = xdg_folder(environ, "XDG_DATA_HOME", f"{home}/.local/share")
    config = xdg_folder(environ, "XDG_CONFIG_HOME", f"{home}/.config")
    return {
        "bash": data / "bash-completion" / "completions" / "agent",
        "zsh": data / "zsh" / "site-functions" / "_agent",
        "fish": config / "fish" / "completions" / "agent.fish",
    }[shell]


COMMAND = completion
