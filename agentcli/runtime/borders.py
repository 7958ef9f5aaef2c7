"""What a session may see and change, found from its workspace and the person's environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli import programs
from agentcli.borders import Borders
from agentcli.homes import user_home
from agentcli.runtime.git_folders import find_repository

TMP = Path("/tmp")

_SECRETS_AT_HOME = """
    .ssh .aws .azure .oci .gnupg .kube .docker .password-store .vault-token .terraform.d .kaggle
    .netrc _netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .s3cfg .boto .msmtprc
    .fetchmailrc .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config
    .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json
    .terraformrc .databrickscfg .config/gh .config/glab-cli .config/hub .config/git/credentials
    .config/gcloud .config/doctl .config/hcloud .config/heroku .config/fly .fly .config/containers
    .config/op .1password .config/sops .config/age .config/rclone .config/gopass
    .config/pypoetry/auth.toml .config/composer/auth.json .config/pip/pip.conf .pip/pip.conf
    .config/uv/credentials .local/share/uv/credentials .config/NuGet .nuget/NuGet .yarnrc.yml
    .config/keybase .local/share/keyrings .local/share/kwalletd .local/share/gopass
    .local/share/keybase .local/share/jupyter/runtime .huggingface/token .cache/huggingface/token
    .cache/huggingface/stored_tokens .config/wandb .modal.toml .config/solana .bitcoin .ethereum
    .electrum .mozilla .librewolf .thunderbird .config/google-chrome .config/chromium
    .config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .config/Bitwarden
    .config/1Password .config/Signal .config/Slack .config/discord snap/firefox snap/chromium
    .var/app .config/filezilla .purple .claude .claude.json .codex .gemini .config/github-copilot
    .local/share/opencode .kimi .config/crush .aider.conf.yml .config/io.datasette.llm
    .bash_history .zsh_history .history .local/share/fish/fish_history .local/state/bash/history
    .config/fish/fish_variables .python_history .node_repl_history .psql_history .mysql_history
    .sqlite_history .rediscli_history .irb_history .lesshst .viminfo .wget-hsts .Xauthority
    .ICEauthority Library/Keychains Library/Cookies Library/Messages Library/Mail
    Library/Application\\ Support/Google/Chrome Library/Application\\ Support/Firefox
    Library/Application\\ Support/com.apple.TCC Library/Application\\ Support/Arc
"""
_SYSTEM_SECRETS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/kubernetes", "/etc/rancher", "/etc/docker", "/etc/ssl/private", "/etc/krb5.keytab"),
)
_SETTINGS = (".agent/config.toml", ".agent/hooks")
"""What a workspace brings for the agent itself: commands must not change it behind its trust."""
_HOST_KEYS = Path("/etc/ssh")
_SOCKET_VARIABLES = (
    *("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"),
    *("GPG_AGENT_INFO", "TMUX", "STY", "NVIM", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE"),
)


def find_borders(
    workspace: Path,
    environ: Mapping[str, str],
    *,
    writable: Sequence[Path] = (),
    own: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    tmp: Path,
) -> Borders:
    """`writable`: folders beside the workspace that the person named. `own`: the agent's settings
    and state; `readable`: what commands may see of it, such as a session's outputs. `tmp`: the
    session's folder that commands find at /tmp.

    The repository's root is writable unless it is the home folder or above it: then only the
    workspace is. A secret folder that the person chose as workspace is not hidden.
    """
    workspace = workspace.resolve()
    home = user_home(environ)
    repository = find_repository(workspace)
    roots = [workspace]
    if repository is not None and not home.is_relative_to(repository.root):
        roots = [repository.root, *repository.folders]
    roots += [path.resolve() for path in writable]
    protected = repository.protected() if repository is not None else ()
    protected += tuple(path for name in _SETTINGS if (path := workspace / name).exists())
    protected += tuple(map(Path, programs.installed_in(roots)[0]))
    for folder in writable:
        if (other := find_repository(folder.resolve())) and other.root.is_relative_to(folder):
            protected += other.protected()
    ours = _resolved(own)
    secrets = [
        path for path in _secrets(home, environ) if not any(r.is_relative_to(path) for r in roots)
    ]
    return Borders(
        workspace=workspace,
        home=home,
        writable=_without_nested(roots),
        protected=tuple(dict.fromkeys(protected)),
        hidden=tuple(dict.fromkeys((*ours, *secrets))),
        readable=_resolved((*readable, *_programs_in_tmp(environ, TMP))),
        own=ours,
        mounts={TMP: tmp.resolve()},
    )


def _secrets(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Also what is not there yet: it may come while the session runs."""
    places = [home / name.replace("\0", " ") for name in _names(_SECRETS_AT_HOME)]
    places += map(Path, _SYSTEM_SECRETS)
    places += sorted(_HOST_KEYS.glob("ssh_host_*_key"))
    places += [path for name in _SOCKET_VARIABLES for path in _socket_paths(environ.get(name, ""))]
    for place in places:
        with suppress(OSError, RuntimeError):
            yield place.resolve()


def _names(text: str) -> list[str]:
    return text.replace("\\ ", "\0").split()


def _socket_paths(value: str) -> Iterator[Path]:
    """Of `/path`, `unix:///path`, `unix:path=/path,guid=…`, `/path,pid,number`."""
    for part in value.replace("unix:path=", "").replace("unix://", "").split(","):
        # That of another user, after `su`, is nothing that commands could reach.
        with suppress(OSError):
            if part.startswith("/") and Path(part).is_socket():
                yield Path(part)


def _programs_in_tmp(environ: Mapping[str, str], tmp: Path) -> Iterator[Path]:
    """Environments and folders of programs that would vanish when /tmp is replaced."""
    places = [environ.get("VIRTUAL_ENV", ""), environ.get("CONDA_PREFIX", ""), sys.prefix]
    places += environ.get("PATH", "").split(os.pathsep)
    for place in map(Path, filter(None, places)):
        if tmp in place.parents and place.is_dir():
            is_environment = (place.parent / "pyvenv.cfg").is_file()
            yield place.parent if is_environment else place


def _resolved(paths: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path.resolve() for path in paths))


def _without_nested(paths: Sequence[Path]) -> tuple[Path, ...]:
    unique = dict.fromkeys(paths)
    return tuple(p for p in unique if not any(q in p.parents for q in unique))
