"""Skills and microagents: what their files say, when they come up, and what can not go wrong."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.knowledge.definitions import parse
from agentcli.knowledge.skills import load_skills
from agentcli.workspace.text import UnreadableText

KNOWLEDGE = """---
name: releasing
type: knowledge
version: 1.0.0
triggers:
  - release
  - change log
---
Tag with `make tag`.
"""
TASK = """---
name: fix-issue
type: task
description: Fix an issue.
inputs:
  - name: number
    description: of the issue
  - name: branch
---
Fix issue ${number} on ${branch}. ${unknown} stays.
"""
SKILL = "---\nname: tables\ndescription: Read and write spreadsheets.\n---\nUse openpyxl.\n"


@pytest.fixture
def project(tmp_path):
    """`project(path=text)` writes files and loads the skills of the repository."""

    class Project:
        root = tmp_path / "work"

        def __call__(self, files=(), **options):
            for name, text in dict(files).items():
                path = self.root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            folder = self.root / ".agents/skills"
            return load_skills([tmp_path / "user"], [(folder, self.root)], **options)

    Project.root.mkdir()
    return Project()


def of(project, text, name=".agents/skills/a.md"):
    (skill,) = project({name: text}).found
    return skill


def test_a_microagent_with_triggers(project):
    skill = of(project, KNOWLEDGE)
    assert (skill.name, skill.kind, skill.version) == ("releasing", "knowledge", "1.0.0")
    assert skill.body == "Tag with `make tag`."
    assert skill.shown == ".agents/skills/a.md"


@pytest.mark.parametrize(
    ("message", "brought_up"),
    [
        ("make a release", True),
        ("RELEASE!", True),
        ("(release)", True),
        ("update the change\n  log", True),
        ("it was released", False),
        ("prerelease", False),
        ("changelog", False),
        ("", False),
    ],
)
def test_a_trigger_is_a_whole_word_in_any_case(project, message, brought_up):
    assert of(project, KNOWLEDGE).is_triggered(message) is brought_up


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("发布", "请发布新版本"),
        ("c++", "in c++, please"),
        (".env", "see .env now"),
        ("Straße", "STRAßE"),
    ],
)
def test_triggers_of_any_script_and_sign(project, trigger, message):
    skill = of(project, f"---\ntriggers: ['{trigger}']\n---\ntext")
    assert skill.is_triggered(message)


def test_a_skill_with_a_description_is_listed_only(project):
    skill = of(project, SKILL, ".agents/skills/tables/SKILL.md")
    assert (skill.kind, skill.description) == ("listed", "Read and write spreadsheets.")


def test_a_folder_with_a_skill_is_that_skill_and_nothing_more(project):
    found = project(
        {
            ".agents/skills/tables/SKILL.md": SKILL,
            ".agents/skills/tables/notes.md": "more",
            ".agents/skills/tables/deeper/SKILL.md": SKILL,
            ".agents/skills/README.md": "about",
            ".agents/skills/repo.md": "We use tabs.",
        }
    ).found
    assert [(skill.name, skill.kind) for skill in found] == [("repo", "repo"), ("tables", "listed")]


def test_a_task_takes_its_inputs_by_place_and_by_name(project):
    skills = project({".agents/skills/fix.md": TASK})
    by_place = skills.called("/fix-issue 12 main")
    assert by_place.text == "Fix issue 12 on main. ${unknown} stays."
    by_name = skills.called("/Fix-Issue branch='my branch' number=${branch}")
    assert by_name.text == "Fix issue ${branch} on my branch. ${unknown} stays."
    assert by_name.missing == ()


def test_a_task_names_what_it_was_not_given(project):
    skills = project({".agents/skills/fix.md": TASK})
    assert skills.called("/fix-issue 12").missing == ("branch",)
    assert skills.called("/fix-issue").missing == ("number", "branch")


@pytest.mark.parametrize("message", ["/etc/hosts is wrong", "fix /fix-issue", "/other 1", "/", ""])
def test_what_only_looks_like_a_task_is_a_message(project, message):
    assert project({".agents/skills/fix.md": TASK}).called(message) is None


def test_one_input_is_what_was_said_word_for_word(project):
    skills = project({".agents/skills/say.md": "---\nname: say\ninputs: [text]\n---\n<${text}>"})
    assert skills.called('/say it\'s  "so"').text == '<it\'s  "so">'


def test_disabled_skills_are_not_there(project):
    assert project({".agents/skills/a.md": KNOWLEDGE}, disabled=["Releasing"]).found == []


def test_a_project_can_not_take_the_place_of_a_skill_of_the_user(project, tmp_path):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "mine.md").write_text(KNOWLEDGE.replace("make tag", "my way"))
    (skill,) = project({".agents/skills/a.md": KNOWLEDGE}).found
    assert "my way" in skill.body


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: [a\n---\n", "damaged header on line 3"),
        ("---\ndescription: use this: when\n---\n", "damaged header on line 2"),
        ("---\nname: x\nno end", "no second line"),
        ("---\n- a\n- b\n---\n", "lines like name: value"),
        ("---\ntype: robot\n---\ntext", "type 'robot'"),
        ("---\n" + "[" * 3000 + "\n---\n", "damaged header"),
        ("---\nx: " + "y" * 10_000 + "\n---\n", "header of more than 8 kB"),
        ("\0binary", "is not text"),
    ],
)
def test_a_damaged_file_is_a_notice_and_the_others_count(project, text, why):
    skills = project({".agents/skills/bad.md": text, ".agents/skills/good.md": KNOWLEDGE})
    assert [skill.name for skill in skills.found] == ["releasing"]
    (notice,) = skills.notices
    assert notice.startswith(".agents/skills/bad.md ")
    assert why in notice
    assert notice.isprintable()


def test_references_in_a_header_can_not_grow(project):
    """Merged into each other forty times, they would be a million million values."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    skill = of(project, "---\nname: bomb\ntriggers: [x]\n" + "\n".join(lines) + "\n---\ntext")
    assert skill.name == "bomb"


