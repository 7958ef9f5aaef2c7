"""List a folder in one line: folders, then build and configuration files, then other files.

Files with similar names share one entry.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_LEAST_FAMILY = 4
_CONFIGURES = re.compile(
    r".*\.(?:toml|cfg|ini|lock|gradle|mk|cmake|sln|csproj|cabal|gemspec|nix)|.*config\.\w+"
    r"|(?:GNU)?[Mm]akefile|Dockerfile|CMakeLists\.txt|Gemfile|Rakefile|justfile|BUILD|WORKSPACE"
    r"|setup\.py|noxfile\.py|conftest\.py|manage\.py|go\.mod|pom\.xml|(?:package|tsconfig|composer"
    r"|deno)\.json|requirements.*\.txt|AGENTS\.md|CLAUDE\.md|CONTRIBUTING\..*|meson\.build"
    r"|configure(?:\.ac)?|\.pre-commit-config\.yaml"
)
_TESTS = re.compile(r"().+([._-](?:test|spec)\.\w+)")
_FAMILY = re.compile(r"([^._-][^._-]*[._-]).+(\.[A-Za-z]\w*)")


def listing_entries(folders: Iterable[str], files: Sequence[str]) -> list[str]:
    """Return the names to show, with a slash after folders. Similar files share an entry, such as
    `README.*.md (18)`; dotfiles that configure nothing are only counted."""
    ordered = sorted(folders, key=lambda name: (name.startswith("."), name))
    shown = grouped_by_pattern(sorted(files))
    configures = [name for name in shown if _CONFIGURES.fullmatch(name)]
    rest = [name for name in shown if not _CONFIGURES.fullmatch(name) and name[0] != "."]
    hidden = sum(name[0] == "." and not _CONFIGURES.fullmatch(name) for name in files)
    dots = [f".* ({hidden})"] if hidden else []
    return [*(f"{name}/" for name in ordered), *configures, *rest, *dots]


def grouped_by_pattern(names: Sequence[str]) -> list[str]:
    """Return `names`, merging names that begin and end alike into one entry, at the first one's
    place."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        match = _TESTS.fullmatch(name) or _FAMILY.fullmatch(name)
        if match and not _CONFIGURES.fullmatch(name):
            families[match[1], match[2]].append(name)
    entry = {
        name: f"{begin}*{end} ({len(members)})"
        for (begin, end), members in families.items()
        if len(members) >= _LEAST_FAMILY
        for name in members
    }
    return list(dict.fromkeys(entry.get(name, name) for name in names))
