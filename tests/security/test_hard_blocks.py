"""What never runs, and honest work that must not be taken for it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    ToolCallAction,
)
from agentcli.security.policy.hard_blocks import HardBlocks
from agentcli.workspace.scope import AccessScope
from tests.tables import each_row


def effect_of(action):
    return "read" if isinstance(action, FileReadAction) else "write"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home with a workspace, the agent's own folders and links that lead astray."""
    home = tmp_path_factory.mktemp("people").resolve() / "ann"
    workspace = home / "project"
    for folder in (".git/hooks", ".git/objects", "src", "build", "node_modules", "no-repo"):
        (workspace / folder).mkdir(parents=True)
    for own in (".config/agentcli", ".local/state/agentcli/sessions/1/outputs"):
        (home / own).mkdir(parents=True)
    (workspace / ".git/config").touch()
    (workspace / "to-etc").symlink_to("/etc")
    (workspace / "to-root").symlink_to("/")
    (workspace / "to-own").symlink_to(home / ".config/agentcli")
    return home


@pytest.fixture(scope="module")
def blocked(place):
    state = place / ".local/state/agentcli"
    scope = AccessScope(
        workspace=place / "project",
        home=place,
        writable=(place / "project",),
        readable=(state / "sessions/1/outputs",),
        agent_files=(place / ".config/agentcli", state),
    )
    environ = {"HOME": str(place), "SYSTEM": "/usr", "PATH": "/usr/bin"}
    return HardBlocks(scope, lambda: str(place / "project"), environ, effect_of)


DELETING = """
rm -rf /
rm -rf /*
rm -fr / --no-preserve-root
rm -r -f -- /
rm -rf //
rm -rf /.
rm -rf /..
rm -rf /../
rm -rf /{bin,etc}
rm -rf /e?c
rm -rf /e*
rm -rf /[e]tc
rm -rf /etc/
rm -rf /etc/*
rm -rf /etc/*/*
rm -rf /./etc/../etc
rm -rf ../../../../../../../../../etc
rm -rf ~
rm -rf ~/
rm -rf ~/*
rm -rf ~/.*
rm -rf ~/{*,.*}
rm -rf $HOME
rm -rf "$HOME"
rm -rf "$HOME"/*
rm -rf ${HOME}
rm -rf ${HOME:?}
rm -rf ${HOME%/}
rm -rf ${HOME:0:1}
rm -rf "${UNSET:-/}"
rm -rf ~/project/..
rm -rf ../
rm -rf ..
rm -rf $PWD/..
rm -rf $(pwd)/..
rm -rf `pwd`/..
rm -rf $SYSTEM
rm -rf $SYSTEM/lib
D=/etc; rm -rf $D
D=/; rm -rf "$D"*
A=/u B=sr; rm -rf $A$B
X='rm -rf /'; $X
X=rm; $X -rf /
r\\m -rf /
''rm -rf /
'rm' -rf /
"r"m -rf /
$'rm' -rf $'/etc'
$'\\x72m' -rf /
rm -rf $'\\x2f'
rm -rf $(echo /)
/bin/rm -rf /
/usr/bin/rm -rf /
sudo rm -rf /
sudo -u root rm -rf /usr
doas rm -rf /
env -i rm -rf /
nohup rm -rf ~ &
command rm -rf /
exec rm -rf /
bash -c 'rm -rf /'
bash -c 'X=/etc; rm -rf $X'
env X=/etc bash -c 'rm -rf $X'
rm -rf "${UNSET:-${HOME}}"
X=(/etc); rm -rf $X
bash -c "rm -rf ~"
sh -c "bash -c 'rm -rf /'"
eval 'rm -rf /'
echo / | xargs rm -rf
echo / | xargs -I{} rm -rf {}
find / -delete
find / -exec rm -rf {} +
find ~ -type f -delete
find / | xargs rm -f
echo 'rm -rf /' | sh
bash <<< 'rm -rf /'
cd / && rm -rf *
cd ..; rm -rf *
cd /etc && rm -rf .
(cd / ; rm -rf ./*)
true && rm -rf /
if true; then rm -rf /; fi
for x in 1; do rm -rf /; done
echo $(rm -rf /)
rm -rf to-etc/
rm -rf to-root/etc
rm -rf to-etc/*
rm -rf build /
rm -rf /boot /lib64
rm -rf /proc/self/root/etc
shred -u /etc/*
rmdir /home
mv /etc /tmp/x
mv ~ /tmp/x
mv ~/* /tmp/x
mv -t /tmp /usr
rsync -a --delete build/ /etc/
busybox rm -rf /
rm -rf /dev
chmod -R 777 /
chmod -R 000 /etc
chmod -R a+w ~
chmod --recursive 777 /usr
chown -R me /
chown -R me:me /usr/
chgrp -R me /etc
chmod -R 777 /*
""".strip().splitlines()

