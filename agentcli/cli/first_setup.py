"""Set up a first model: which provider, its key, which of its models.

The key goes into a file of its own, the model into the user's settings.
"""

from __future__ import annotations

import re
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.configuration.config import key_path
from agentcli.app.configuration.places import require_keepable, store_key, user_file
from agentcli.app.configuration.settings_file import require_changeable, set_in_file
from agentcli.cli.provider_probe import ProviderAnswer, local_models, probe_provider
from agentcli.cli.user_paths import tilde_path
from agentcli.errors import ConfigError, SetupNeeded
from agentcli.llm.catalog import resolve
from agentcli.llm.provider import Provider, known_providers
from agentcli.llm.registry import Providers, require_address
from agentcli.settings import ProviderSettings
from agentcli.ui.summary import count
from agentcli.ui.tty import Questions

_ANOTHER = "another"
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_LIMIT_S = 10.0
_STANDING_COLUMN = 5
_MOST_LISTED = 40


def set_up(builder: AgentBuilder, missing: SetupNeeded | None = None) -> bool:
    """Ask the user at the terminal for what is missing to reach a model, and store it. If
    `missing` names a provider, ask only for its key. Return False if the user left or there is no
    terminal. Raises ConfigError when it can't be stored."""
    require_keepable(builder.environ)
    require_changeable(user_file(builder.environ))
    try:
        with Questions() as terminal:
            setup = _Setup(terminal, builder)
            if missing is not None and missing.provider:
                terminal.tell(f"\n{missing.message}.")
                return setup.with_key(missing.provider) is not None
            return setup.run()
    except (OSError, termios.error):
        return False


