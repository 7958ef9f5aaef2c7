"""Secrets in their usual places, and where variables say that they are instead, can't be read;
where the person wants it, nothing else beside the workspace and the system either."""

from __future__ import annotations

import re
from pathlib import Path

from tests.attacks.raids import bash, every_layer, one_by_one
from tests.conftest import git
from tests.server import Call, Reply

PLACES = {
    "KUBECONFIG": "kube/one:{}/kube/two",
    "AWS_SHARED_CREDENTIALS_FILE": "aws/credentials",
    "AWS_CONFIG_FILE": "aws/config",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "aws/token",
    "DOCKER_CONFIG": "docker/",
    "CARGO_HOME": "cargo/credentials.toml",
    "GOOGLE_APPLICATION_CREDENTIALS": "google.json",
    "NETRC": "netrc",
    "PGPASSFILE": "pgpass",
    "NPM_CONFIG_USERCONFIG": "npmrc",
    "PIP_CONFIG_FILE": "pip.conf",
    "GNUPGHOME": "gnupg/",
    "PASSWORD_STORE_DIR": "passwords/",
    "GH_CONFIG_DIR": "gh/",
    "CLOUDSDK_CONFIG": "gcloud/",
    "AZURE_CONFIG_DIR": "azure/",
    "VAULT_CLIENT_KEY": "vault.key",
    "BOTO_CONFIG": "boto",
    "HISTFILE": "history",
    "XDG_CONFIG_HOME": "xdg-config/gh/hosts.yml",
    "XDG_DATA_HOME": "xdg-data/keyrings/login",
    "XDG_STATE_HOME": "xdg-state/bash/history",
    "KRB5CCNAME": "FILE:{}/ticket",
    "RCLONE_CONFIG": "rclone.conf",
    "SOPS_AGE_KEY_FILE": "age.txt",
    "HF_HOME": "hf/token",
    "CLAUDE_CONFIG_DIR": "claude/",
}
USUAL = """
    .ssh/id_rsa .aws/credentials .config/gh/hosts.yml .mylogin.cnf .config/Bitwarden/data.json
    .pg_service.conf .config/keepassxc/keepassxc.ini .smbcredentials
    .config/helm/registry/config.json .oci/config .talos/config .config/msmtp/config .authinfo
    .local/share/TelegramDesktop/tdata .config/weechat/sec.conf .config/JetBrains/c.kdbx .zhistory
    .config/Code/User/globalStorage/state.vscdb .password-store/a.gpg .minisign/minisign.key
    .vault-token .mcp-auth/tokens.json .config/aichat/config.yaml .config/environment.d/key.conf
    .vscode-server/data/User/globalStorage/state.vscdb .wakatime.cfg .config/turso/settings.json
    .config/nix/nix.conf .local/share/xonsh/xonsh-history.sqlite .config/uv/uv.toml
""".split()  # noqa: SIM905


def place_of(base: Path, name: str) -> tuple[str, list[Path]]:
    """The value of a variable and the secret files that it leads to."""
    said = PLACES[name]
    if ":" in said:
        value = said.format(base) if said.startswith("FILE") else f"{base}/{said.format(base)}"
        return value, [Path(part) for part in value.split(":") if part.startswith("/")]
    if said.endswith("/"):
        return f"{base}/{said}", [base / said / "deep" / "secret"]
    suffix = {"CARGO_HOME": 1, "XDG_CONFIG_HOME": 2, "XDG_DATA_HOME": 2, "XDG_STATE_HOME": 2}
    depth = suffix.get(name, 1 if name == "HF_HOME" else 0)
    file = base / said
    return str(file.parents[depth - 1] if depth else file), [file]