GIT = """
rm -rf .git
rm -rf ./.git/
rm -rf .git/*
rm -rf "$PWD/.git"
rm -rf ~/project/.git
rm -rf .g*t
mv .git /tmp
mv .git .hidden
echo x > .git/config
echo x >> .git/config
: > .git/HEAD
cp x .git/config
tee .git/config < x
sed -i s/a/b/ .git/config
truncate -s 0 .git/config
rm -rf .git/objects
find .git -delete
find .git -type f -delete
cd .git && rm -rf *
D=.git; cd $D && rm -rf *
D=~/project; cd "$D" && echo x >> .git/config
cd $PWD && rm -rf .git
cd "$(git rev-parse --show-toplevel)" && rm -rf .git
cd src && cd $OLDER && cd ~/project && rm -rf .git
if true; then cd src; fi; rm -rf .git
eval true; rm -rf .git
pushd src; rm -rf ../.git
cd src && cd ~ && rm -rf *
""".strip().splitlines()

MACHINE = """
dd if=/dev/zero of=/dev/sda
dd of=/dev/nvme0n1 if=x bs=1M
echo x > /dev/sda
cat x >/dev/sda1
cp x /dev/sdb
tee /dev/vda < x
echo x > /dev/mapper/root
wipefs -a /dev/sda
blkdiscard /dev/sda
shred /dev/sda
mkfs /dev/sda1
mkfs.ext4 /dev/sda1
sudo mkfs.xfs -f /dev/sda1
mkswap /dev/sda2
:(){ :|:& };:
:(){ :|: & };:
: ( ) { : | : & } ; :
bomb() { bomb | bomb & }; bomb
function f { f | f & }; f
b(){ b & b; }; b & b
f() { f |& f & }; f
b(){ b|b& };b
$0 | $0 &
./x.sh & "$0" & "$0"
perl -e 'fork while fork'
perl -e 'fork while 1'
python3 -c 'import os
while True: os.fork()'
ruby -e 'loop { fork }'
kill -9 -1
kill -1
kill -KILL -1
kill -s KILL -1
kill -- -1
kill -9 -- -1
sudo kill -9 -1
/bin/kill -9 -1
killall5
killall5 -9
shutdown now
shutdown -h now
sudo shutdown -r +5
reboot
reboot -f
halt
poweroff
/sbin/reboot
init 0
init 6
telinit 0
systemctl poweroff
systemctl reboot --force
sudo systemctl isolate rescue.target
kexec -e
echo b > /proc/sysrq-trigger
echo c | tee /proc/sysrq-trigger
echo secret | sudo -S ls
sudo -S ls
sudo -kS ls
sudo -u root -S ls
sudo --stdin ls
env sudo -S ls
""".strip()


def _scripts(text):
    """One per line; a line that goes on in quotes belongs to the one before."""
    found = []
    for line in text.splitlines():
        if found and found[-1].count("'") % 2:
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


OWN = """
rm -rf ~/.config/agentcli
rm -rf ~/.config
rm ~/.config/agentcli/config.toml
rm -rf ~/.local
rm -rf ~/.local/state/agent*
echo x > ~/.config/agentcli/config.toml
echo x >> "$HOME/.config/agentcli/rules"
echo x > $HOME/.config/agentcli/rules
tee ~/.config/agentcli/rules < x
cp x ~/.config/agentcli/
cp x ~/.config/agentcli/rules
mv x ~/.config/agentcli/rules
mv ~/.config/agentcli /tmp
mv ~/.config /tmp/c
ln -s /tmp/x ~/.config/agentcli/rules
ln -s ~/.config/agentcli here
sed -i s/ask/allow/ ~/.config/agentcli/config.toml
cd ~/.config/agentcli && echo x > config.toml
cd ~/.config && rm -rf agentcli
echo x > to-own/config.toml
rm to-own/config.toml
dd of=~/.config/agentcli/config.toml if=x
curl -o ~/.config/agentcli/config.toml http://x
python3 -c "open('$HOME/.config/agentcli/config.toml', 'w')"
python3 -c 'import os; open(os.path.expanduser("~/.config/agentcli/rules"), "w")'
vim ~/.config/agentcli/config.toml
touch ~/.local/state/agentcli/sessions/1/state.pkl
find ~/.local/state/agentcli -name '*.json' -delete
sqlite3 ~/.local/state/agentcli/index.db 'delete from x'
git -C ~/.config/agentcli init
chmod 777 ~/.config/agentcli
""".strip().splitlines()


