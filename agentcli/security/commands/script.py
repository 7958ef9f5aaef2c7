"""What a shell script consists of, as far as that is known before it runs: plain values."""

from __future__ import annotations

from dataclasses import dataclass

Words = tuple[str | None, ...]
"""Unquoted words of a command, its name first; None where a word is known only when it runs."""


@dataclass(frozen=True)
class Redirect:
    """`target` None: not known before it runs, `raw` is how it is written then; for here-documents
    and here-strings "" (they name no file), and `text` is what they hold. `fd`: the number before
    the operator, "" when there is none."""

    operator: str
    target: str | None
    fd: str = ""
    text: str = ""
    raw: str = ""


@dataclass(frozen=True)
class SimpleCommand:
    """One command that may run. `words` has its wrappers taken off, `wrappers` names these,
    outermost first, and `levels` has the words of each of them as they were, the command's own
    last. `redirects` are its own and those of the statements around it. `assignments` names the
    variables that are set for it, or anywhere in its script. `cwd`: the folder that a literal `cd`
    before it went to, None when there is none or it isn't known. `globs`: every word that isn't
    known is one of file names, such as *.py. `unknown`: those words as they are written, and those
    with the {} of find and xargs."""

    words: Words
    written: str
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    piped_from: SimpleCommand | None = None
    cwd: str | None = None
    levels: tuple[Words, ...] = ()
    unknown: tuple[str, ...] = ()
    globs: bool = False

    @property
    def literal(self) -> bool:
        """Every word of every level is known."""
        return all(word is not None for level in self.levels for word in level)


@dataclass(frozen=True)
class Script:
    """Every command of a script, in the order of its text. `unclear` says why it can't be judged
    whole; "" when every part of it is known. `verified`: two readers that share no code found the
    same words and commands in it; only then may a judgement let it run."""

    commands: tuple[SimpleCommand, ...]
    unclear: str = ""
    verified: bool = False
    doubts: tuple[str, ...] = ()
    """Every reason why it is unclear; `unclear` is the first."""
    read: bool = True
    """False: too long or too deeply nested for anything in it to be known."""


_LONGEST_QUOTE = 120


def quoted(reason: str, written: str) -> str:
    """A reason with the part of a command that it is about, unless that stands there already."""
    line = " ".join(written.split())
    if not line or line in reason:
        return reason
    short = line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} …"
    return f"{reason} (`{short}`)"
