"""Reading shell commands: what may run, and which of it certainly changes nothing."""

from __future__ import annotations

from agentcli.security.commands.read_only import is_read_only, only_reads
from agentcli.security.commands.script import Redirect, Script, SimpleCommand
from agentcli.security.commands.shell_parse import parse_script

__all__ = ["Redirect", "Script", "SimpleCommand", "is_read_only", "only_reads", "parse_script"]
