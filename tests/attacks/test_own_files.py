"""The agent's settings, saved rules, trust and sessions are nothing for what it runs: not to be
read, not to be changed, in no mode. (By commands that is tried in test_layers.py.)"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.attacks.raids import Arena, bash, every_side
from tests.sandbox.sandboxes import LAYERS
from tests.server import Call


def own(place: Arena) -> dict[str, str]:
    """All that is the agent's but the session that runs, with what it holds."""
    files = [path for path in place.private if path.exists()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def file_calls(path: Path) -> list[Call]:
    text = {"old_str": "ours", "new_str": "theirs"}
    return [
        Call("read", {"path": str(path)}),
        Call("write", {"path": str(path), "content": "theirs"}),
        Call("edit", {"path": str(path), **text}),
        Call("grep", {"pattern": "ours", "path": str(path)}),
        Call("read", {"path": f"../work/../{path.relative_to(path.parents[-3])}"}),
    ]


@pytest.mark.parametrize("flags", [[], ["--yolo"], ["--yolo", "--no-sandbox"]], ids=" ".join)
def test_file_tools_can_neither_read_nor_change_them(arena, flags):
    place = arena("none" if "--no-sandbox" in flags or not LAYERS else LAYERS[0])
    (place.workspace / "link").symlink_to(place.home)
    calls = [call for path in place.private for call in file_calls(path)]
    calls += [
        Call("read", {"path": "link/.config/agent/rules"}),
        Call("write", {"path": "link/.config/agent/rules", "content": "allow bash"}),
        Call("write", {"path": str(place.home / ".config/agent/new"), "content": "x"}),
        Call("write", {"path": str(place.home / "state/sessions/new/x"), "content": "x"}),
    ]
    before = own(place)
    run = place.tries(calls, *flags)
    assert own(place) == before
    assert not (place.home / ".config/agent/new").exists()
    assert not (place.home / "state/sessions/new").exists()
    assert not any("# ours" in told for told in run.told), run.told


PLAIN = """
rm -rf {state}
mv {state} {state}2
echo 'allow bash' >> {settings}/rules
printf 'allow bash' | tee -a {settings}/rules
cp payload {settings}/config.toml
ln -sf /tmp/x {settings}/config.toml
sed -i s/ours/theirs/ {settings}/rules
cd {settings} && echo 'allow bash' > rules
cd {settings} && rm -f rules
sh -c 'echo allow bash > {settings}/rules'
env HOME={home} sh -c 'echo allow bash > ~/.config/agent/rules'
echo 'allow bash' > ~/.config/agent/rules
echo 'allow bash' > $HOME/.config/agent/rules
echo 'allow bash' > "${{HOME}}"/.config/agent/rules
D={settings}; echo 'allow bash' > $D/rules
echo 'allow bash' > {home}/.conf*/agent/rules
echo 'allow bash' > {home}/.config/agen[t]/rules
echo 'allow bash' > {home}/.config/{{agent,other}}/rules
truncate -s 0 {sessions}/20250101-earlier/state.pkl
find {state} -name '*.pkl' -delete
find {state} -type f -exec rm {{}} +
ls {state} | xargs -I% rm -rf {state}/%
dd if=/dev/null of={sessions}/20250101-earlier/state.pkl
rsync -a --delete empty/ {state}/
install -m 644 payload {settings}/rules
tar -C {settings} -xf payload.tar
chmod -R 777 {state}
python3 -c "open('{settings}/rules','w')"
perl -pi -e s/ours/theirs/ {settings}/rules
git config --file {settings}/config.toml a.b c
curl -o {settings}/rules http://127.0.0.1:9/
bash -c "$(printf 'echo x > %s' {settings}/rules)"
eval "echo x > {settings}/rules"
""".strip().splitlines()


@pytest.mark.parametrize("unsandboxed", [False, True])
def test_commands_that_plainly_change_them_never_run(arena, unsandboxed):
    """With all of the person's rights, everything allowed, and no sandbox."""
    place = arena("none")
    names = {
        "home": place.home,
        "state": place.home / "state",
        "sessions": place.home / "state/sessions",
        "settings": place.home / ".config/agent",
    }
    (place.workspace / "payload").write_text("theirs")
    (place.workspace / "empty").mkdir()
    asks = {"unsandboxed": True, "reason": "to help"} if unsandboxed else {}
    calls = [bash(line.format(**names), **asks) for line in PLAIN]
    before = own(place)
    run = place.tries(calls, "--yolo", "--no-sandbox")
    assert own(place) == before
    ran = [
        call.arguments["command"]  # type: ignore[index]
        for call, told in zip(calls, run.told, strict=True)
        if "Not allowed" not in told
    ]
    assert ran == []


@pytest.mark.parametrize("layer", LAYERS)
def test_python_and_background_jobs_can_not_change_them(arena, layer):
    place = arena(layer)
    target = place.home / ".config/agent/rules"
    hidden = "".join(f"\\x{byte:02x}" for byte in str(target).encode())
    code = f"open('{hidden}', 'a').write('theirs')"
    job = {"command": f"printf theirs >> $'{hidden}'", "background": True}
    before = own(place)
    calls = [Call("python", {"code": code}), Call("bash", job), bash("wait")]
    place.tries(calls, "--yolo")
    assert own(place) == before


@every_side
def test_settings_and_sessions_kept_elsewhere_by_a_link_are_theirs_no_less(arena, layer, user):
    place = arena(layer, user)
    disk, dotfiles = place.base / "disk", place.workspace / "dotfiles"
    (place.home / "state/sessions").rename(disk)
    (place.home / "state/sessions").symlink_to(disk)
    (place.home / ".config/agent").rename(dotfiles)
    (place.home / ".config/agent").mkdir()
    (place.home / ".config/agent/config.toml").symlink_to(dotfiles / "config.toml")
    (place.home / ".config/agent/rules").symlink_to(dotfiles / "rules")
    (disk / "20250101-earlier/log").write_text("said there\n")
    (dotfiles / "rules").write_text("# my rules\n")
    place.hand_over()
    command = f"cat {disk}/*/log {dotfiles}/*; cat {disk}/*/events/*"
    calls = [
        bash(command),
        Call("read", {"path": f"{disk}/20250101-earlier/log"}),
        Call("read", {"path": "dotfiles/rules"}),
        Call("write", {"path": "dotfiles/rules", "content": "allow bash in /"}),
        Call("write", {"path": "dotfiles/config.toml", "content": "[security]"}),
    ]
    run = place.tries(calls, "--yolo")
    assert run.exit_code == 0, run.stderr
    assert len(list(disk.iterdir())) == 2
    assert not any("said there" in told or "my rules" in told for told in run.told), run.told
    assert (dotfiles / "rules").read_text() == "# my rules\n"
    assert (dotfiles / "config.toml").read_text() == ""
