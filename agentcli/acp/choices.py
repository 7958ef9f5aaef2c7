"""Choices that a user has for a session: its mode, its model and how much that reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from agentcli.llm.traits import LEVELS

MODE, MODEL, EFFORT = "mode", "model", "effort"
SETTINGS = {MODE: "agent.approval", MODEL: "model.name", EFFORT: "model.effort"}
"""The setting of each choice."""

_USUAL = "default"
"""The effort if none is asked for."""
_EFFORTS = (_USUAL, *LEVELS)
_MODES: Mapping[str, tuple[str, str]] = {
    "ask": ("Ask", "Asks for what the sandbox or a checkpoint doesn't hold"),
    "auto-edit": ("Auto-edit", "As Ask, and changes files unasked where there is no sandbox"),
    "plan": ("Plan", "Reads, changes nothing"),
    "yolo": ("YOLO", "Asks nothing; what is denied or blocked stays so"),
}
_MOST_MODELS = 100


def modes(current: str) -> SessionModeState:
    return SessionModeState(
        current_mode_id=current,
        available_modes=[
            SessionMode(id=name, name=shown, description=told)
            for name, (shown, told) in _MODES.items()
        ],
    )


def options(
    mode: str, model: str, effort: str, models: Sequence[str]
) -> list[SessionConfigOptionSelect]:
    """Return the choices with their present values; `models` are the others to choose from."""
    names = list(dict.fromkeys([model, *models]))[:_MOST_MODELS]
    return [
        _select(MODE, "Mode", mode, ((name, *each) for name, each in _MODES.items())),
        _select(MODEL, "Model", model, ((name, name, "") for name in names)),
        _select(
            EFFORT, "Effort", effort or _USUAL, ((name, name.title(), "") for name in _EFFORTS)
        ),
    ]


def value_of(option: str, value: str) -> str | None:
    """Return the choice as the settings have it; None if there is no such choice. Any text may name
    a model."""
    known: Mapping[str, Iterable[str]] = {MODE: _MODES, EFFORT: _EFFORTS, MODEL: (value,)}
    if value not in known[option] or not value.strip():
        return None
    return "" if option == EFFORT and value == _USUAL else value


def _select(
    option: str, name: str, current: str, values: Iterable[tuple[str, str, str]]
) -> SessionConfigOptionSelect:
    category = {MODE: "mode", MODEL: "model"}.get(option, "thought_level")
    return SessionConfigOptionSelect.model_validate(
        {
            "type": "select",
            "id": option,
            "name": name,
            "category": category,
            "current_value": current,
            "options": [
                SessionConfigSelectOption(value=value, name=shown, description=told or None)
                for value, shown, told in values
            ],
        }
    )