@each_row("command", [*DELETING, *GIT, *_scripts(MACHINE), *OWN])
def test_a_command_that_never_runs(blocked, command):
    assert blocked(CmdRunAction(command=command))


HONEST = """
rm -rf node_modules
rm -rf node_modules/ build/ *.egg-info
rm -rf build/*
rm -rf ./build
rm -rf .
rm -rf ./*
rm -rf *
rm -rf /tmp/x
rm -rf /var/tmp/*
rm -rf "$TMPDIR"/x
rm -rf ~/project/build
rm -rf ~/.cache/pip
rm -rf "$UNSET"/*
rm -rf $BUILD_DIR
rm -rf ${BUILD_DIR:-build}
rm -rf /var/lib/apt/lists/*
rm -f .git/index.lock
rm -rf no-repo/.git
rm to-etc
rm -f to-root
unlink to-etc
mv to-etc old
mv src lib
mv build /tmp/
find . -name '*.pyc' -delete
find . -name __pycache__ -exec rm -rf {} +
find . -type d -empty -delete
find /etc -name '*.conf'
find / -name passwd 2>/dev/null
ls /
ls ~
ls -la /etc
cat /etc/passwd
cd / && ls
cd .. && ls
du -sh /usr
chmod +x script.sh
chmod 644 /tmp/x
chmod -R u+w build
chown me src/a
cp /etc/hosts .
cp -r /usr/share/doc/x docs
cp x /tmp
rsync -a --delete build/ dist/
echo x > out.txt
echo x >> src/a
echo x > /dev/null
echo x > /dev/stdout
echo x > /dev/tty
echo x 2>&1 >/dev/null
make > log 2>&1
cat a > /dev/stderr
dd if=/dev/zero of=x bs=1M count=1
dd if=/dev/urandom of=/dev/null count=1
cat /dev/sda1 | head -c 0
tee out < a
sed -i s/a/b/ src/a
truncate -s 0 log
git status
git commit -m 'never run rm -rf /'
git commit -m "shutdown and reboot"
git push --force
git reset --hard
git clean -fdx
git config user.name x
cd $UNKNOWN && git init -q && echo x >> .git/config
cd $(mktemp -d) && git init -q && rm -rf .git
D=/tmp/x; cd "$D" && cd y && echo x >> .git/config
for d in /tmp/a /tmp/b; do cd $d; echo x >> .git/config; done
cd - && echo x >> .git/config
cat .git/config
ls .git
grep -r 'rm -rf /' .
echo rm -rf /
echo "rm -rf ~"
printf 'rm -rf /\\n'
grep reboot log
echo shutdown
./reboot.sh
./shutdown --now
npm run halt
man shutdown
which reboot
shutdown --help
shutdown -c
mkfs.ext4 --help
systemctl status x
systemctl restart x
init x
git init
npm init -y
terraform init
kill 123
kill -9 123
kill -1 123
kill -HUP 123
kill -TERM -- -123
kill %1
kill -l
kill -0 123
pkill -f server
killall node
sudo ls
sudo -s ls
sudo -u root ls
sudo apt-get install -S x
build() { a | b & }; build
walk() { for f in *; do walk "$f"; done; }
retry() { "$@" || retry "$@"; }
f() { g | h & }; f | f
ls | ls &
perl -e 'print "fork"'
python3 -c 'print("while fork")'
while true; do sleep 1; done
python3 -c 'print(1)'
cat ~/.local/state/agentcli/sessions/1/outputs/1.txt
python3 x.py ~/.local/state/agentcli/sessions/1/outputs/1.txt
ls ~/.config
ls ~/.config/agentcli-other
echo x > ~/.config/agentcli-other
rm -rf ~/.config/other
cat <<'E' > notes.md
""".strip().splitlines()


@each_row("command", HONEST)
def test_honest_work_is_not_blocked(blocked, command):
    assert blocked(CmdRunAction(command=command)) == ""