@every_layer
def test_secrets_in_places_that_variables_name_cannot_be_read(arena, layer):
    place = arena(layer)
    assert len(PLACES) >= 25
    files: dict[Path, str] = {}
    for name in PLACES:
        value, found = place_of(place.base / "elsewhere", name)
        place.agent.env[name] = value
        files |= dict.fromkeys(found, name)
    files |= {place.home / name: name for name in USUAL}
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"the secret of {files[file]}\n")
    (place.base / "elsewhere/cargo/bin").mkdir()
    (place.base / "elsewhere/cargo/bin/tool").write_text("a tool\n")
    commands = [bash(f"cat {file}") for file in files]
    calls = [Call("read", {"path": str(file)}) for file in files]
    calls += [Call("grep", {"pattern": "secret of", "path": str(place.base / "elsewhere")})]
    calls += [bash(f"cat {place.base}/elsewhere/cargo/bin/tool")]
    run = place.run([Reply("", commands), *one_by_one(calls), Reply("Done.")])
    got = [told for told in run.told if "the secret of" in told]
    assert got == []
    assert "a tool" in run.told[-1], "what is beside a secret stays"


@every_layer
def test_a_variable_that_names_all_there_is_hides_nothing(arena, layer):
    place = arena(layer)
    place.agent.env |= {
        "DOCKER_CONFIG": "/",
        "KUBECONFIG": str(place.home),
        "HISTFILE": "/dev/null",
    }
    place.agent.env |= {"GNUPGHOME": str(place.workspace), "PIP_CONFIG_FILE": "/dev/null"}
    (place.home / "plain").write_text("plain\n")
    command = f"cat {place.home}/plain first; echo x > /dev/null && echo fine"
    run = place.does([bash(command)])
    assert run.told[0].splitlines()[:3] == ["plain", "1", "fine"]


@every_layer
def test_only_the_workspace_and_the_system_can_be_read_where_that_is_wanted(arena, layer):
    place = arena(layer)
    confined = ("--set", "sandbox.read=workspace", "--add-dir", f"{place.base}/added")
    (place.base / "added").mkdir()
    (place.base / "added/file").write_text("added\n")
    (place.home / "letter").write_text("private\n")
    (place.outside / "other").write_text("private\n")
    (place.home / ".tools/bin").mkdir(parents=True)
    (place.home / ".tools/data").write_text("of a tool\n")
    tool = place.home / ".tools/bin/tool"
    tool.write_text(f"#!/bin/sh\ncat {place.home}/.tools/data\n")
    tool.chmod(0o755)
    place.agent.env["PATH"] = f"{tool.parent}:{place.agent.environment['PATH']}"
    git(place.workspace, "config", "user.name", "me")
    git(place.workspace, "config", "user.email", "me@localhost")
    private = [place.home / "letter", place.outside / "other", place.outside / "full"]
    hidden = [bash(f"cat {path}") for path in private]
    hidden += [bash(f"ls {path.parent}; ls {place.base}") for path in private]
    hidden += [Call("read", {"path": str(path)}) for path in private]
    hidden += [Call("read", {"path": str(place.outside)})]
    hidden += [Call("grep", {"pattern": "private", "path": str(place.base)})]
    hidden += [Call("glob", {"pattern": "*", "path": str(place.home)})]
    hidden += [bash(f"ln {private[0]} linked; cat linked; ln -s {private[1]} l")]
    hidden += [Call("read", {"path": "l"})]
    works = {
        "cat first": "1",
        f"cat {place.base}/added/file": "added",
        "tool": "of a tool",
        "echo x > new && git add new && git commit -qm new && echo done": "done",
        "echo y > $TMPDIR/y && cat $TMPDIR/y": "y",
        "python3 -c 'import json, ssl; print(6 * 7)'": "42",
        "cd ~ && echo home": "home",
        "head -c 4 /etc/hostname >/dev/null && nproc >/dev/null && echo system": "system",
        "echo z > ../added/z && cat ../added/z": "z",
    }
    calls = [*hidden, *(bash(command) for command in works)]
    calls += [Call("python", {"code": "print(open('first').read())"})]
    run = place.tries(calls, *confined)
    text = "\n".join(run.told[: len(hidden)])
    assert "private\n" not in text
    assert "precious" not in text
    assert not re.search(r"^(other|letter|full)\b", text, re.MULTILINE), text
    answers = [told.splitlines()[0] for told in run.told[len(hidden) : -1]]
    assert answers == list(works.values())
    assert run.told[-1] == "1"
    assert "can be read" in str(run.requests[0].body["messages"][0])
