"""The programs that the agent itself runs, and the environment in which it runs them.

A virtual environment of the workspace is often on the user's PATH, and commands in the sandbox
can write there. A file they leave under the name of a program that the agent runs would run with
all rights at the next start. So the agent takes no program, library or module from a place that
commands can write to. `harden_process` removes such places from this process's environment and
module path, which covers whatever runs or imports something by name, including libraries; our own
code finds programs with `find_program`. Contained commands get the user's environment:
`user_environ`.

What the interpreter itself loaded before our first line (PYTHONHOME, `.pth` files, LD_PRELOAD)
can't be undone.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LISTS = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "LOCPATH", "NLSPATH"),
        *("DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_FRAMEWORK_PATH", "PYTHONPATH"),
        *("PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "NODE_PATH", "PERL5LIB", "PERLLIB"),
        *("RUBYLIB", "GEM_PATH", "GEM_HOME", "CLASSPATH", "BASH_ENV", "ENV", "ZDOTDIR", "FPATH"),
        *("GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "TERMINFO", "TERMINFO_DIRS", "OPENSSL_CONF"),
        *("OPENSSL_MODULES", "OPENSSL_ENGINES", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"),
    )
)
"""Variables that hold one or more places, separated by colons. A relative place means a different
folder depending on where a program is started."""
LOADED_AT_START = frozenset(
    (
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "DYLD_LIBRARY_PATH"),
        *("DYLD_INSERT_LIBRARIES", "DYLD_FRAMEWORK_PATH", "PYTHONPATH", "PYTHONHOME"),
        "PYTHONUSERBASE",
    )
)
"""Variables by which the interpreter loads code before our first line runs."""
_HARMLESS = re.compile(
    r"HOME|PWD|OLDPWD|TMPDIR|TEMP|TMP|USER|LOGNAME|XDG_(?:CACHE|STATE)_HOME|XDG_RUNTIME_DIR|AGENT_\w+"
    r"|DISPLAY|XAUTHORITY|SSH_AUTH_SOCK|DBUS_\w+|SSL_CERT_(?:FILE|DIR)|\w*CA_BUNDLE|\w+_CA_CERTS"
)
"""These may name places that commands can write to, because no program is looked for there."""
_WORDS = re.compile(r"[\s:;,='\"|&<>()@]+")
_RELATIVE = re.compile(r"(?<![./])\.{1,2}/|(?:^|[\s:;,=])\.{1,2}(?:[\s:;,]|$)")
_NOT_FILES = ("/proc", "/dev")
_MOST_LINKS = 40
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@dataclass(frozen=True)
class UntrustedPlaces:
    """Folders that others can write to. `identities` are their devices and inodes, which identify
    them under any name."""

    folders: frozenset[str] = frozenset()
    identities: frozenset[tuple[int, int]] = frozenset()

    def with_folders(self, folders: Iterable[str]) -> UntrustedPlaces:
        names = {os.path.realpath(folder) for folder in folders if folder not in self.folders}
        # Distrusting / or what holds /usr/bin would leave no place for programs.
        names = {name for name in names if not "/usr/bin/".startswith(name.rstrip("/") + "/")}
        found = {(info.st_dev, info.st_ino) for info in map(_look, names) if info is not None}
        return UntrustedPlaces(self.folders | names, self.identities | found)

    def hold(self, path: str, *, as_program: bool = False) -> bool:
        """Return whether `path` is one of these places or leads through one. `as_program`: places
        that everybody can write to count too."""
        last = None
        for place, info in _way(path):
            if place in self.folders or place in _NOT_FILES:
                return True
            last = info
            if info is None:
                continue
            if (info.st_dev, info.st_ino) in self.identities:
                return True
            if as_program and _open_to_all(info) and not info.st_mode & stat.S_ISVTX:
                return True
        return as_program and last is not None and _open_to_all(last)


@dataclass(frozen=True)
class SanitizedEnvironment:
    """An environment, and what was left out: for each variable, some parts or the whole value."""

    environ: dict[str, str]
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def sanitize_environment(
    environ: Mapping[str, str], places: UntrustedPlaces
) -> SanitizedEnvironment:
    """Return `environ` without what leads programs to `places` or to relative places."""
    kept: dict[str, str] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for name, value in environ.items():
        if _HARMLESS.fullmatch(name):
            kept[name] = value
        elif name in _LISTS:
            # The loader accepts spaces between libraries too.
            spaced = value.replace(" ", ":") if name.startswith("LD_") else value
            parts = spaced.split(os.pathsep)
            bad = [part for part in parts if not part.startswith("/") or places.hold(part)]
            if len(bad) < len(parts):
                kept[name] = os.pathsep.join(part for part in parts if part not in bad)
            if bad:
                left_out[name] = tuple(dict.fromkeys(bad))
        elif _leads_to(value, places):
            left_out[name] = (value,)
        else:
            kept[name] = value
    return SanitizedEnvironment(
        {"PATH": os.defpath, **kept} if "PATH" in environ else kept, left_out
    )


@dataclass
class _Process:
    """The user's environment and the distrusted places. `hardened`: this is the agent's own
    process; in others, such as a test's, nothing is changed."""

    hardened: bool = False
    cleaned: bool = False
    user_environ: dict[str, str] = field(default_factory=dict)
    places: UntrustedPlaces = field(default_factory=UntrustedPlaces)
    found: dict[tuple[str, str], str] = field(default_factory=dict)


