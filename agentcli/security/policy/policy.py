"""Decides what runs unasked, what is asked about, what is denied: docs/safety.md has the table."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from agentcli.errors import ToolError
from agentcli.events import Action
from agentcli.events.actions import (
    BrowseInteractiveAction,
    CmdRunAction,
    IPythonRunCellAction,
    MCPAction,
    MemoryAction,
    path_of,
    tool_name,
)
from agentcli.events.base import Risk
from agentcli.events.observations import DecisionObservation
from agentcli.security.commands.known_commands import is_read_only, opens_only_named, runs_git
from agentcli.security.commands.script import Script, SimpleCommand, quoted
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.policy.command_rules import (
    Allowance,
    CommandContext,
    first_forbidding_rule,
    first_possible_rule,
    judge_allowed,
)
from agentcli.security.policy.grants import grant_choices, grant_for, grant_objection
from agentcli.security.policy.named_files import (
    Losses,
    losses,
    may_run_elsewhere,
    names_hidden,
    shows_secret,
)
from agentcli.security.policy.rule import Decision, Rule, is_loopback
from agentcli.security.policy.rules import (
    UNSANDBOXED,
    matches,
    of_decision,
    parse_grants,
    split_grants,
)
from agentcli.workspace.guard import looks_secret
from agentcli.workspace.scope import AccessScope, Coverage

_NAMES_SECRET = "it names a file that looks like a secret"
Mode = Literal["ask", "auto-edit", "plan", "yolo"]
Confirm = Literal["always", "confirm_risky", "reach", "never"]
_Grants = Callable[[Action, Callable[[str], Path], CommandContext], str | list[str]]


@dataclass(frozen=True)
class _Answer:
    decision: Decision
    reason: str = ""
    rule: str = ""
    risk: Risk = Risk.UNKNOWN


@dataclass
class _Case:
    """An action and what is known about it. `place` is where the path of a file tool leads,
    `script` the command that it starts, `grants` what the user has allowed so far. `git_doubt`
    returns why git may do more than read; `why_not` is why a rule about it does not allow it."""

    action: Action
    place: Path | None
    script: Script | None
    grants: Sequence[str]
    git_doubt: Callable[[], str]
    why_not: str = ""


class GitJudge(Protocol):
    """Judges the repository in which commands work; see RepositoryJudge."""

    def variables_objection(self, changed: Mapping[str, str | None]) -> str: ...
    def reading_objection(self, folder: Path) -> str: ...
    def rule_objection(
        self, words: Sequence[str], *, everywhere: bool, exact: bool, unsandboxed: bool
    ) -> str: ...


@dataclass(frozen=True)
class Policy:
    """Decides whether an action runs unasked, is asked about, or is denied."""

    mode: Mode
    contained: bool
    """Whether a sandbox contains commands and Python code."""
    scope: AccessScope
    rules: tuple[Rule, ...]
    effect_of: Callable[[Action], str]
    """Returns the declared effect of an action's tool: read, write, execute or network."""
    locate: Callable[[str], Path]
    """Returns the file for a path given to a tool."""
    rate: Callable[[Action], tuple[Risk, str]]
    """Returns the risk of an action and why."""
    blocked: Callable[[Action], str]
    """Returns why an action may never run, "" if it may."""
    confirm: Confirm = "reach"
    network: bool = False
    """Whether sandboxed commands reach the network."""
    own_loopback: bool = False
    """Whether the sandbox has a loopback of its own."""
    cwd: Callable[[], str] = lambda: ""
    """Returns the folder that commands run in now."""
    git: Callable[[], GitJudge] | None = None
    """Judges the repository in which commands work; None: there is no objection to it."""
    coverage: Callable[[], Coverage | None] = lambda: None
    """Returns what the checkpoint before an action holds, or None without checkpoints."""
    exported: Callable[[], Mapping[str, str | None]] = dict
    """Returns the variables changed by earlier commands; None: unset."""

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        """Decide whether `action` may run, given what the user has allowed so far. It is denied
        if its path can't be resolved. Otherwise `_answer` decides, and the first reason found there
        is given."""
        try:
            path = path_of(action)
            place = None if path is None else Path(os.path.realpath(self.locate(path)))
        except (ToolError, OSError) as error:
            place, answer = None, _Answer("deny", f"its path can't be resolved: {error}")
        else:
            script = None
            if isinstance(action, CmdRunAction) and action.job is None:
                script = parse_script(action.command)
            case = _Case(action, place, script, grants, self._git_doubt_of(action))
            answer = self._answer(case)
        reason = answer.reason
        if answer.decision == "ask" and (folder := self._folder_elsewhere(action)):
            reason += f"; it would run in {folder}"
        outside = place is not None and not self.scope.may_write(place)
        outside = outside and self.effect_of(action) == "write"
        return DecisionObservation(
            cause=action.id,
            decision=answer.decision,
            by="policy",
            rule=answer.rule,
            risk=answer.risk,
            reason=reason,
            path=str(place) if outside else None,
        )

    def grant_for(self, action: Action) -> str:
        """Return the rule that is offered first for `action`: several joined by "; " for a compound
        command, "" if none would be safe."""
        return next(iter(self._grants(action, grant_for)), "")

    def grant_choices(self, action: Action) -> list[str]:
        """Return the rules worth saving for `action`, from the exact one to the broadest;
        `grant_for` is among them."""
        return self._grants(action, grant_choices)

    def grant_objection(self, action: Action, text: str) -> str:
        """Return why the rules `text`, written by a user, can't be saved to let `action` run
        unasked; "" if they can."""
        return grant_objection(text, lambda grant: self._covers(action, grant))

    def _grants(self, action: Action, made_by: _Grants) -> list[str]:
        """Return the grants that cover `action`; saving any other would not keep it from being
        asked about."""
        try:
            setting = self._setting(action, self._git_doubt_of(action))
            made = made_by(action, self.locate, setting)
        except (ToolError, OSError):
            return []
        grants = [made] if isinstance(made, str) else made
        if self._leaves_sandbox(action):
            grants = [
                "; ".join(
                    f"{UNSANDBOXED}{rule.removeprefix('bash')}" for rule in split_grants(grant)
                )
                for grant in grants
            ]
        return [grant for grant in grants if grant and self._covers(action, grant)]

    def _covers(self, action: Action, grant: str) -> bool:
        """Return whether `action` would run unasked with `grant`. Its risk is not rated for
        this."""
        unrated = replace(self, rate=lambda action: (Risk.UNKNOWN, ""))
        return unrated.decide(action, (grant,)).decision == "allow"

    def _answer(self, case: _Case) -> _Answer:
        """Decide in this order; the first check with an answer gives it."""
        return (
            self._blocked_or_hidden(case)
            or self._denied(case)
            or self._refused_in_plan_mode(case)
            or self._asked_by_rule(case)
            or self._allowed_by_rule(case)
            or self._by_mode(case)
        )

    def _blocked_or_hidden(self, case: _Case) -> _Answer | None:
        if reason := self.blocked(case.action):
            return _Answer("deny", reason, "hard block", Risk.HIGH)
        if case.place is None or self.scope.may_read(case.place):
            return None
        return _Answer("deny", f"{case.place} is hidden from the agent", "hidden")

    @property
    def _start(self) -> str:
        """The folder that commands start in."""
        return self.cwd() or str(self.scope.workspace)

    def _folder_elsewhere(self, action: Action) -> str:
        """Return the folder in which a command would run if that is not the workspace, else "".
        Earlier commands changed to it unasked, and what `rm -r build` means depends on it."""
        if not isinstance(action, CmdRunAction) or action.job is not None or action.is_input:
            return ""
        folder = self.cwd()
        return folder if folder != str(self.scope.workspace) else ""

    def _only_reads(self, case: _Case) -> bool:
        action, script = case.action, case.script
        if not isinstance(action, CmdRunAction):
            return self.effect_of(action) == "read"
        if script is None:
            return action.command.strip() == "status"
        if action.is_input or action.network or action.unsandboxed:
            return False
        if not is_read_only(action.command) or self._names_hidden(action, script):
            return False
        if any(self._why_not_shown(action, part) for part in script.commands):
            return False
        return not any(map(runs_git, script.commands)) or not case.git_doubt()

    def _git_doubt_of(self, action: Action) -> Callable[[], str]:
        """Return a function that looks for doubt when first called, and only then."""
        return functools.cache(lambda: self._git_doubt(action))

    def _git_doubt(self, action: Action) -> str:
        """Return why git may do more than read, though its words say so. Returns "" if it certainly
        only reads, or if what it does is contained and runs unasked anyway."""
        sealed = self.contained and self.scope.sealed
        if self.git is None or (
            self._is_contained(action) and (sealed or self.confirm != "always")
        ):
            return ""
        if why := self.git().variables_objection(self.exported()):
            return why
        return self.git().reading_objection(Path(self._start))

    def _denied(self, case: _Case) -> _Answer | None:
        rule, script = self._matching("deny", case), case.script
        if rule is None:
            return None
        message = f"the rule {rule} of {rule.origin} denies it"
        if script is not None and len(script.commands) > 1:
            parts = (
                p
                for p in script.commands
                if first_forbidding_rule((rule,), replace(script, commands=(p,)))
            )
            message = next((quoted(message, part.written) for part in parts), message)
        return _Answer("deny", message, str(rule))

    def _matching(self, decision: Literal["deny", "ask"], case: _Case) -> Rule | None:
        rules = of_decision(self.rules, decision)
        if case.script is not None:
            return first_forbidding_rule(self._about(case.action, rules), case.script)
        return next((rule for rule in rules if self._matches(rule, case.action)), None)

    def _about(self, action: Action, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Return the rules that may forbid this command."""
        tools = ("bash", UNSANDBOXED) if self._leaves_sandbox(action) else ("bash",)
        return tuple(rule for rule in rules if rule.tool in tools)

    def _leaves_sandbox(self, action: Action) -> bool:
        return isinstance(action, CmdRunAction) and action.unsandboxed and self.contained

    def _matches(self, rule: Rule, action: Action) -> bool:
        effect, scope = self.effect_of(action), self.scope
        return matches(rule, action, effect, self.locate, scope.workspace, scope.home)

    def _refused_in_plan_mode(self, case: _Case) -> _Answer | None:
        if self.mode != "plan" or self._only_reads(case):
            return None
        message = "plan mode only reads and changes nothing"
        why = self._looked_like_reading(case)
        return _Answer("deny", f"{message}; {why}" if why else message, "plan")

    def _asked_by_rule(self, case: _Case) -> _Answer | None:
        """Ask if an asking rule matches. In every mode, also ask about a script that can't be
        judged whole if a denying rule may match a part of it, because nobody can tell."""
        action, script = case.action, case.script
        if script is not None and isinstance(action, CmdRunAction):
            denying = self._about(action, of_decision(self.rules, "deny"))
            if rule := first_possible_rule(denying, script, action.command):
                why = script.unclear or "not every word of it is known before it runs"
                return self._ask(action, f"the rule {rule} may deny it: {why}", str(rule))
        rule = None if self.mode == "yolo" else self._matching("ask", case)
        if rule is None:
            return None
        return self._ask(action, f"the rule {rule} of {rule.origin} asks for it", str(rule))

    def _allowed_by_rule(self, case: _Case) -> _Answer | None:
        granted = (rule for text in case.grants for rule in parse_grants(text))
        rules = (*of_decision(self.rules, "allow"), *granted)
        if isinstance(case.action, CmdRunAction):
            rule = self._rule_for_command(case, case.action, rules)
        else:
            rule = next((each for each in rules if self._matches(each, case.action)), None)
        if rule is None:
            return None
        return _Answer("allow", f"the rule {rule} of {rule.origin} allows it", str(rule))

    def _rule_for_command(
        self, case: _Case, action: CmdRunAction, rules: Iterable[Rule]
    ) -> Rule | None:
        """Return the rule that allows a command; if one is about it and does not, set
        `why_not`."""
        if case.script is None or action.is_input or self._names_hidden(action, case.script):
            return None
        wanted = UNSANDBOXED if self._leaves_sandbox(action) else "bash"
        own = tuple(rule for rule in rules if rule.tool == wanted)
        found = judge_allowed(own, case.script, self._setting(action, case.git_doubt))
        case.why_not = found.why or self._git_objection(action, found)
        if case.why_not or not found.allowed:
            return None
        # What only reads needs no rule, but only a rule for everything widens its rights.
        return found.rule or next((rule for rule in own if not rule.pattern), None)

    def _git_objection(self, action: CmdRunAction, found: Allowance) -> str:
        """Return why rules don't suffice for what git would do outside the sandbox. A rule about
        all commands does."""
        parts = [(part, rule) for part, rule in found.parts if runs_git(part) and rule.pattern]
        if self.git is None or self._is_contained(action) or not parts:
            return ""
        if not action.unsandboxed and (why := self.git().variables_objection(self.exported())):
            return why
        for part, rule in parts:
            why = self.git().rule_objection(
                [word or "" for word in part.words],
                everywhere=not rule.here,
                exact=not rule.pattern.endswith(":*"),
                unsandboxed=self._leaves_sandbox(action),
            )
            if why:
                return f"the rule {rule} is not enough: {why}"
        return ""

    def _setting(self, action: Action, doubt: Callable[[], str]) -> CommandContext:
        """Return where a command would run, for matching rules."""
        return CommandContext(
            str(self.scope.workspace),
            self._redirect_rule(action),
            self.cwd() or None,
            self._is_contained(action),
            lambda: not doubt(),
            lambda part: not self._why_not_shown(action, part),
        )

    def _redirect_rule(self, action: Action) -> Callable[[str, str | None], bool]:
        """Return a function that says whether an allowed command may redirect to a file unasked."""
        contained = self._is_contained(action)

        def may_write(target: str, folder: str | None) -> bool:
            if contained or self.mode == "yolo":
                return True
            start = folder or self.cwd()
            path = Path(target if target.startswith("/") else f"{start}/{target}")
            if self.mode != "auto-edit" or not path.is_absolute() or target.startswith("~"):
                return False
            return self.scope.may_write(Path(os.path.realpath(path)))

        return may_write

    def _is_contained(self, action: Action) -> bool:
        if isinstance(action, CmdRunAction):
            return self.contained and not self._escalates(action)
        return self.contained and isinstance(action, IPythonRunCellAction)

    def _escalates(self, action: CmdRunAction) -> bool:
        return action.unsandboxed or (action.network and not self.network)

    def _names_hidden(self, action: CmdRunAction, script: Script) -> bool:
        """Return whether an uncontained command names a hidden file or searches a folder that
        contains one."""
        return not self._is_contained(action) and names_hidden(script, self.scope, self._start)

    def _by_mode(self, case: _Case) -> _Answer:
        action = case.action
        if self.mode == "yolo":
            return _Answer("allow", "everything runs unasked", "yolo")
        if why := self._looks_secret(case):
            return self._ask(action, why, "secret")
        if self._only_reads(case):
            return _Answer("allow", "it only reads", "read", Risk.LOW)
        if isinstance(action, CmdRunAction) and action.job is not None:
            return _Answer("allow", "it is about a job of this session", "job")
        if self.confirm == "always":
            return self._ask(action, "everything but reading is asked about", "confirm")
        if needs := self._reason_to_ask(action, case.place):
            why_not = case.why_not or self._looked_like_reading(case)
            return self._ask(action, f"{needs}; {why_not}" if why_not else needs, self.mode)
        if self.confirm == "never":
            return _Answer("allow", "it stays within what it may reach", self.mode)
        coverage = self.coverage() if self.contained else None
        if coverage is not None and not coverage.failure:
            if lost := self.losses(action, coverage).loss_reason:
                return self._ask(action, lost, "reach")
            if self.confirm == "reach" and not self.network:
                return _Answer("allow", "it is contained and can be undone", self.mode)
        risk, why = self.rate(action)
        if risk >= Risk.HIGH:
            return _Answer("ask", f"high risk: {why}" if why else "high risk", "risk", risk)
        return _Answer("allow", "it stays within what it may reach", self.mode, risk)

    def _looks_secret(self, case: _Case) -> str:
        """Return why a file outside of what was given to the session looks like a secret, if a tool
        is to read it; "" if none is, or it does not."""
        place = case.place
        if place is None or self.effect_of(case.action) != "read" or self.scope.is_given(place):
            return ""
        return looks_secret(str(place), self.scope.home)

    def _why_not_shown(self, action: Action, part: SimpleCommand) -> str:
        """Return why an uncontained command that only reads may not show unasked what it reads;
        "" if it may."""
        if self._is_contained(action):
            return ""
        if not opens_only_named(part):
            return "it may follow links, or names in files, to what is hidden from the session"
        if may_run_elsewhere(part, self.scope, self._start):
            return "it goes to a folder that does not exist, so it may read elsewhere"
        return _NAMES_SECRET if shows_secret(part, self.scope, self._start) else ""

    def losses(self, action: Action, coverage: Coverage) -> Losses:
        """Return what `action` would destroy among what no checkpoint holds."""
        return losses(action, self.effect_of(action), self.scope, self._start, coverage)

    def _looked_like_reading(self, case: _Case) -> str:
        """Return why a command that looks read-only may do more; "" if it does not look so."""
        if not isinstance(case.action, CmdRunAction) or not is_read_only(case.action.command):
            return ""
        script = parse_script(case.action.command)
        if self._names_hidden(case.action, script):
            return "it may read what is hidden from the session"
        whys = (self._why_not_shown(case.action, part) for part in script.commands)
        if why := next(filter(None, whys), ""):
            return why
        return case.git_doubt() if any(map(runs_git, script.commands)) else ""

    def _reason_to_ask(self, action: Action, place: Path | None) -> str:
        """Return why `action` goes beyond what runs unasked; "" if it does not."""
        effect = self.effect_of(action)
        if effect == "write" and place is not None:
            if not self.scope.may_write(place):
                return "the file is outside the folders that may be written"
            return self._of_edits()
        if isinstance(action, MemoryAction):
            why = "notes about the user are shared with sessions in all projects"
            return why if action.target == "user" else self._of_edits()
        if isinstance(action, CmdRunAction) and self._escalates(action) and self.contained:
            wanted = "to run outside the sandbox" if action.unsandboxed else "network access"
            return f"it wants {wanted}"
        if isinstance(action, MCPAction):
            return f"it calls a tool of the server {action.server}, which may do anything"
        # Nothing can leave from a page that was visited before, or that comes from a server that
        # commands started in their sandbox.
        if isinstance(action, BrowseInteractiveAction) and (
            action.url is None or (self.own_loopback and is_loopback(action.url))
        ):
            return ""
        if effect == "network":
            return "" if self.network else "it reaches the network"
        if self._is_contained(action):
            return ""
        tool = tool_name(action)
        kinds = {"bash": "commands", "python": "python code"}
        return f"no sandbox contains {kinds.get(tool, f'what {tool} does')}"

    def _of_edits(self) -> str:
        """Return why an edit within the writable places must be asked about; "" if it need not."""
        if self.contained or self.mode == "auto-edit":
            return ""
        return "no sandbox contains commands, so edits are asked about too"

    def _ask(self, action: Action, reason: str, rule: str) -> _Answer:
        risk, why = self.rate(action)
        message = f"{reason}; high risk: {why}" if risk >= Risk.HIGH and why else reason
        return _Answer("ask", message, rule, risk)
