"""Finding the endpoint of a model by its name: addresses, keys, local servers."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agentcli.errors import ConfigError, SetupNeeded
from agentcli.llm.catalog import catalogued_models, nearest, resolve
from agentcli.llm.probing import Findings, begin, facts_at, facts_of, listed, loaded_at, models_at
from agentcli.llm.provider import (
    BY_PROTOCOL,
    PROTOCOLS,
    Ask,
    Facts,
    address_variable,
    built_in,
    is_hosted,
    known_providers,
    matching_provider,
    of_model,
    protocol_names,
)
from agentcli.llm.text_tools import TextTools
from agentcli.llm.wire_protocol import Endpoint, WireProtocol
from agentcli.settings import DIALECTS, ProviderSettings, unwrapped
from agentcli.system.programs import find_program

_KEY_COMMAND_S = 30


@dataclass(frozen=True)
class Providers:
    """The models that can be reached, given the user's settings and the environment.

    `learn` receives each key before it is used, so that it can be masked.
    """

    configured: Mapping[str, ProviderSettings]
    environ: Mapping[str, str]
    learn: Callable[[str], None] = lambda key: None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 120.0
    key_fault: str = ""
    """The line of a hint that says why keys which the user supplied could not be read."""
    findings: Findings | None = None
    """What refusals taught of endpoints, if that is kept."""

    def choose(self, wanted: str) -> str:
        """Return the full name of the model to use: `wanted`, or else the first that a key or a
        running local server offers. Raises ConfigError when there is none."""
        if wanted:
            return self.full_name(wanted)
        if found := next(map(_default, self._usable()), None) or self._local_default():
            return found
        raise SetupNeeded(
            "no model to work with: no key is set and no local server answers",
            hint=f"{self.key_fault}at a terminal, agent setup asks for what is needed;\n"
            "  or set ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY or GEMINI_API_KEY;\n"
            "  or start a local server (ollama, LM Studio, vLLM, llama.cpp);\n"
            "  or see agent at work without a model: agent demo",
        )

    def full_name(self, wanted: str) -> str:
        """Return `wanted` as provider/model. A provider's name means its default model, a partial
        name the one model that it fits. Raises ConfigError."""
        if len(wanted.split()) != 1:
            raise ConfigError(f"a model name can't contain spaces: {wanted!r}")
        provider, slash, model = wanted.partition("/")
        kinds = known_providers()
        known = {**kinds, **self.configured}
        if slash and provider in known and model:
            return wanted
        if provider in known:
            if provider in kinds and (default := kinds[provider].default_model):
                return f"{provider}/{default}"
            raise ConfigError(
                f"{provider} is a provider; name its model too",
                hint=f"e.g. -m {provider}/MODEL; see agent models",
            )
        if found := self._by_short_name(wanted):
            return found
        if slash:
            raise ConfigError(
                f"no provider for model {wanted!r}",
                hint=f"name it provider/model, with one of: {', '.join(known)}",
            )
        near = nearest(wanted, _catalogued(_with_default()))
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigError(
            f"there is no model {wanted!r}",
            hint=f"{meant}See agent models; one not listed there is named provider/model",
        )

    def _by_short_name(self, wanted: str) -> str | None:
        """Look among the models of local servers and of providers with a key, then among those of
        other providers, whose keys are then asked for."""
        usable = list(self._usable())
        names = [*_catalogued(usable), *self.local_models()]
        if found := resolve(wanted, names, map(_default, usable)):
            return found
        for other in _with_default():
            if found := resolve(wanted, _catalogued([other]), [_default(other)]):
                return found
        return None

    def usual_names(self) -> list[str]:
        """Return models to choose from without asking a provider: the catalogued ones of providers
        with a key, and those of local servers."""
        usable = list(self._usable())
        names = (*map(_default, usable), *_catalogued(usable), *self.local_models())
        return list(dict.fromkeys(names))

    def _usable(self) -> Iterator[str]:
        """Yield the built-in providers with a default model and a key, best first."""
        return (name for name in _with_default() if self.has_key(name))

    def has_key(self, provider: str) -> bool:
        """Whether a key for the provider is set, or a command that prints one."""
        has_command = bool(self._options(provider).api_key_command)
        return has_command or bool(self.environ.get(self.key_variable(provider) or ""))

    def key_variable(self, provider: str) -> str | None:
        """Return the variable that holds the provider's key; None if a command prints the key or
        the server needs none."""
        options = self._options(provider)
        if options.api_key_command:
            return None
        return options.api_key_env or built_in(provider).key_env or None

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of `provider/model`. Raises ConfigError when its key is missing."""
        provider, _, model = name.partition("/")
        options = self._options(provider)
        base_url = self._address(provider)
        if not base_url and (provider not in known_providers() or built_in(provider).key_env):
            variables = "".join(f"export {name}=…; or " for name in built_in(provider).address_env)
            raise ConfigError(
                f"provider {provider} has no base_url",
                hint=f'{variables}[providers.{provider}] base_url = "https://…"',
            )
        if base_url:
            require_address(base_url, f"provider {provider}: ")
        protocol = self._protocol_name(provider, base_url)
        known = matching_provider(provider, protocol, base_url)
        rows = {**BY_PROTOCOL.get(protocol, {}), **known.models}
        endpoint = Endpoint(
            provider=provider,
            model=model,
            base_url=base_url,
            api_key=self._key(provider),
            headers=options.headers,
            extra_body=options.extra_body,
            drop_params=options.drop_params,
            stream=options.stream,
            images=options.images,
            traits=of_model(model, known.traits, rows),
            connect_timeout_s=self.connect_timeout_s,
            read_timeout_s=self.read_timeout_s,
        )
        found = self.findings.of(endpoint) if self.findings else {}
        return replace(endpoint, traits=endpoint.traits.with_changes(found))

    def keep(self, endpoint: Endpoint, changes: Mapping[str, Any]) -> None:
        """Keep what a refusal taught of an endpoint, for later sessions."""
        if self.findings:
            self.findings.keep(endpoint, changes)

    def _address(self, provider: str) -> str:
        """Return where the provider is; of several addresses, the first at which models are."""
        addresses = self._addresses(provider)
        return _first_answering(tuple(addresses)) if len(addresses) > 1 else addresses[0]

    def _addresses(self, provider: str) -> Sequence[str]:
        """Return where the provider may be: what the settings or the environment say, or else its
        usual addresses. Raises ConfigError for a variable that can't be used."""
        known, options = built_in(provider), self._options(provider)
        if provider == "openai-chat" and not options.base_url:
            options = self._options("openai")
        if options.base_url:
            return (options.base_url,)

        def with_path(value: str) -> str:
            """Return an address; one that names only a host gets the usual path."""
            bare = urlsplit(value).path in ("", "/") and "?" not in value
            return f"{value.rstrip('/')}{urlsplit(known.base_url).path}" if bare else value

        ways = {**known.address_env, address_variable(provider): with_path}
        for variable, address in ways.items():
            if value := self.environ.get(variable, "").strip():
                try:
                    return (address(value),)
                except ValueError as error:
                    raise ConfigError(f"{variable}: {value!r} is not an address") from error
        return (known.base_url, *known.also_at)

    def begin_asking(self, endpoint: Endpoint) -> None:
        """Ask the endpoint's server in the background what the model takes, if only it can say."""
        if asks := self._asks(endpoint.provider, endpoint.base_url):
            begin(endpoint, asks)

    def facts(self, name: str) -> Facts:
        """Return what the server of `provider/model` says of it, as far as it was or can be
        asked."""
        provider, _, model = name.partition("/")
        try:
            base_url = self._address(provider)
            found = facts_of(base_url, model)
            if found is None and self._may_ask(provider, base_url):
                self.begin_asking(self.endpoint(name))
                found = facts_of(base_url, model)
        except ConfigError:
            return Facts()
        return self._as_chosen(provider, found or Facts())

    def all_facts(self, provider: str, models: Sequence[str]) -> Mapping[str, Facts]:
        """Return what the server of a provider says of its models, of each by its full name; those
        of which it says nothing are left out."""
        try:
            base_url = self._address(provider)
            if not models or not self._may_ask(provider, base_url):
                return {}
            endpoint = self.endpoint(f"{provider}/{models[0]}")
        except ConfigError:
            return {}
        said = facts_at(endpoint, models, self._asks(provider, base_url))
        return {f"{provider}/{name}": self._as_chosen(provider, said[name]) for name in said}

    def _may_ask(self, provider: str, base_url: str) -> bool:
        return bool(self._asks(provider, base_url)) and not self._options(provider).api_key_command

    def _as_chosen(self, provider: str, facts: Facts) -> Facts:
        """Return `facts` without those about tools if the user has chosen how these are told."""
        if "tools" not in facts.changes or self._options(provider).tool_format == "auto":
            return facts
        others = {name: value for name, value in facts.changes.items() if name != "tools"}
        return replace(facts, changes=others, message="")

    def window(self, name: str) -> int:
        """Return the window that the server of `provider/model` says it has, in tokens; 0 if it
        does not say."""
        return self.facts(name).window

    def _asks(self, provider: str, base_url: str) -> Sequence[Ask]:
        """Return the ways to ask the server at `base_url`; none if there is no need to."""
        known = built_in(provider)
        if known.ask is not None:
            return (known.ask,)
        may_be_elsewhere = bool(known.base_url) or not known.protocol
        if not (base_url and may_be_elsewhere) or is_hosted(base_url):
            return ()
        kinds = [each.ask for each in known_providers().values() if each.local and each.ask]
        plain = base_url.startswith("http:")
        return (listed, *(ask for ask in kinds if ask is not listed and plain))

    def renewed(self, endpoint: Endpoint) -> Endpoint | None:
        """Return the endpoint with the key that its command prints now; None if there is no command
        or the key has not changed. Raises ConfigError when the command fails."""
        has_command = self._options(endpoint.provider).api_key_command
        key = self._key(endpoint.provider) if has_command else endpoint.api_key
        return None if key == endpoint.api_key else replace(endpoint, api_key=key)

    def takes_images(self, name: str) -> bool:
        """Whether the model may be sent images; the settings of its provider can rule that out."""
        return self._options(name.partition("/")[0]).images

    def protocol(self, endpoint: Endpoint) -> WireProtocol:
        """Return the protocol for the endpoint's wire format, without importing an SDK or sending
        anything. Raises ConfigError when the wire format in the settings does not exist."""
        options = self._options(endpoint.provider)
        name = self._protocol_name(endpoint.provider, endpoint.base_url)
        speaker = PROTOCOLS.get(name)
        if speaker is None:
            said_by = "providers.{}.api" if options.api else "the provider {}"
            raise ConfigError(
                f"{said_by.format(endpoint.provider)}: there is no wire format {name!r}",
                hint=f"use one of: {', '.join(protocol_names())}",
            )
        protocol: WireProtocol = speaker(endpoint)
        wanted = options.tool_format
        if wanted == "text" or (wanted == "auto" and endpoint.traits.tools == "text"):
            return TextTools(protocol, DIALECTS, tell_in_text=True)
        if wanted == "auto":
            # Calls are not looked for where a provider speaks a wire format of its own.
            is_open = name == "chat_completions" or endpoint.provider not in known_providers()
            return TextTools(protocol, DIALECTS if is_open else ())
        return TextTools(protocol, () if wanted == "native" else (wanted,))

    def _protocol_name(self, provider: str, base_url: str) -> str:
        guessed = "anthropic_messages" if "anthropic" in base_url else "chat_completions"
        return self._options(provider).api or built_in(provider).protocol or guessed

    def key_variables(self) -> set[str]:
        """Return the variables that hold model keys, which no command should see."""
        names = {provider.key_env for provider in known_providers().values()}
        names |= {options.api_key_env for options in self.configured.values()}
        return {name for name in names if name}

    def keys(self) -> set[str]:
        return {self.environ[name] for name in self.key_variables() if self.environ.get(name)}

    def local_models(self) -> Iterator[str]:
        """Yield full names of the models of local servers that answer within 0.2 s, except those
        that can't be talked with."""
        local = [name for name, provider in known_providers().items() if provider.local]
        addresses = [(name, address) for name in local for address in self._addresses(name)]
        with ThreadPoolExecutor(len(addresses)) as pool:
            answers = pool.map(models_at, (address for _, address in addresses))
            for (name, _), models in zip(addresses, answers, strict=True):
                yield from (f"{name}/{model}" for model in models)

    def _local_default(self) -> str | None:
        """Return a model of the first local server that answers: one that is in memory, if it
        says."""
        models = list(self.local_models())
        provider = models[0].partition("/")[0] if models else ""
        ask = built_in(provider).ask
        loaded = loaded_at(self._address(provider), ask) if ask else ()
        in_memory = (name for name in models if name.removeprefix(f"{provider}/") in loaded)
        return next(in_memory, next(iter(models), None))

    def _options(self, provider: str) -> ProviderSettings:
        return self.configured.get(provider) or ProviderSettings()

    def _key(self, provider: str) -> str | None:
        """Return the provider's key; None if it needs none. Raises ConfigError for one that no
        header can hold; its message does not reveal the key."""
        options = self._options(provider)
        if options.api_key_command:
            key = _run_key_command(provider, options.api_key_command)
        elif variable := self.key_variable(provider):
            key = unwrapped(self.environ.get(variable, ""))
            # A built-in provider's name may stand for a server of the user's own.
            is_moved = bool(options.base_url and options.api) and options.api_key_env is None
            if not key and (is_moved or built_in(provider).signs_in):
                return None
            if not key:
                raise SetupNeeded(
                    f"no key for {provider}: {variable} is not set",
                    provider=provider,
                    hint=f"{self.key_fault}agent setup asks for one and keeps it; or export "
                    f"{variable}=…;\n  or choose another model with -m, or try: agent demo",
                )
        else:
            return None
        self.learn(key)
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigError(
                f"the key for {provider} contains characters that no key has (a line break or "
                "a space?)",
                hint="set it again, without anything around it",
            )
        return key


