"""The texts for the model, as Jinja templates."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError
from agentcli.workspace.private import replace_atomically

if TYPE_CHECKING:
    from jinja2 import Template


_BUILT_IN = Path(__file__).with_name("system.j2")
_LARGEST_BYTES = 100_000
_MOST_CACHED = 20


@dataclass(frozen=True)
class SandboxFacts:
    """What the model should know about the sandbox; paths are those that commands see."""

    layer: str
    network: bool = False
    loopback: bool = False
    """Whether commands have a loopback of their own."""
    host_ports: tuple[int, ...] = ()
    """Ports of the machine's loopback that commands reach on their own loopback."""
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    private_tmp: bool = False
    confined: bool = False
    sealed: bool = False
    """Whether this is plan mode, in which the workspace can't be written."""


@dataclass(frozen=True)
class PromptFacts:
    """What the system text depends on. `watched`: a user follows the work; `askable`: a user can be
    asked; `small_window`: the model's window is small; `text_tools`: the text must describe the
    tools and how to call them; without `sandbox`, nothing contains commands."""

    watched: bool = False
    askable: bool = False
    small_window: bool = False
    text_tools: bool = False
    sandbox: SandboxFacts | None = None


class PromptManager:
    """Makes the system text from the built-in template, or from a file of the user.

    The template engine takes longer to load than everything else here, so texts are cached in the
    folder `cache`, by what they depend on; None: no cache. The folder may be deleted at any time.
    """

    def __init__(self, own_template: Path | None = None, cache: Path | None = None) -> None:
        self._template = own_template or _BUILT_IN
        self._is_own = own_template is not None
        self._cache = cache

    def system_text(self, facts: PromptFacts) -> str:
        """Return the text. Raises ConfigError if the user's template can't be read or rendered."""
        source = self._source()
        key = sha256(f"{source}\0{facts!r}".encode(errors="replace")).hexdigest()[:32]
        kept = self._cache / f"{key}.txt" if self._cache is not None else None
        if kept is not None:
            with suppress(OSError, ValueError):
                return _verified(kept.read_text(encoding="utf-8"))
        text = self._rendered(source, facts)
        if kept is not None:
            with suppress(OSError):
                _keep(kept, text)
        return text

    def _source(self) -> str:
        try:
            source = self._template.read_bytes()[: _LARGEST_BYTES + 1].decode()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise self._fault(f"can't be read: {why}") from error
        if len(source) > _LARGEST_BYTES:
            raise self._fault(f"is longer than {_LARGEST_BYTES:,} characters")
        return source

    def _rendered(self, source: str, facts: PromptFacts) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError

        try:
            text = _compiled(source).render(vars(facts))
        except TemplateSyntaxError as error:
            raise self._fault(f"line {error.lineno}: {error.message}") from error
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise self._fault(f"can't be rendered: {error}") from error
        if not text.strip():
            raise self._fault("gives an empty text")
        return text.strip()

    def _fault(self, what: str) -> ConfigError:
        hint = "agent.prompt names this file; empty, the built-in text is used"
        return ConfigError(f"{self._template}: {what}", hint=hint if self._is_own else "")


@lru_cache(maxsize=_MOST_CACHED)
def _compiled(source: str) -> Template:
    """Return the compiled template. Raises TemplateError."""
    from jinja2 import Environment, StrictUndefined

    return Environment(undefined=StrictUndefined, autoescape=False).from_string(source)


def _verified(kept: str) -> str:
    """Return the text of a cached file. Raises ValueError if it was not written completely."""
    digest, _, text = kept.partition("\n")
    if digest != sha256(text.encode()).hexdigest():
        raise ValueError("damaged")
    return text


def _keep(path: Path, text: str) -> None:
    """Cache `text` in the file `path`, and remove the oldest others. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    others = sorted(path.parent.glob("*.txt"), key=lambda each: each.stat().st_mtime)
    for old in others[: max(0, len(others) - _MOST_CACHED + 1)]:
        old.unlink(missing_ok=True)
    replace_atomically(path, f"{sha256(text.encode()).hexdigest()}\n{text}".encode(), shared=True)


INIT_TASK = """\
Write AGENTS.md at the root of this project (the repository's, if it is one): what an engineer, or
a coding agent, who has never seen it needs to know before the first change. It is read at the
start of every session, so each line must be worth it.

Look first: README and CONTRIBUTING, manifests and lock files, settings of build, lint and CI,
scripts, tests, the main folders of code, the last weeks of `git log`. Take over what still holds
from other files of instructions (CLAUDE.md, .cursorrules, .github/copilot-instructions.md). Where
it is quick and changes nothing, try the commands that you are going to name, one test for
instance. Install nothing.

Then write, leaving out what there is nothing to say of:
1. What this is, in one or two sentences.
2. Commands, exactly as they are typed here: build, run, all tests, a single test, lint, format,
   types.
3. Where things are: the folders and files that matter, a line each.
4. How code is written here: only what no tool enforces and no glance at a file shows.
5. Pitfalls: generated files, what must not be touched, services and variables that are needed.

Only what you found to be so: nothing invented, no general advice. Mark a command that you could
not try. Stay under 80 lines. If there is an AGENTS.md, keep what holds, correct what doesn't, add
what is missing. Change no other file. At the end say in a few sentences what you wrote and what
you are not sure of.
"""