_process = _Process()


def harden_process() -> None:
    """Call this once when the agent's process starts. From then on it takes no program or module
    from the repository (or else the folder) that it was started in."""
    _process.hardened = True
    _process.user_environ = dict(os.environ)
    try:
        distrust((os.getcwd(),))
    except OSError:
        distrust(())


def distrust(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Distrust these folders and the repositories around them: commands can write there."""
    if not _process.hardened:
        return
    named = [os.path.expanduser(folder) for folder in folders]
    home = os.path.realpath(_process.user_environ.get("HOME") or "/")
    new = (os.path.realpath(name) for name in named if name not in _process.places.folders)
    tops = (top for folder in new if (top := _repository(folder, home)))
    places = _process.places.with_folders([*named, *tops])
    if places != _process.places or not _process.cleaned:
        _process.places = places
        _process.cleaned = True
        _clean_environment()
        _clean_module_path()


def is_own_process() -> bool:
    """Return whether this is the agent's own process, not that of a program that uses it."""
    return _process.hardened


def distrusted() -> UntrustedPlaces:
    """Return all places distrusted so far."""
    return _process.places


def user_environ() -> Mapping[str, str]:
    """Return the environment in which the user started the agent."""
    return _process.user_environ if _process.hardened else os.environ


def find_program(name: str) -> str | None:
    """Find the program `name` (or absolute path) for our own process, in a folder where commands
    can't replace it; return its path with the folder's symlinks resolved. The result is cached for
    as long as PATH stays the same."""
    path = os.environ.get("PATH", os.defpath)
    if (name, path) not in _process.found:
        found = _search(name, path)
        if found is None:
            return None
        _process.found[name, path] = found
    return _process.found[name, path]


def find_on(name: str, path: str | None) -> str | None:
    """Return where a command with this PATH finds the program `name`: for use inside a sandbox, or
    only for display."""
    for folder in (os.defpath if path is None else path).split(os.pathsep):
        if _can_be_run(candidate := os.path.join(folder or ".", name)):
            return candidate
    return None


def installed_in(roots: Iterable[str | os.PathLike[str]]) -> tuple[list[str], list[str]]:
    """Find where this process's own code (package, interpreter, libraries) lies within `roots`.
    Returns the places below a root, which can be protected, and the roots that are themselves such
    a place."""
    loaded = (_PACKAGE, sys.executable, sys.argv[0], sys.prefix, sys.base_prefix, *sys.path)
    places = {os.path.realpath(place) for place in loaded if place.startswith("/")}
    inside: set[str] = set()
    whole: set[str] = set()
    for root in map(os.path.realpath, roots):
        inside |= {place for place in places if place.startswith(root.rstrip("/") + "/")}
        whole |= {root} & places
    outermost = (p for p in inside if not any(p.startswith(f"{other}/") for other in inside))
    return sorted(place for place in outermost if os.path.exists(place)), sorted(whole)


def _search(name: str, path: str) -> str | None:
    if "/" in name:
        path, name = os.path.split(name)
    for folder in path.split(os.pathsep):
        candidate = os.path.join(os.path.realpath(folder), name)
        if not folder.startswith("/") or not _can_be_run(candidate):
            continue
        if not _process.places.hold(candidate, as_program=True):
            return candidate
    return None


def _can_be_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _clean_environment() -> None:
    clean = sanitize_environment(_process.user_environ, _process.places).environ
    folders = clean.get("PATH", os.defpath).split(os.pathsep)
    firm = [each for each in folders if not _process.places.hold(each, as_program=True)]
    clean["PATH"] = os.pathsep.join(firm) or os.defpath
    # Plugins would make pydantic read the entry points of all packages and fail on a damaged one.
    clean["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    for name in os.environ.keys() - clean.keys():
        del os.environ[name]
    os.environ.update(clean)


def _clean_module_path() -> None:
    """Remove distrusted entries, except our own: beside the interpreter, or where package and
    libraries were installed together."""
    script = os.path.dirname(os.path.realpath(sys.argv[0]))
    prefixes = {os.path.realpath(prefix) + "/" for prefix in (sys.prefix, sys.base_prefix)}
    kept = []
    for entry in sys.path:
        real = os.path.realpath(entry)
        beside = f"{real}/".startswith(tuple(prefixes)) and real != script
        if beside or (entry.startswith("/") and (not _process.places.hold(entry) or _ours(entry))):
            kept.append(entry)
    sys.path[:] = kept


def _ours(entry: str) -> bool:
    """Return whether the package was installed into this folder, not just linked from it."""
    if os.path.join(os.path.realpath(entry), "agentcli") != _PACKAGE:
        return False
    return any(re.fullmatch(r"agentcli-.*\.dist-info", name) for name in os.listdir(entry))


def _repository(folder: str, home: str) -> str | None:
    """Return the nearest folder around with a `.git`, or None if that holds the home, which the
    access scope does not count either."""
    while folder != "/":
        if os.path.lexists(f"{folder}/.git"):
            return None if f"{home}/".startswith(f"{folder}/") else folder
        folder = os.path.dirname(folder)
    return None


def _leads_to(value: str, places: UntrustedPlaces) -> bool:
    if "/" not in value and value not in (".", ".."):
        return False
    if _RELATIVE.search(value):
        return True
    words = (word[word.find("/") :] for word in _WORDS.split(value) if "/" in word)
    return any(map(places.hold, words))


def _way(path: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield everything passed on the way to the absolute `path`: folders, symlinks and where they
    lead, with its status, or None if it does not exist."""
    left = path.split("/")[::-1]
    here = ""
    links = 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        here = f"{here}/{part}"
        info = _look(here)
        yield here, info
        if info is not None and stat.S_ISLNK(info.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return
            target = os.readlink(here)
            here = "" if target.startswith("/") else here.rpartition("/")[0]
            left += target.split("/")[::-1]


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _open_to_all(info: os.stat_result) -> bool:
    return bool(info.st_mode & stat.S_IWOTH) and not stat.S_ISLNK(info.st_mode)


def environment_folder(workspace: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the workspace's virtual environment: the active one, .venv, venv, or None."""
    active = environ.get("VIRTUAL_ENV")
    if active and _is_of_agent(active) and not Path(active).resolve().is_relative_to(workspace):
        active = None
    for folder in (active, workspace / ".venv", workspace / "venv"):
        if folder and os.access(Path(folder) / "bin" / "python", os.X_OK):
            return Path(folder)
    return None


def python_on_path(environ: Mapping[str, str]) -> str | None:
    """Return the first Python on the PATH of `environ` that is not in agent's own environment."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if not _is_of_agent(Path(each).parent))
    return find_on("python3", path) or find_on("python", path)


def interpreter_of(workspace: Path, environ: Mapping[str, str]) -> str:
    """Return the Python interpreter for `workspace`; as a last resort, the one that agent's own
    environment was made from."""
    folder = environment_folder(workspace, environ)
    if folder is not None:
        return str(folder / "bin" / "python")
    made_of = Path(sys.base_prefix, "bin", "python3")
    fallback = str(made_of) if os.access(made_of, os.X_OK) else sys.executable
    return python_on_path(environ) or fallback


def _is_of_agent(folder: str | Path) -> bool:
    """Return whether this is the virtual environment that agent runs in."""
    if sys.prefix == sys.base_prefix:
        return False
    return os.path.realpath(folder) == os.path.realpath(sys.prefix)
