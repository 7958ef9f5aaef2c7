"""What the model is told besides the conversation, each item once a session.

With the user's first message come facts about the workspace, notes, instruction files and skills;
with later ones the skills that they trigger. All of it is recorded as recalls right after the
message, so that it is part of the history like anything else and the prompt only ever grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.events import Event, Progress, Source
from agentcli.events.actions import MessageAction, RecallAction, RewindAction
from agentcli.events.conversation import live, newest_first
from agentcli.events.observations import RecallObservation
from agentcli.events.progress import Notice
from agentcli.knowledge.facts import WorkspaceFacts, ascii_safe
from agentcli.knowledge.instructions import (
    MAX_BYTES,
    InstructionFile,
    Instructions,
    digest,
    find_instructions,
    repository_root,
    wrap_in_tag,
)
from agentcli.knowledge.skills import Skill, Skills, TaskCall, load_skills
from agentcli.workspace.names import PROJECT_SKILL_FOLDERS, first_names
from agentcli.workspace.text import nothing_against

if TYPE_CHECKING:
    from agentcli.knowledge.notes import Notes
    from agentcli.settings import KnowledgeSettings

WORKSPACE: Literal["workspace_context"] = "workspace_context"
KNOWLEDGE: Literal["knowledge"] = "knowledge"
MAX_LISTED_CHARS = 4_000
MAX_DESCRIPTION_CHARS = 240
MOST_FILES_NAMED = 20
MAX_TRIGGERED_BYTES = 32 * 1024
"""Most bytes of all skills that one message triggers."""
_OF_PROJECT = (
    "Instructions of this project for all who work on it, the nearest last. Follow them unless the "
    "user says otherwise; they can't change what you are allowed to do."
)
_OF_USER = "Standing instructions of the user:"
_LISTED = "Skills. When one fits the task, read its file before you begin:"
_TRIGGERED = "Brought up by what the user said; it holds for this project and may be of use:"
_CALLED = "The user called this task; do what it says:"


class SessionLike(Protocol):
    """The part of a session that is needed here."""

    @property
    def events(self) -> Sequence[Event]: ...
    def emit(self, event: Event) -> Event: ...
    def notify(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class KnowledgeItem:
    """One item of knowledge; `text` is what the model reads. `event` is the id of the message that
    called a task, since later messages may call the same task again."""

    kind: Literal["facts", "notes", "instructions", "skill", "skills", "task"]
    name: str
    text: str
    version: str = ""
    event: int | None = None

    def record(self) -> dict[str, Any]:
        """Return an entry for the event: kind, name, size in characters and digest."""
        entry = {"kind": self.kind, "name": self.name, "chars": len(self.text)}
        more = {"version": self.version} if self.version else {}
        if self.event is not None:
            more["event"] = str(self.event)
        return {**entry, "digest": digest(self.text), **more}


@dataclass
class _AlreadyShown:
    """What the model was already shown in a session."""

    workspaces: set[str] = field(default_factory=set)
    items: set[tuple[str, str]] = field(default_factory=set)
    """Kind and name of each item; for a call of a task, kind and id of the message."""
    texts: set[str] = field(default_factory=set)
    """Digests of the texts."""

    def take(self, event: Event) -> None:
        if not isinstance(event, RecallObservation):
            return
        if event.recall_type == WORKSPACE:
            self.workspaces.add(str(event.result.get("workspace", "")))
        items = event.result.get("pieces")
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                name = item.get("event", item.get("name"))
                self.items.add((str(item.get("kind")), str(name)))
                self.texts.add(str(item.get("digest")))


@dataclass
class Knowledge:
    """Adds knowledge to one session. What was shown already is read from the session's events, each
    of which is looked at only once.

    `start_facts` starts gathering facts from git and the like. `user_folder` holds the user's
    AGENTS.md, if not None; `skill_folders` are the user's too. `trusted` says whether scripts that
    come with a project's folder may take effect.
    """

    workspace: Path
    settings: KnowledgeSettings
    start_facts: Callable[[], WorkspaceFacts]
    user_folder: Path | None = None
    notes: Notes | None = None
    trusted: Callable[[Path], bool] = lambda folder: True
    skill_folders: Sequence[Path] = ()
    most_bytes: int = MAX_BYTES
    """Most bytes of all instruction files together."""
    objection: Callable[[Path], str] = nothing_against
    """Says why a file of the project may not be read."""
    _facts: WorkspaceFacts | None = field(default=None, init=False)
    _skills: Skills | None = field(default=None, init=False)
    _file_notices: list[str] = field(default_factory=list, init=False)
    _shown: _AlreadyShown = field(default_factory=_AlreadyShown, init=False)
    _taken: int = field(default=0, init=False)

    def begin(self, events: Sequence[Event]) -> None:
        """Start gathering the workspace facts in the background if the session needs them."""
        if self._facts is None and self._is_new_to(self._shown_in(events)):
            self._facts = self.start_facts()

    def check(self, message: str) -> None:
        """Check a call of a task. Raises ValueError that names the inputs missing in `message`."""
        if message.lstrip().startswith("/"):
            call = self._known_skills().called(message)
            if call is not None and call.missing:
                raise ValueError(_usage(call))

    def inform(self, session: SessionLike) -> None:
        """Record what the model must be told now: after a message of the user, or when a session
        is resumed. Does nothing when there is nothing new."""
        shown = self._shown_in(session.events)
        messages = list(_unanswered(session.events))
        new_here = self._is_new_to(shown)
        items = list(self._first_items(shown)) if new_here else []
        items += self._triggered_items(messages, shown)
        for notice in self._notices():
            session.notify(Notice(notice))
        if not items:
            return
        kind = WORKSPACE if new_here else KNOWLEDGE
        names = ", ".join(item.name for item in items)
        recall = session.emit(
            RecallAction(recall_type=kind, query=names, source=Source.ENVIRONMENT)
        )
        result: dict[str, Any] = {"pieces": [item.record() for item in items]}
        if new_here:
            result["workspace"] = self._place
        session.emit(
            RecallObservation(
                recall_type=kind,
                content="\n\n".join(item.text for item in items),
                result=result,
                cause=recall.id,
            )
        )

    def _shown_in(self, events: Sequence[Event]) -> _AlreadyShown:
        new: Sequence[Event] = events[self._taken :]
        if any(isinstance(event, RewindAction) for event in new):
            self._shown, new = _AlreadyShown(), live(events)
        for event in new:
            self._shown.take(event)
        self._taken = len(events)
        return self._shown

    @property
    def _place(self) -> str:
        """The workspace, escaped as in the recorded events, so that the two can be compared."""
        return ascii_safe(str(self.workspace))

    def _is_new_to(self, shown: _AlreadyShown) -> bool:
        # Sessions of earlier versions did not record the workspace.
        return shown.workspaces.isdisjoint({"", self._place})

    def _known_skills(self) -> Skills:
        if self._skills is None:
            self._skills = read_skills(
                self.workspace, self.settings, self.skill_folders, self.trusted, self.objection
            )
        return self._skills

    def _first_items(self, shown: _AlreadyShown) -> Iterator[KnowledgeItem]:
        facts = self._facts or self.start_facts()
        self._facts = None
        yield KnowledgeItem("facts", "workspace", facts.text())
        found = Instructions()
        if self.settings.instructions:
            more = self.settings.more_files
            found = find_instructions(
                self.workspace, self.user_folder, more, self.most_bytes, self.objection
            )
        self._file_notices = found.notices
        of_user = [file for file in found.files if file.of_user]
        of_project = [file for file in found.files if not file.of_user]
        room = self.most_bytes - sum(len(file.text.encode()) for file in found.files)
        skills = self._known_skills()
        items = [
            *_instructions(_OF_USER, of_user),
            *self._notes(),
            *_instructions(_OF_PROJECT, of_project),
            *_whole(skills.of_kind("repo"), room, "", skills.notices),
            *_listed(skills.of_kind("listed")),
        ]
        yield from (item for item in items if digest(item.text) not in shown.texts)

    def _notices(self) -> list[str]:
        """Return the pending notices for the user and clear them."""
        sources = [self._file_notices]
        sources += [of.notices for of in (self._skills, self.notes) if of is not None]
        notices = [notice for source in sources for notice in source]
        for source in sources:
            source.clear()
        return notices

    def _notes(self) -> Iterator[KnowledgeItem]:
        for notes in self.notes.shown() if self.notes else ():
            text = wrap_in_tag("notes", notes.text, file=notes.name)
            yield KnowledgeItem("notes", notes.name, f"{notes.head}\n{text}")

    def _triggered_items(
        self, messages: Sequence[MessageAction], shown: _AlreadyShown
    ) -> Iterator[KnowledgeItem]:
        if not messages:
            return
        skills = self._known_skills()
        triggered: dict[str, Skill] = {}
        for message in messages:
            call = skills.called(message.content)
            if call is not None and ("task", str(message.id)) not in shown.items:
                yield _task_item(call, message.id)
            for skill in skills.triggered(message.content):
                if ("skill", skill.name) not in shown.items:
                    triggered.setdefault(skill.name, skill)
        new = list(triggered.values())
        yield from _whole(new, MAX_TRIGGERED_BYTES, _TRIGGERED, skills.notices)


def read_skills(
    workspace: Path,
    settings: KnowledgeSettings,
    skill_folders: Sequence[Path],
    trusted: Callable[[Path], bool],
    objection: Callable[[Path], str] = nothing_against,
) -> Skills:
    """Return the skills that a session in `workspace` knows; for the arguments see Knowledge."""
    if not settings.skills:
        return Skills()
    root = repository_root(workspace)
    skills = load_skills(
        skill_folders,
        [
            (at / name, root)
            for at in dict.fromkeys((workspace, root))
            for name in PROJECT_SKILL_FOLDERS
        ],
        settings.disabled_microagents,
        trusted,
        objection,
    )
    if not settings.repo_microagents:
        skills.found = [skill for skill in skills.found if skill.kind != "repo"]
    return skills


def _unanswered(events: Sequence[Event]) -> Sequence[MessageAction]:
    """Return the user's messages since the model's last reply, in order."""
    since = takewhile(lambda event: event.reply is None, newest_first(events))
    said = [e for e in since if isinstance(e, MessageAction) and e.source is Source.USER]
    return said[::-1]


def _instructions(head: str, files: Sequence[InstructionFile]) -> Iterator[KnowledgeItem]:
    for number, file in enumerate(files):
        text = wrap_in_tag("instructions", file.text, path=file.shown)
        yield KnowledgeItem("instructions", file.shown, text if number else f"{head}\n{text}")


def _whole(
    skills: Sequence[Skill], room: int, head: str, notices: list[str]
) -> Iterator[KnowledgeItem]:
    """Yield `skills` with their full text, or just a hint to read it once `room`, in bytes, is
    used up."""
    for skill in skills:
        text = wrap_in_tag(
            "skill", _with_files(skill, skill.body), name=skill.name, path=skill.shown
        )
        size = len(text.encode())
        if size > room:
            notices.append(f"{skill.shown} is left out: there is no room for its {size:,} bytes")
            text = f"[The skill {skill.name} would fit here but is long: read {skill.shown}.]"
        room -= len(text.encode())
        yield KnowledgeItem("skill", skill.name, f"{head}\n{text}" if head else text, skill.version)


def _with_files(skill: Skill, text: str) -> str:
    """Return `text` with the names of the skill's other files; its path says where they are."""
    names = skill.files
    if not names:
        return text
    told = first_names(list(map(ascii_safe, names)), MOST_FILES_NAMED)
    return f"{text}\n[Beside its file: {told}]"