@each_row(
    "code",
    [
        "import shutil; shutil.rmtree('/')",
        "from shutil import rmtree\nrmtree('/etc')",
        "import shutil as s; s.rmtree('/home')",
        "import os, shutil; shutil.rmtree(os.path.expanduser('~'))",
        "import os, shutil; shutil.rmtree(os.environ['HOME'])",
        "import shutil; from pathlib import Path; shutil.rmtree(Path.home())",
        "import shutil; p = '/' + 'etc'; shutil.rmtree(p)",
        "import shutil; shutil.rmtree('.git')",
        "import os; os.system('rm -rf /')",
        "__import__('os').system('rm -rf /')",
        "import subprocess; subprocess.run('rm -rf ~', shell=True)",
        "import subprocess; subprocess.run(['rm', '-rf', '/'])",
        "import subprocess as s; s.check_call(('reboot',))",
        "import subprocess; subprocess.Popen(['bash', '-c', 'kill -9 -1'])",
        "import os; os.execvp('rm', ['rm', '-rf', '/'])",
        "import os; os.kill(-1, 9)",
        "import os\nwhile True: os.fork()",
        "import os\nwhile 1:\n    os.fork()",
        "!rm -rf /",
        "open('/dev/sda', 'wb').write(b'')",
        "import os; os.rename('/etc', '/tmp/etc')",
        "from pathlib import Path; (Path.home() / '.config/agentcli/rules').write_text('x')",
        "from pathlib import Path as P\np = Path('~/.config/agentcli').expanduser()\np.touch()",
        "import os; open(os.path.join(os.path.expanduser('~'), '.config/agentcli/x'), 'w')",
        "open('to-own/config.toml', 'w')",
    ],
)
def test_python_that_never_runs(blocked, code):
    assert blocked(IPythonRunCellAction(code=code))


@each_row(
    "code",
    [
        "import shutil; shutil.rmtree('build')",
        "'/'.replace('/', '-')",
        "p = '/'; p.replace('/', ''); p.split('/')",
        "roots = ['/', 'a']; roots.remove('/')",
        "import os; os.listdir('/')",
        "import os; os.walk('/etc')",
        "open('/etc/hosts').read()",
        "open('/dev/null', 'w')",
        "print('rm -rf /')",
        "import subprocess; subprocess.run(['git', 'status'])",
        "import re; re.sub('/', '', x)",
        "def fork(): pass\nfork()",
        "if not a syntax",
    ],
)
def test_honest_python_is_not_blocked(blocked, code):
    assert blocked(IPythonRunCellAction(code=code)) == ""


def test_paths_of_the_agent_in_python_are_blocked_by_their_full_name(blocked, place):
    assert blocked(IPythonRunCellAction(code=f"f('{place}/.config/agentcli/config.toml')"))
    assert blocked(IPythonRunCellAction(code=f"f('{place}/.config/agentcli' + '/rules')"))
    outputs = f"{place}/.local/state/agentcli/sessions/1/outputs/1.txt"
    assert not blocked(IPythonRunCellAction(code=f"open('{outputs}')"))
    assert blocked(IPythonRunCellAction(code=f"open('{outputs}', 'w')"))


@each_row(
    "path",
    [
        "~/.config/agentcli/config.toml",
        "../.config/agentcli/rules",
        "to-own/rules",
        ".git/config",
        "./.git/HEAD",
        "/dev/sda",
        "/proc/sysrq-trigger",
    ],
)
def test_file_tools_are_held_too(blocked, path):
    assert blocked(FileWriteAction(path=path, content="x"))
    assert blocked(FileEditAction(path=path, old_str="a", new_str="b"))
    assert blocked(call({}, path))


@each_row("path", ["a", ".gitignore", "src/.git/config.py", "/tmp/x", "~/x"])
def test_file_tools_may_write_elsewhere(blocked, path):
    assert blocked(FileWriteAction(path=path, content="rm -rf /")) == ""


def call(arguments, path=None):
    return ToolCallAction(name="mcp__files__write", raw_arguments=json.dumps(arguments), path=path)


def test_other_tools_may_not_name_places_of_the_agent(blocked, place):
    arguments = {"files": [{"path": "~/.config/agentcli/rules"}]}
    assert blocked(call(arguments))
    raw = json.dumps({"path": str(place / ".config/agentcli/rules")})
    assert blocked(ToolCallAction(name="x", raw_arguments=raw))
    assert not blocked(call({"path": "/tmp/x"}))
    assert not blocked(FileReadAction(path="a"))


def test_what_is_said_names_the_place(blocked):
    assert blocked(CmdRunAction(command="rm -rf ~/*")).endswith("the home folder")
    assert "/etc, a system folder" in blocked(CmdRunAction(command="rm -rf $D /e*c"))
    assert "fork bomb" in blocked(CmdRunAction(command=":(){ :|:& };:"))


