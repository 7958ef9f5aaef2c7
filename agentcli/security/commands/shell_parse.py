"""Walks tree-sitter's tree of a script and collects every command that may run."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentcli.security.commands.grammar import TimeLimit, Unreadable, agree, leaf_spans, read
from agentcli.security.commands.script import (
    MOVING,
    UNKNOWN_PLACE,
    Place,
    Redirect,
    Script,
    SimpleCommand,
    Words,
    either,
    moved,
)
from agentcli.security.commands.shell_words import Word, decode, strange_characters, tokens
from agentcli.security.commands.wrappers import command_name, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 8
_PARSING_S = 1.0
_MOST_PARTS = 500
"""Most commands and assigned variables in a script; each is judged in the light of the others."""
_PASSED_THROUGH = frozenset(
    """program list negated_command do_group if_statement elif_clause else_clause while_statement
    for_statement case_statement case_item c_style_for_statement string string_content
    concatenation expansion arithmetic_expansion simple_expansion binary_expression
    unary_expression ternary_expression postfix_expression parenthesized_expression array
    translated_string brace_expression variable_assignments heredoc_body heredoc_content
    heredoc_start heredoc_end herestring_redirect compound_statement extglob_pattern regex
    test_operator word raw_string ansi_c_string number variable_name special_variable_name
    file_descriptor comment""".split()  # noqa: SIM905
)
_BRANCHING = frozenset(
    """if_statement while_statement for_statement case_statement
    c_style_for_statement""".split()  # noqa: SIM905
)
_LISTS = frozenset(("list", "pipeline", "negated_command"))
_RESERVED = frozenset(
    "if then else elif fi for in do done while until case esac select function { } !".split()  # noqa: SIM905
)
_SYNTAX = "its syntax is not understood"
_TWO_WAYS = "it can be read in two ways"
FUNCTION = "it defines a function, which changes what later words mean"
ARITHMETIC = "arithmetic can run commands that are hidden in variables"


@functools.lru_cache(maxsize=256)
def parse_script(text: str) -> Script:
    """Return every command that may run when bash runs `text`. Never raises: if the script can't be
    judged whole, `unclear` says why, and the commands found so far are returned."""
    try:
        return _parse(text, _Around(), _Limits())
    except (Unreadable, RecursionError) as error:
        reason = str(error) if isinstance(error, Unreadable) else "it is nested too deeply"
        return Script((), reason, doubts=(reason,), read=False)


@dataclass(frozen=True)
class _Around:
    """What the statements around a command contribute to it."""

    redirects: tuple[Redirect, ...] = ()
    of_last: tuple[Redirect, ...] = ()
    """Redirects that the grammar puts around a list, and which belong to its last command."""
    assigned: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    levels: tuple[Words, ...] = ()
    piped_from: SimpleCommand | None = None


@dataclass
class _Limits:
    """Limits shared by a script and the scripts within it."""

    time_limit: TimeLimit = field(default_factory=lambda: TimeLimit(_PARSING_S))
    parts: int = 0

    def count(self, parts: int = 1) -> None:
        """Count parts. Raises Unreadable beyond the limit."""
        self.parts += parts
        if self.parts > _MOST_PARTS:
            raise Unreadable("it has too many parts")


def _parse(
    text: str, around: _Around, limits: _Limits, depth: int = 0, place: Place = (None, ())
) -> Script:
    """Parse a script. Raises Unreadable, RecursionError."""
    if depth > _MAX_DEPTH:
        raise Unreadable("its parts are nested too deeply")
    source = text.encode("utf-8", "surrogatepass")
    root = read(text, source, limits.time_limit)
    reader = _Reader(source, limits, depth, place)
    reader.visit(root, around)
    found = tokens(text)
    verified = found is not None and agree(text, source, root, found)
    if strange := strange_characters(text) or _strange_line_ends(text):
        reader.doubts.insert(0, strange)
    if root.has_error:
        reader.doubt(_SYNTAX)
    if found is not None and not verified:
        reader.doubt(_TWO_WAYS)
    commands = reader.commands
    if reader.named:
        limits.count(len(reader.named))
        named = tuple(reader.named)
        commands = [replace(c, assignments=(*named, *c.assignments)) for c in commands]
    doubts = tuple(reader.doubts)
    unclear = doubts[0] if doubts else ""
    return Script(
        tuple(commands), unclear, verified and reader.verified, doubts, tuple(reader.assigned)
    )


def _strange_line_ends(text: str) -> str:
    """Return a doubt about line continuations. A backslash at the end of a line joins it with the
    next one, and only between words does the grammar treat this as bash does."""
    if re.search(r"(?<![ \t])\\\n|\\\n[ \t]*(?:\n|$)", text) or ("\\\n" in text and "<<" in text):
        return "a backslash at the end of a line joins words"
    return ""


@dataclass
class _Reader:
    source: bytes
    limits: _Limits
    depth: int
    place: Place = (None, ())
    commands: list[SimpleCommand] = field(default_factory=list)
    named: dict[str, None] = field(default_factory=dict)
    assigned: list[tuple[str, str]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    verified: bool = True
    heredoc_lines: set[int] = field(default_factory=set)

    def doubt(self, reason: str) -> None:
        if reason not in self.doubts:
            self.doubts.append(reason)

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def visit(self, node: Node, around: _Around) -> None:
        """Collect what may run in `node`."""
        if around.of_last and node.type not in _LISTS:
            around = replace(around, redirects=(*around.of_last, *around.redirects), of_last=())
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            handler(self, node, around)
            return
        if node.is_named and node.type not in _PASSED_THROUGH:
            self.doubt(_SYNTAX)
        self._check_expression(node)
        before = self.place
        last = node.named_children[-1:]
        for child in node.children:
            self.visit(child, around if [child] == last else replace(around, of_last=()))
        if node.type in _BRANCHING and self.place != before:
            self.place = either(before, self.place)

    def _check_expression(self, node: Node) -> None:
        """Check for expansions that evaluate a variable's value or set a variable."""
        first = node.children[0].type if node.children else ""
        if node.type in ("arithmetic_expansion", "c_style_for_statement") or first == "((":
            if re.search(r"[A-Za-z_$`\[]", self.text(node).strip("$(").partition("))")[0]):
                self.doubt(ARITHMETIC)
        elif node.type == "expansion":
            operators = {child.type for child in node.children if not child.is_named}
            if operators & {"@", "!", ":"}:
                self.doubt("it evaluates the value of a variable")
            if operators & {"=", ":="}:
                self.named[self.text(node)[2:].partition(":")[0].partition("=")[0]] = None
        elif node.type == "for_statement":
            variable = node.child_by_field_name("variable")
            if variable is not None:
                self.named[self.text(variable)] = None

    def command(self, node: Node, around: _Around) -> None:
        """Handle `command` and similar nodes: words, variables set for it, its own redirects."""
        words: list[Word] = []
        assigned: list[str] = []
        redirects: list[Redirect] = []
        for child in node.children:
            if child.type == "variable_assignment" and not words:
                assigned.append(self._assigned_name(child))
                self.visit_value(child)
            elif child.type.endswith("_redirect"):
                redirects += self.redirects(child, around)
            else:
                words.append(self._word(child))
        for name, is_set, value in (word.raw.partition("=") for word in words):
            if is_set and name.isidentifier():
                self.assigned.append((name, value))
        around = replace(around, redirects=(*redirects, *around.redirects))
        self.emit(words, assigned, self.text(node), around)

    def declaration(self, node: Node, around: _Around) -> None:
        """Handle export, declare, local and the like, and unset."""
        for child in node.named_children:
            if child.type == "variable_assignment":
                self.named[self._assigned_name(child)] = None
            elif child.type == "variable_name":
                self.named[self.text(child)] = None
            elif not self.text(child).startswith("-"):
                self.doubt("names of variables are known only when it runs")
        words = [self._word(child) for child in node.children]
        self.emit(words, [], self.text(node), around)

    def test(self, node: Node, around: _Around) -> None:
        """Handle [ … ] and [[ … ]]; the latter evaluates numbers and names as arithmetic."""
        first = self.text(node.children[0])
        if first == "((":
            self.doubt(ARITHMETIC)
        spans = list(leaf_spans(node))
        words = [decode(self.source[a:b].decode("utf-8", "replace")) for a, b in spans]
        texts = {word.text for word in words}
        if first == "[[" and texts & {"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"}:
            self.doubt(ARITHMETIC)
        for child in node.named_children:
            self.visit(child, _Around())
        self.emit(words, [], self.text(node), around)

    def assignment(self, node: Node, around: _Around) -> None:
        """Handle an assignment. One that stands alone applies to everything after it, including
        later scripts."""
        name = self._assigned_name(node)
        self.named[name] = None
        self.visit_value(node)
        around_it = node.parent.type if node.parent is not None else ""
        is_alone = around_it not in ("command", "c_style_for_statement")
        if node.type == "variable_assignment" and is_alone:
            self.emit([], [name], self.text(node), around)

    def visit_value(self, node: Node) -> None:
        for child in node.named_children:
            self.visit(child, _Around())

    def _assigned_name(self, node: Node) -> str:
        """Note the values that an assignment gives to a variable, and return its name."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        called = self.text(name) if name is not None else self.text(node).partition("=")[0]
        values = value.named_children if value and value.type == "array" else [value]
        self.assigned += [(called, self.text(each) if each else "") for each in values or [None]]
        return called

    def _word(self, node: Node) -> Word:
        """Return the word of an argument, after visiting the substitutions in it."""
        before = len(self.commands)
        self.visit(node, _Around()) if node.type != "command_name" else self.visit_value(node)
        word = decode(self.text(node))
        if word.text is not None and len(self.commands) != before:
            self.doubt(_TWO_WAYS)
        return word

    def redirected(self, node: Node, around: _Around) -> None:
        """Handle a statement with redirects around it, or redirects alone."""
        body = node.child_by_field_name("body")
        redirects: list[Redirect] = []
        for child in node.children:
            if child != body:
                redirects += self.redirects(child, around)
        if body is not None and body.type in _LISTS:
            inner = replace(around, of_last=tuple(redirects))
        else:
            inner = replace(around, redirects=(*redirects, *around.redirects))
        count = len(self.commands)
        if body is not None:
            self.visit(body, inner)
        else:
            self.emit([], [], self.text(node), inner)
        last = self.commands[-1] if len(self.commands) > count else None
        for child in node.children:
            if child.type == "heredoc_redirect":
                self._after_heredoc(child, replace(around, piped_from=last))

    def _after_heredoc(self, node: Node, around: _Around) -> None:
        """Visit what follows `<<END` on its line, which the grammar keeps inside the redirect."""
        operator = node.child_by_field_name("operator")
        if operator is not None:
            around = replace(around, piped_from=None)
        for child in node.named_children:
            if child.type not in (
                *("heredoc_start", "heredoc_body", "heredoc_end", "file_redirect"),
                *("herestring_redirect", "file_descriptor", "heredoc_content"),
            ):
                self.visit(child, around)

    def redirects(self, node: Node, around: _Around) -> list[Redirect]:
        """Return the redirects that `node` stands for, after visiting what runs in it."""
        if node.type == "file_redirect":
            return [self._file_redirect(node)]
        if node.type == "herestring_redirect":
            words = [self._word(child) for child in node.named_children]
            return [Redirect("<<<", "", text="".join(word.text or "" for word in words))]
        if node.type != "heredoc_redirect":
            self.visit(node, around)
            return []
        bodies = (self.text(c) for c in node.named_children if c.type == "heredoc_body")
        found = [Redirect("<<", "", text="".join(bodies))]
        for child in node.named_children:
            if child.type == "file_redirect":
                found.append(self._file_redirect(child))
            elif child.type in ("heredoc_body", "herestring_redirect"):
                self.visit(child, _Around())
        self._check_heredoc(node)
        line = node.start_point[0]
        if line in self.heredoc_lines:
            self.doubt("several here-documents begin on one line")
        self.heredoc_lines.add(line)
        return found

    def _check_heredoc(self, node: Node) -> None:
        """Check a here-document, because the grammar does not parse every body that bash
        expands."""
        parts = {child.type: child for child in node.named_children}
        start, body = parts.get("heredoc_start"), parts.get("heredoc_body")
        if start is None or body is None or parts.get("heredoc_end") is None:
            self.doubt(_SYNTAX)
            return
        quoted = re.search(r"['\"\\]", self.text(start))
        indented = any(child.type == "<<-" for child in node.children)
        expands = re.search(r"[$`]", self.text(body))
        if expands and not quoted and (indented or not body.named_child_count):
            self.doubt("what its here-document runs is not understood")

    def _file_redirect(self, node: Node) -> Redirect:
        descriptor = operator = ""
        target: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.text(child)
            elif not child.is_named and not operator:
                operator = self.text(child)
            else:
                target.append(self._word(child))
        if len(target) > 1:
            self.doubt(_TWO_WAYS)
        closes = operator.endswith("-") and not target
        to = Word("-", "-") if closes else target[0] if target else Word("", None)
        return Redirect(operator, to.text, descriptor, raw=to.raw)

    def pipeline(self, node: Node, around: _Around) -> None:
        """Handle a pipeline, where each stage runs in a shell of its own."""
        piped_from = around.piped_from
        for child in node.named_children:
            count, before = len(self.commands), self.place
            of_last = around.of_last if child == node.named_children[-1] else ()
            self.visit(child, replace(around, piped_from=piped_from, of_last=of_last))
            self.place = before
            if len(self.commands) > count:
                piped_from = self.commands[-1]

    def scoped(self, node: Node, around: _Around) -> None:
        """Handle subshells and substitutions, where a change of folder has no effect outside."""
        text = self.text(node)
        if text.startswith("`") and re.search(r"[`\\\"]", text[1:-1]):
            self.doubt("quotes within backticks can be read in two ways")
        before = self.place
        inner = around if node.type == "subshell" else _Around()
        for child in node.children:
            if child.type == "file_redirect":
                found = self._file_redirect(child)
                self.emit([], [], self.text(node), replace(inner, redirects=(found,)))
            else:
                self.visit(child, inner)
        self.place = before

    def function(self, node: Node, around: _Around) -> None:
        self.doubt(FUNCTION)
        before = self.place
        for child in node.named_children[1:]:
            if child.type.endswith("_redirect"):
                around = replace(around, redirects=tuple(self.redirects(child, around)))
            else:
                self.visit(child, around)
        self.place = before

    def subscript(self, node: Node, around: _Around) -> None:
        index = node.child_by_field_name("index")
        if index is None or not re.fullmatch(r"\d+|@|\*", self.text(index)):
            self.doubt(ARITHMETIC)
        self.visit_value(node)

    def emit(self, words: list[Word], assigned: list[str], written: str, around: _Around) -> None:
        """Record the command of these words without its wrappers, and what those run."""
        around = replace(around, assigned=(*around.assigned, *assigned))
        texts = tuple(word.text for word in words)
        unknown = [word for word in words if word.text is None]
        raw = (word.raw for word in words if word.text is None or "{}" in word.raw)
        if texts and texts[0] is None:
            self.doubt("which command it runs is known only when it runs")
        whole = SimpleCommand(
            words=texts,
            written=written,
            unknown=tuple(dict.fromkeys(raw)),
            globs=all(word.unknown == "glob" for word in unknown),
        )
        self._unwrap(whole, around)

    def _unwrap(self, whole: SimpleCommand, around: _Around) -> None:
        words = whole.words
        levels = (*around.levels, words)
        if len(around.wrappers) > _MAX_DEPTH:
            raise Unreadable("its parts are nested too deeply")
        inside = unwrap(words) if words else None
        if words and words[0] in _RESERVED:
            self.doubt(_SYNTAX)
        if inside is None or inside.stays or not (inside.commands or inside.scripts):
            self.limits.count()
            self.commands.append(
                replace(
                    whole,
                    redirects=around.redirects,
                    assignments=around.assigned,
                    wrappers=around.wrappers,
                    piped_from=around.piped_from,
                    cwd=self.place[0],
                    moves=self.place[1],
                    levels=levels,
                )
            )
        self._note_builtins(words, whole.unknown)
        if inside is None:
            return
        if inside.unclear:
            self.doubt(inside.unclear)
        name = command_name(words[0]) or ""
        inner = replace(
            around,
            wrappers=(*around.wrappers, name),
            levels=levels,
            assigned=(*around.assigned, *inside.assigned),
        )
        for command in inside.commands:
            self._unwrap(replace(whole, words=command), inner)
        for script in inside.scripts:
            self._nested(script, inner, runs_here=name in ("eval", "trap"))

    def _nested(self, text: str, around: _Around, *, runs_here: bool) -> None:
        script = _parse(text, around, self.limits, self.depth + 1, self.place)
        for doubt in script.doubts:
            self.doubt(doubt)
        self.verified = self.verified and script.verified
        self.commands += script.commands
        self.assigned += script.assigned
        if runs_here:
            if any(command.words[:1] in MOVING for command in script.commands):
                self.place = UNKNOWN_PLACE
            for command in script.commands:
                self.named.update(dict.fromkeys(command.assignments))

    def _note_builtins(self, words: Words, unknown: tuple[str, ...]) -> None:
        """Track builtins that change the folder or variables for what follows. `unknown` are the
        unknown words as written."""
        name = words[0] if words else None
        if words[:1] in MOVING:
            self.place = moved(self.place, words, unknown)
        elif name in ("read", "mapfile", "readarray", "getopts", "unset"):
            self.named.update((w, None) for w in words[1:] if w and not w.startswith("-"))
        elif name in ("export", "declare", "typeset", "local", "readonly"):
            self.named.update((w.partition("=")[0], None) for w in words[1:] if w)
        elif name == "printf" and words[1:2] == ("-v",) and words[2:3] not in ((), (None,)):
            self.named[str(words[2])] = None


_HANDLERS = {
    "command": _Reader.command,
    "declaration_command": _Reader.declaration,
    "unset_command": _Reader.declaration,
    "test_command": _Reader.test,
    "variable_assignment": _Reader.assignment,
    "redirected_statement": _Reader.redirected,
    "pipeline": _Reader.pipeline,
    "subshell": _Reader.scoped,
    "command_substitution": _Reader.scoped,
    "process_substitution": _Reader.scoped,
    "function_definition": _Reader.function,
    "subscript": _Reader.subscript,
    "file_redirect": _Reader.redirects,
    "heredoc_redirect": _Reader.redirects,
}