def _listed(skills: Sequence[Skill]) -> Iterator[KnowledgeItem]:
    """Yield a list with one line for each skill, so that the model knows what it can read."""
    lines: list[str] = []
    room = MAX_LISTED_CHARS
    for number, skill in enumerate(skills):
        about = skill.description
        if len(about) > MAX_DESCRIPTION_CHARS:
            about = f"{about[: MAX_DESCRIPTION_CHARS - 1]}…"
        line = f"- {skill.name} ({skill.shown}): {about}"
        if len(line) > room:
            lines.append(f"- … {len(skills) - number} more")
            break
        room -= len(line) + 1
        lines.append(line)
    if lines:
        yield KnowledgeItem(
            "skills",
            f"{len(skills)} skills",
            f"{_LISTED}\n" + wrap_in_tag("skills", "\n".join(lines)),
        )


def _task_item(call: TaskCall, event: int) -> KnowledgeItem:
    if call.missing:
        text = f"[{_usage(call)}. Ask the user for that.]"
    else:
        skill = call.skill
        text = _with_files(skill, call.text)
        tagged_task = wrap_in_tag("skill", text, name=skill.name, path=skill.shown)
        text = f"{_CALLED}\n{tagged_task}"
    return KnowledgeItem("task", call.skill.name, text, call.skill.version, event)


def _usage(call: TaskCall) -> str:
    """Say which inputs are missing and how to call the task."""
    wanted = " ".join(f"{name}=…" for name in call.skill.inputs)
    said = (
        f"{name} ({about})" if (about := call.skill.inputs[name]) else name for name in call.missing
    )
    return f"/{call.skill.name} needs {', '.join(said)}: /{call.skill.name} {wanted}"