@dataclass
class _Setup:
    terminal: Questions
    builder: AgentBuilder
    own: dict[str, str] = field(default_factory=dict)
    """Settings of the user's own server, by key; they are stored together with its model."""

    @property
    def _registry(self) -> Providers:
        """The providers, with the keys stored so far and short timeouts."""
        return replace(self.builder.registry(), connect_timeout_s=_LIMIT_S, read_timeout_s=_LIMIT_S)

    def run(self) -> bool:
        """Ask until there is a model or the user leaves; return whether there is one."""
        while (provider := self._ask_provider()) is not None:
            if provider == _ANOTHER:
                provider = self._ask_server()
            if provider is None:
                continue
            wants_key = self._registry.key_variable(provider) or self._registry.has_key(provider)
            answer = self.with_key(provider) if wants_key else self._running(provider)
            model = None if answer is None else self._ask_model(provider, answer.models)
            if model is not None:
                if message := self._registry.facts(model).message:
                    self.terminal.tell(f"  {message}")
                self._keep(model)
                return True
        return False

    def _ask_provider(self) -> str | None:
        say = self.terminal.tell
        found = local_models(self._registry)
        offered = {name: kind for name, kind in known_providers().items() if kind.title}
        offered[_ANOTHER] = Provider("chat_completions", title="another")
        say("\nagent needs a model. From which provider?\n")
        for number, (name, kind) in enumerate(offered.items(), 1):
            standing = self._standing(name, kind, found)
            say(f" {number:>2}  {kind.title:<14} {standing}", _STANDING_COLUMN)
        say()
        while answer := self.terminal.ask("Number, or Enter to leave: "):
            if answer.isdecimal() and 0 < int(answer) <= len(offered):
                return list(offered)[int(answer) - 1]
            for name, kind in offered.items():
                if answer.lower() in (name, kind.title.lower()):
                    return name
            say(f"  a number from 1 to {len(offered)}, please")
        return None

    def _standing(self, name: str, kind: Provider, found: Mapping[str, Sequence[str]]) -> str:
        if name == _ANOTHER:
            return "server with an API like OpenAI's: a proxy, a gateway"
        if name in found:
            return f"runs on this machine, {count(len(found[name]), 'model')}"
        if kind.local:
            return f"not running; start it: {kind.start}"
        if self._registry.has_key(name):
            return "its key already exists"
        return f"a key from {kind.keys_page}"

    def _ask_server(self) -> str | None:
        """Ask for a server of the user's own, add it to the settings, and return its name."""
        address = self.terminal.ask("Its address, such as https://llm.example.com/v1: ")
        if not address:
            return None
        try:
            host = (require_address(address).hostname or "").lower()
        except ConfigError as error:
            self.terminal.tell(f"  {error.message}; it begins with http:// or https://")
            return None
        own_machine = host in _LOOPBACK
        first = re.sub(r"[^a-z0-9-]", "", host.partition(".")[0])
        usual = "local" if own_machine else first if first.strip("-0123456789") else "own"
        name = self.terminal.ask(f"A name for it [{usual}]: ")
        if name is None:
            return None
        name = name or usual
        if not _NAME.fullmatch(name) or name in known_providers():
            self.terminal.tell("  the name must be new, and made of letters, digits, _ and -")
            return None
        variable = re.sub(r"\W", "_", name).upper() + "_API_KEY"
        self.own = {f"providers.{name}.base_url": address}
        if self.terminal.agrees("Does it need a key?", by_default=not own_machine):
            self.own[f"providers.{name}.api_key_env"] = variable
        options = {key.rpartition(".")[2]: value for key, value in self.own.items()}
        own = {name: ProviderSettings.model_validate(options)}
        providers = {**self.builder.settings.providers, **own}
        settings = self.builder.settings.model_copy(update={"providers": providers})
        self.builder = replace(self.builder, settings=settings)
        return name

    def _running(self, provider: str) -> ProviderAnswer | None:
        answer = probe_provider(self._registry, provider)
        if answer.error or not answer.models:
            self.terminal.tell(f"  {answer.error or f'{_title(provider)} has no model yet'}")
            if start := _kind(provider).start:
                self.terminal.tell(f"  start it in another terminal ({start}), then choose again")
            return None
        return answer

    def with_key(self, provider: str) -> ProviderAnswer | None:
        """Return what the provider answers to its key, asking for one if necessary and storing it.
        None if the user went back."""
        if self._registry.has_key(provider):
            answer = self._try(provider, self._registry)
            if answer.standing != "refused" or self._registry.key_variable(provider) is None:
                return answer
        question = f"{_title(provider)} key (hidden as you paste it; Enter goes back): "
        while key := self.terminal.ask_secret(question):
            variable = self._registry.key_variable(provider) or ""
            environ = {**self.builder.environ, variable: key}
            try:
                answer = self._try(provider, replace(self._registry, environ=environ))
            except ConfigError as error:
                self.terminal.tell(f"  {error.message}; {error.hint}".rstrip("; "))
                continue
            if answer.standing == "refused":
                continue
            if answer.error and not self.terminal.agrees("  Keep the key anyway?"):
                continue
            path = store_key(self.builder.environ, variable, key)
            self.terminal.tell(f"  kept in {tilde_path(path)}, readable only by you")
            if self.builder.environ.get(variable):
                self.terminal.tell(f"  {variable} in your shell takes precedence: unset {variable}")
            return answer
        return None

    def _try(self, provider: str, registry: Providers) -> ProviderAnswer:
        """Ask the provider for its models. Raises ConfigError for an impossible key or address."""
        endpoint = registry.endpoint(f"{provider}/any")
        self.terminal.tell(f"  asking {urlsplit(endpoint.base_url).hostname} …")
        answer = probe_provider(registry, provider)
        # The provider's error message may contain the key.
        error = answer.error.replace(endpoint.api_key or "\n", "…")
        works = f"the key works: {count(len(answer.models), 'model')}"
        self.terminal.tell(f"  {error or works}")
        return answer

    def _ask_model(self, provider: str, models: Sequence[str]) -> str | None:
        """Return the full name of the model that the user chooses; None if they went back."""
        say = self.terminal.tell
        usual = _kind(provider).default_model
        names = [f"{provider}/{model.removeprefix('models/')}" for model in models]
        default = f"{provider}/{usual}" if usual else next(iter(names), "")
        if not usual:
            self._list(names)
        how = "? lists them" if usual else "number or name"
        short = default.partition("/")[2]
        while (answer := self.terminal.ask(f"Model [{short}] ({how}): ")) is not None:
            if not answer:
                return default or None
            if answer == "?":
                self._list(names)
            elif len(answer.split()) > 1:
                say("  a model name can't contain spaces")
            elif answer.isdecimal() and 0 < int(answer) <= len(names):
                return names[int(answer) - 1]
            else:
                try:
                    if found := resolve(answer, names or [f"{provider}/{answer}"], [default]):
                        return found
                    say(f"  there is no model {answer!r} there")
                except ConfigError as error:
                    say(f"  {error.message}; {error.hint}")
        return None

    def _list(self, names: Sequence[str]) -> None:
        for number, name in enumerate(names[:_MOST_LISTED], 1):
            self.terminal.tell(f"  {number:>2}  {name.partition('/')[2]}")
        if len(names) > _MOST_LISTED:
            more = len(names) - _MOST_LISTED
            self.terminal.tell(f"      and {more} more: a part of a name will do")

    def _keep(self, model: str) -> None:
        path = user_file(self.builder.environ)
        for key, value in {**self.own, "model.name": model}.items():
            if key == "model.name" or model.startswith(f"{key_path(key)[1]}/"):
                set_in_file(path, key, value)
        self.terminal.tell(f"  kept in {tilde_path(path)}")
        if shell := self.builder.environ.get("AGENT_MODEL"):
            self.terminal.tell(f"  AGENT_MODEL={shell} in your shell takes precedence")
        self.terminal.tell(f"Ready, with {model}.")


def _kind(provider: str) -> Provider:
    """Return the provider's description; an empty one for a server of the user's own."""
    return known_providers().get(provider) or Provider("chat_completions")


def _title(provider: str) -> str:
    return _kind(provider).title or provider