def test_no_link_out_of_the_repository_and_no_fifo_is_read(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("the secret")
    folder = project.root / ".agents/skills"
    folder.mkdir(parents=True)
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "folder").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "itself.md").symlink_to(folder / "itself.md")
    os.mkfifo(folder / "pipe.md")
    skills = project()
    assert skills.found == []
    assert any("link.md is a link that leads outside" in notice for notice in skills.notices)
    assert any("pipe.md is not a regular file" in notice for notice in skills.notices)


def test_a_whole_folder_that_is_a_link_elsewhere_is_not_searched(project, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text(KNOWLEDGE)
    (project.root / ".agents").mkdir()
    (project.root / ".agents" / "skills").symlink_to(tmp_path / "outside")
    skills = project()
    assert (skills.found, skills.notices) == ([], [])


def test_thousands_of_files_and_long_ones_stay_bounded(project):
    files = {f".agents/skills/{n:04}.md": f"---\ntriggers: [t{n}]\n---\n" for n in range(150)}
    skills = project({**files, ".agents/skills/0000.md": "x\n" * 100_000})
    assert len(skills.found) == 100
    assert len(skills.found[0].body) < 17_000
    assert "the rest of 200,000 bytes is in .agents/skills/0000.md" in skills.found[0].body
    assert any("more than 100 skills" in notice for notice in skills.notices)


@pytest.mark.parametrize(("others", "is_found"), [(997, True), (998, False)])
def test_a_thousand_entries_are_looked_at(project, others, is_found):
    """Folder by folder; the two folders count as well."""
    empty = {f".agents/skills/a/{n}.md": "" for n in range(others)}
    assert bool(project({**empty, ".agents/skills/b/z.md": SKILL}).found) is is_found


@pytest.mark.parametrize(("depth", "is_found"), [(3, True), (4, False)])
def test_skills_are_looked_for_three_folders_down(project, depth, is_found):
    assert bool(project({f".agents/skills/{'a/' * depth}z.md": SKILL}).found) is is_found


@pytest.mark.parametrize(("others", "is_found"), [(999, True), (1_000, False)])
def test_more_files_than_are_looked_through_count_as_scripts(project, others, is_found):
    files = {f".agents/skills/a/{n}.md": "" for n in range(others)}
    files[".agents/skills/a/SKILL.md"] = SKILL
    assert bool(project(files, trusted=lambda folder: False).found) is is_found


@settings(max_examples=300)
@given(header=st.text(max_size=200), body=st.text(max_size=100))
def test_any_header_is_read_or_refused_in_words(header, body):
    try:
        parsed = parse(f"---\n{header}\n---\n{body}")
    except UnreadableText:
        return
    assert all(isinstance(item, str) for item in parsed.texts("triggers"))
    assert "\n" not in parsed.text("name")


@settings(max_examples=200)
@given(
    name=st.from_regex(r"\w[\w.-]{0,20}", fullmatch=True),
    triggers=st.lists(st.text(st.characters(categories=["L", "N", "S"]), min_size=1), max_size=5),
    body=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
def test_what_yaml_writes_is_read_back(name, triggers, body):
    import yaml

    header = yaml.safe_dump({"name": name, "triggers": triggers}, allow_unicode=True)
    parsed = parse(f"---\n{header}---\n{body}")
    assert parsed.text("name") == name
    assert list(parsed.texts("triggers")) == [" ".join(t.split()) for t in triggers if t.split()]
    assert parsed.body == body


@settings(max_examples=300)
@given(message=st.text())
def test_any_message_can_be_looked_through(message, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "skills"
    folder.mkdir(exist_ok=True)
    (folder / "task.md").write_text(TASK)
    skills = load_skills([folder], [])
    skills.triggered(message)
    call = skills.called(f"/fix-issue {message}")
    assert call is None or set(call.missing) <= {"number", "branch"}