def _with_default() -> list[str]:
    return [name for name, provider in known_providers().items() if provider.default_model]


def _default(provider: str) -> str:
    return f"{provider}/{known_providers()[provider].default_model}"


def _catalogued(providers: Iterable[str]) -> list[str]:
    return [f"{name}/{model}" for name in providers for model in catalogued_models(name)]


def require_address(base_url: str, whose: str = "") -> SplitResult:
    """Return the parts of an address. Raises ConfigError, whose message begins with `whose`, if it
    is not a server's address."""
    try:
        address = urlsplit(base_url)
        good = address.scheme in ("http", "https") and bool(address.hostname)
        if good and base_url.isprintable() and (address.port or 1) > 0:
            return address
    except ValueError:
        pass
    hint = "" if "://" in base_url else "it begins with https:// or http://"
    raise ConfigError(f"{whose}{base_url!r} is not the address of a server", hint=hint)


@cache
def _first_answering(addresses: tuple[str, ...]) -> str:
    return next((address for address in addresses if models_at(address)), addresses[0])


def _run_key_command(provider: str, command: str) -> str:
    """Return what the command prints. Raises ConfigError with what it wrote to stderr; the command
    itself is not shown, as it may contain a secret."""
    try:
        name, *arguments = shlex.split(command) or [""]
        program = find_program(name)
        if program is None:
            raise FileNotFoundError(
                f"there is no program {name!r} on PATH, or only one that commands can change"
            )
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_KEY_COMMAND_S,
            # No file of the workspace is here, so version managers can't be made to choose a
            # program.
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        why = f"it took longer than {_KEY_COMMAND_S} s"
    except (OSError, ValueError) as error:
        why = str(error)
    else:
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
        ended = f"it ended with {done.returncode}" if done.returncode else "it printed nothing"
        # What went wrong is at the end.
        said = " ".join(done.stderr.split())[-400:]
        why = f"{ended}: {said}" if said else ended
    raise ConfigError(
        f"the api_key_command of {provider} failed: {why}",
        hint="run the command in a shell to see what is wrong",
    )
