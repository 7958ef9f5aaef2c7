"""The task that `agent init` gives the model."""

from __future__ import annotations

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
