"""What may be read beside the workspace where nothing else may: the system, and the languages and
tools that the person has installed at home."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store"),
    *("/snap", "/sys", "/proc", "/dev", "/var/lib/dpkg", "/var/lib/ca-certificates"),
    *("/var/lib/alternatives", "/var/lib/flatpak/exports", "/home/linuxbrew/.linuxbrew"),
    *("/System", "/Library", "/Applications", "/private/etc", "/private/var/db"),
)
_TOOLCHAINS = (
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR", "FNM_DIR", "N_PREFIX"),
    *(
        "VOLTA_HOME",
        "ASDF_DATA_DIR",
        "MISE_DATA_DIR",
        "SDKMAN_DIR",
        "JAVA_HOME",
        "GOROOT",
        "GOPATH",
    ),
    *("CARGO_HOME", "RUSTUP_HOME", "GEM_HOME", "DOTNET_ROOT", "ANDROID_HOME", "ANDROID_SDK_ROOT"),
    *("BUN_INSTALL", "PNPM_HOME", "GHCUP_INSTALL_BASE_PREFIX", "JULIA_DEPOT_PATH", "FLUTTER_ROOT"),
    *("UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR", "PIPX_HOME", "HF_HOME", "PLAYWRIGHT_BROWSERS_PATH"),
)
_AT_HOME = (
    *(".rustup", "go", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/pipx"),
    *(".local/share/mise", ".m2/repository", ".cache/pre-commit", ".cache/ms-playwright"),
)
"""Where tools on PATH keep what they need to run."""
_NOT_COVERED = ("/proc", "/dev", "/sys", "/tmp", "/run")
"""Commands get their own of these, or nothing of a person's is in them."""


def shown_places(home: Path, environ: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """Resolved, only what is there; never the home folder, the workspace or what they are in."""
    found: dict[Path, None] = {}
    for place in _places(home, environ, workspace):
        path = Path(os.path.realpath(place))
        broad = home.is_relative_to(path) or workspace.is_relative_to(path)
        if path.exists() and (not broad or place in _SYSTEM):
            found[path] = None
    return tuple(p for p in found if not any(other in found for other in p.parents))


def covered_places(shown: tuple[Path, ...], home: Path) -> tuple[Path, ...]:
    """The folders and files at the root, and the home folder, that are not `shown` as a whole."""
    top = [Path(entry.path) for entry in os.scandir("/") if not entry.is_symlink()]
    covered = [p for p in top if p not in shown and str(p) not in _NOT_COVERED]
    inside = any(home != place and home.is_relative_to(place) for place in covered)
    return (*covered, home) if inside else tuple(covered)


def _places(home: Path, environ: Mapping[str, str], workspace: Path) -> Iterator[str | Path]:
    yield from _SYSTEM
    yield from (home / name for name in _AT_HOME)
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield _root_of_programs(Path(folder), home)
    for name in _TOOLCHAINS:
        places = environ.get(name, "").split(os.pathsep)
        yield from (place for place in places if place.startswith("/"))
    yield from (sys.prefix, sys.base_prefix)
    for folder in (f"{workspace}/.venv", f"{workspace}/venv", environ.get("VIRTUAL_ENV", "")):
        interpreter = os.path.realpath(f"{folder}/bin/python")
        if folder.startswith("/") and os.access(interpreter, os.X_OK):
            yield Path(interpreter).parents[1]


def _root_of_programs(folder: Path, home: Path) -> Path:
    """The whole of an installation for its folder of programs; that folder alone where the ones of
    several are together."""
    alone = folder.parent in (home, home / ".local") or folder.name not in ("bin", "sbin", "shims")
    return folder if alone else folder.parent
