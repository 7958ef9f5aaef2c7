"""Switch to another model, from the next request on, with all that was said so far.

A part of the name is enough if it fits only one model: /model sonnet. Without a name, you choose
from the models that can be reached; typing narrows the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

from agentcli.app.agent_builder import AgentBuilder
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.provider_probe import catalog_with, model_facts, probe_providers, told_facts
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.errors import ConfigError, NothingChosen
from agentcli.ui.choices import Choice, aligned
from agentcli.ui.picker import Question, pick
from agentcli.ui.prompt.control import Completion
from agentcli.ui.text import Span

_SOON_S = 0.05
_MOST_OFFERED = 50


class _Names:
    """The names of models for completion, listed once on a separate thread, because that loads the
    catalogue and looks for local servers."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._lister: Thread | None = None

    def of(self, builder: AgentBuilder) -> Sequence[str]:
        """Return the names known so far. At first they may be few; the next key gets more."""
        if self._lister is None:

            def read() -> None:
                self._names = builder.registry().usual_names()

            self._lister = Thread(target=read, name="models to complete", daemon=True)
            self._lister.start()
            self._lister.join(_SOON_S)
        return self._names

    def learn(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys([*names, *self._names]))


_names = _Names()


def model(conversation: Conversation, argument: str) -> None:
    conversation.use_model(argument or _choose_model(conversation))
    if conversation.opened is None:
        conversation.tell(f"{conversation.status.model} will answer")


def _choose_model(conversation: Conversation) -> str:
    with conversation.working():
        registry = conversation.builder.registry()
        answers = list(probe_providers(registry))
        told = told_facts(registry, answers)
    names = [f"{each.provider}/{model}" for each in answers for model in each.models]
    if not names:
        why = "; ".join(f"{each.provider}: {each.error}" for each in answers if each.error)
        raise ConfigError(why or "no model can be reached", hint="agent setup asks for a key")
    _names.learn(names)
    catalog = catalog_with(conversation.settings.prices, told)
    now = conversation.status.model
    names = list(dict.fromkeys([now, *names]))
    cells = [[Span(cell, "dim") for cell in model_facts(catalog, name)] for name in names]
    choices = [
        Choice(name, title=name, facts=facts, name="now" if name == now else "")
        for name, facts in zip(names, aligned(cells, right=(0, 1, 2)), strict=True)
    ]
    with conversation.prompt.suspended():
        picked = pick(Question("which model? (context, $ in, $ out) ", "switches to it"), choices)
    if picked is None:
        raise NothingChosen
    return picked.value


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    if not typed or typed.endswith(" "):
        return ()
    names = _names.of(conversation.builder)
    begin = beginning(typed, dict.fromkeys(names, ""))
    hold = [Completion(f"{n} ") for n in names if typed in n and not n.startswith(typed)]
    return [*begin, *hold][:_MOST_OFFERED]


SLASH_COMMAND = SlashCommand(model, takes="[NAME]", complete=complete)