def test_the_folder_that_commands_run_in_counts(place):
    scope = AccessScope(workspace=place / "project", home=place, writable=())
    folder = ["/"]
    blocks = HardBlocks(scope, lambda: folder[0], {}, effect_of)
    assert blocks(CmdRunAction(command="rm -rf etc"))
    folder[0] = "/tmp"
    assert not blocks(CmdRunAction(command="rm -rf etc"))


def test_the_root_of_a_repository_above_the_workspace_is_held(place):
    root = place / "project"
    scope = AccessScope(workspace=root / "src", home=place, writable=(root,))
    blocks = HardBlocks(scope, lambda: str(root / "src"), {}, effect_of)
    assert blocks(CmdRunAction(command="rm -rf ../.git"))


def test_a_link_may_go_but_not_what_it_leads_to(blocked, place):
    assert not blocked(CmdRunAction(command="rm -rf to-etc"))
    assert blocked(CmdRunAction(command="rm -rf to-etc/"))
    assert Path(os.path.realpath(place / "project/to-etc")) == Path("/etc")


def test_what_is_too_long_to_be_checked_is_blocked(blocked):
    assert "too long" in blocked(CmdRunAction(command="rm -rf / #" + "x" * 100_000))


@each_row(
    "command",
    [
        "A=x; " + "A=$A$A; " * 40 + "rm $A",
        "rm -rf " + "{a,b}" * 30,
        "rm " + "$A " * 500,
        "f" * 90_000,
        "echo \ud800",
    ],
)
def test_hostile_text_neither_fails_nor_grows(blocked, command):
    assert blocked(CmdRunAction(command=command)) == ""
    assert blocked(IPythonRunCellAction(code=command)) == ""


@each_row(
    "command, why",
    [
        ("rm -rf \x00", "the character NUL"),
        ("echo " + "(" * 600, "nested too deeply"),
        ("bash -c '" + "(" * 600 + "'", "nested too deeply"),
        ("true;" * 600, "too many parts"),
        ("true|" * 2_100, "too long"),
        (">" * 99_000, "too long"),
        ("cat <<ende-é\nende-é\nrm -rf /", "here-document is not ASCII"),
    ],
)
def test_what_the_parser_does_not_bear_is_blocked(blocked, command, why):
    assert why in blocked(CmdRunAction(command=command))


@pytest.mark.parametrize("depth", range(100, 1000, 100))
def test_a_path_is_found_in_arguments_however_deep_it_is(blocked, depth):
    nested = "[" * depth + '"~/.config/agentcli/rules"' + "]" * depth
    assert blocked(ToolCallAction(name="x", raw_arguments=nested))


def test_arguments_that_take_too_long_to_check_are_refused(blocked, monkeypatch):
    monkeypatch.setattr("agentcli.security.policy.hard_blocks._LONGEST_S", 0.05)
    many = json.dumps([f"./{n}/a/b/c" for n in range(20_000)])
    assert "too long to check" in blocked(ToolCallAction(name="x", raw_arguments=many))


TEXT_ONLY = [
    "cat > bomb.md <<'EOF'\n:(){ :|:& };:\nEOF",
    "git commit -m ':(){ :|:& };: is a bomb'",
    "cat > x.sh <<'EOF'\nrm -rf /\nEOF\nbash -n x.sh",
    "echo 'rm -rf /' >> notes.txt",
]


@each_row("command", TEXT_ONLY)
def test_text_is_no_command(blocked, command):
    assert blocked(CmdRunAction(command=command)) == ""


def test_nor_is_text_in_python_code(blocked):
    assert blocked(IPythonRunCellAction(code="print(':(){ :|:& };: while True: os.fork()')")) == ""


@each_row("command", ["cat <<'EOF' | bash\nrm -rf /\nEOF", "sh <<EOF\nrm -rf ~\nEOF"])
def test_what_a_shell_is_fed_is(blocked, command):
    assert blocked(CmdRunAction(command=command))


def test_in_a_sandbox_the_agents_own_places_may_be_mentioned(blocked, place):
    """They are hidden there; what leaves the sandbox is judged as ever."""
    inside = replace(blocked, contained=True)
    told = "git commit -m 'settings are in ~/.config/agentcli'"
    assert blocked(CmdRunAction(command=told))
    assert inside(CmdRunAction(command=told)) == ""
    assert inside(CmdRunAction(command=told, unsandboxed=True))
    assert inside(IPythonRunCellAction(code="print('~/.config/agentcli/x')")) == ""
    assert inside(CmdRunAction(command="rm -rf ~/.config/agentcli"))


def test_a_place_that_may_not_be_followed_is_no_failure(blocked):
    assert blocked(CmdRunAction(command="cat /proc/1/root/x /proc/self/fd/99/x")) == ""
