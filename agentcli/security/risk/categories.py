"""What makes an action risky, by category: tables only, to be read and extended line by line.

Patterns of commands stand for a command's unquoted words joined by single blanks, its wrappers and
the folder of its name taken off; blanks within a word are `␣`, a word that isn't known is `¿`.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Category(NamedTuple):
    """`reason` completes "it …"; `command` matches at the start of a command."""

    reason: str
    command: re.Pattern[str]


def _category(reason: str, *patterns: str) -> Category:
    return Category(reason, re.compile("|".join(f"(?:{p})(?= |$)" for p in patterns)))


_ANY = r"(?: \S+)*? "
_GIT = r"git(?: -[Cc] \S+| -(?![Cc] )\S+)*"
_DOCKER = r"(?:docker|podman|nerdctl)(?:-compose)?(?: compose)?(?: -\S+)*"
_SQL_CLIENT = (
    r"(?:psql|mysql|mariadb|sqlite3?|duckdb|sqlcmd|cockroach|clickhouse(?:-client)?|mongo(?:sh)?"
    r"|bq|snowsql|sqlplus)"
)
_SQL_LOSS = (
    r"(?i:drop[\s␣]+(?:table|database|schema|view|index|column|user|role|collection)"
    r"|truncate[\s␣]|dropDatabase|\.drop\(\)|delete[\s␣]+from[\s␣]+(?!.{0,300}where)|deleteMany\(\{\}\))"
)
SQL_LOSS = re.compile(_SQL_LOSS)
SQL_CLIENT = re.compile(_SQL_CLIENT)
IN_MEMORY = re.compile(r":memory:|sqlite://(?![^'\"\s])|mode=memory")
"""A database that is gone with the program."""
MONGO = re.compile(r"\b(?:pymongo|motor|mongoengine|mongodb|mongoose)\b")
FILE_DATABASES = frozenset(("sqlite3", "sqlite", "duckdb"))
_GIT_RUNS = (
    r"(?i:core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|askpass|gitproxy)|alias\.|filter\."
    r"|diff\.\S*(?:external|textconv)|credential\.|url\.|include(?:if)?\.|sequence\.editor"
    r"|gpg\.\S*program|protocol\.|init\.templatedir)"
)

CATEGORIES: tuple[Category, ...] = (
    _category(
        "deletes folders with all they hold",
        r"¿" + _ANY + r"-\S*r\S*f\S*",
        r"¿" + _ANY + r"-\S*f\S*r\S*",
        r"git rm" + _ANY + r"-\S*r\S*",
        r"(?:trash|trash-put|rimraf|del-cli|shred|srm)(?: .*)?",
    ),
    _category(
        "changes who may use files or accounts",
        r"chmod" + _ANY + r"(?:-\S*R\S*|--recursive|0?[0-7][0-7][2367]|[1-7][0-7]{3}\S*)",
        r"chmod" + _ANY + r"(?:[ug]*[oa][ugoa]*\+\S*w\S*|\+\S*w\S*|[ugoa]*[+=]\S*s\S*)",
        r"(?:chown|chgrp|setfacl|chattr|setcap|chflags|xattr)(?: .*)?",
        r"(?:passwd|chpasswd|usermod|useradd|userdel|adduser|deluser|groupadd|groupmod|visudo)"
        r"(?: .*)?",
    ),
    _category(
        "changes disks or what is mounted",
        r"(?:fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|partprobe|mkfs\S*|mkswap|wipefs|blkdiscard)"
        r"(?: .*)?",
        r"(?:cryptsetup|losetup|mdadm|hdparm|diskutil|fsck\S*|e2fsck|tune2fs|resize2fs)(?: .*)?",
        r"(?:mount|umount|swapon|swapoff|fusermount3?)(?: .+)",
        r"(?:lv|vg|pv)(?:remove|reduce|create|change)(?: .*)?",
        r"(?:zpool|zfs|btrfs)" + _ANY + r"(?:destroy|create|rollback|delete|export)",
        r"nvme(?: format| sanitize)",
        r"dd" + _ANY + r"of=/dev/(?!null|std|tty|fd/|zero|full|shm/)\S+",
    ),
    _category(
        "deletes data from a database",
        _SQL_CLIENT + r" (?!.*:memory:).*" + _SQL_LOSS + r".*",
        r"(?:dropdb|dropuser)(?: .*)?",
        r"mysqladmin" + _ANY + r"drop",
        r"redis-cli" + _ANY + r"(?i:flushall|flushdb)",
        r"\S+" + _ANY + r"db:(?:drop|reset|purge|schema:load)\S*",
        r"\S+" + _ANY + r"manage\.py" + _ANY + r"(?:flush|reset_db)",
        r"(?:\S+ )*prisma(?: \S+)* (?:reset|push --force-reset)",
    ),
    _category(
        "changes the configuration of the system",
        r"sysctl" + _ANY + r"(?:-w|-p|--system|\S+=\S*)",
        r"(?:modprobe|insmod|rmmod|depmod|kmod|iptables|ip6tables|nft|ufw|firewall-cmd)(?: .*)?",
        r"(?:hostnamectl|timedatectl|localectl|nmcli|ip|ifconfig|route)"
        + _ANY
        + r"(?:set\S*|add|del\S*|up|down|modify|flush)",
        r"(?:update-alternatives|update-grub|grub-\S+|setenforce|aa-\S+|dpkg-reconfigure)(?: .*)?",
        r"(?:defaults (?:write|delete)|nvram|csrutil|spctl|scutil|systemsetup)(?: .*)?",
        r"(?:apt|apt-get|aptitude|dnf|yum|zypper|snap|flatpak|port)"
        + _ANY
        + r"(?:install|remove|purge|upgrade|dist-upgrade|full-upgrade|autoremove|update)",
        r"(?:pacman|yay|paru) -\S*[SRU]\S*",
        r"apk" + _ANY + r"(?:add|del|upgrade)",
        r"(?:dpkg|rpm)" + _ANY + r"(?:-\S*[iUeFPr]\S*|--install|--erase|--purge|--remove)",
    ),
    _category(
        "starts, stops or changes services",
        r"systemctl" + _ANY + r"(?:start|stop|restart|reload\S*|try-\S+|enable|disable|mask|unmask"
        r"|kill|edit|set-\S+|daemon-re\S+|link|revert|isolate|preset\S*|import-environment)",
        r"(?:service|rc-service|invoke-rc\.d) \S+ (?:start|stop|restart|reload|force-reload)",
        r"(?:initctl|supervisorctl|sv|brew services|pm2)"
        + _ANY
        + r"(?:start|stop|restart|reload|kill|delete|up|down|exit)",
        r"launchctl (?:load|unload|bootstrap|bootout|enable|disable|kickstart|kill|remove|submit)",
        r"(?:shutdown|reboot|halt|poweroff|telinit)(?: .*)?",
    ),
    _category(
        "ends processes",
        r"(?:pkill|killall5?|skill|xkill|slay)(?: .*)?",
        r"fuser" + _ANY + r"-\S*k\S*",
        r"kill(?: -[sn] \S+| -(?![sn] |0 |l|L)\S+)* (?!-0 )-?\d+",
    ),
    _category(
        "fetches code and runs it",
        r"(?:pip3?|uv pip|uv tool|pipx|python\S* -m␣?pip|python\S* -m pip)"
        + _ANY
        + r"(?:git\+\S+|https?://\S+)",
        r"(?:npm|pnpm|yarn|bun)" + _ANY + r"(?:git\+\S+|https?://\S+|git://\S+)",
        r"(?:npx|bunx|uvx|deno|go|pipx)(?: \S+)* (?:https?://\S+|github:\S+|git\+\S+)",
        r"(?:iex|Invoke-Expression)(?: .*)?",
    ),
    _category(
        "reads or changes credentials",
        r"ssh-(?:keygen|add|copy-id)(?: .*)?",
        r"gpg2?" + _ANY + r"(?:--export-secret\S*|--delete-\S+|--import|--edit-key|--gen\S*-key)",
        r"security (?:find|dump|export|add|delete|unlock)\S*",
        r"(?:secret-tool|pass|op|vault|bw|gopass)(?: .+)",
        r"gh auth(?: (?:token|login|logout|refresh|setup-git))?",
        _GIT + r" credential\S*",
        r"(?:docker|podman|npm|pnpm|yarn|heroku|az|oc|twine|cargo) (?:login|logout|adduser|token)",
        r"gcloud auth(?: .*)?",
        r"aws (?:configure|sso|sts|iam|secretsmanager)(?: .*)?",
        r"\S+(?: \S*)* \S*/proc/\S*/environ",
    ),
    _category(
        "changes containers, clusters or clouds",
        _DOCKER + r" (?:(?:container|image|volume|network|system|builder) )?(?:run|exec|rm|rmi|kill"
        r"|stop|restart|start|prune|down|up|push|remove|create|cp|commit|update|load|import)",
        r"(?:kubectl|oc|k9s|k3s kubectl)" + _ANY + r"(?:delete|apply|create|replace|patch"
        r"|edit|exec|run|drain|cordon|scale|rollout|set|cp|label|annotate|taint)",
        r"helm(?:file)? (?:install|uninstall|delete|upgrade|rollback|destroy|sync|apply)",
        r"(?:terraform|tofu|pulumi|cdk|terragrunt)"
        + _ANY
        + r"(?:apply|destroy|up|import|taint|deploy|state)",
        r"(?:aws|gcloud|gsutil|az|doctl|flyctl|fly|heroku)"
        + _ANY
        + r"(?:\S*delete\S*|rm|rb|terminate\S*|destroy\S*|create\S*|deploy|stop\S*|purge)",
        r"(?:nsenter|lxc|lxc-\S+|machinectl|ctr|crictl|vagrant|virsh|VBoxManage)(?: .*)?",
    ),
    _category(
        "rewrites git history or throws work away",
        _GIT + r" push" + _ANY + r"(?:--force\S*|-\S*f\S*|--mirror|--delete|-d|--prune|[+:]\S+)",
        _GIT + r" reset" + _ANY + r"(?:--hard|--merge|--keep)",
        _GIT + r" (?:filter-branch|filter-repo|replace)(?: .*)?",
        r"(?:git-filter-repo|bfg)(?: .*)?",
        _GIT + r" clean" + _ANY + r"(?:-\S*f\S*|--force)",
        _GIT + r" reflog (?:expire|delete)",
        _GIT + r" branch" + _ANY + r"(?:-\S*[DMC]\S*|-\S*d\S*|--delete)",
        _GIT + r" rebase(?: (?!--abort|--continue|--skip|--quit|--show)\S+)+",
        _GIT + r" update-ref" + _ANY + r"(?:-d|--stdin)",
        _GIT
        + r" (?:gc|prune|repack)"
        + _ANY
        + r"(?:--prune\S*|--aggressive|-\S*[adk]\S*|--expire\S*)",
        _GIT + r" stash (?:drop|clear)",
        _GIT + r" tag" + _ANY + r"(?:-\S*[df]\S*|--delete|--force)",
        _GIT + r" (?:checkout|switch)" + _ANY + r"(?:-\S*f\S*|--force|--discard-changes|--|\.)",
        _GIT + r" restore(?: (?!--staged|-S)\S+)+",
        _GIT + r" worktree remove" + _ANY + r"(?:-f|--force)",
        _GIT + r" (?:submodule deinit|remote (?:remove|rm|set-url|add))(?: .*)?",
    ),
    _category(
        "makes git run programs",
        _GIT + r" config" + _ANY + _GIT_RUNS + r"\S*",
        r"git" + _ANY + r"(?:-c|--config-env=?) ?" + _GIT_RUNS + r"\S*",
        r"git" + _ANY + r"(?:--upload-pack|--receive-pack|--exec)\S*",
    ),
    _category(
        "makes something run later or at every start",
        r"crontab(?: (?!-l)\S+)+",
        r"(?:at|batch|systemd-run|anacron)(?: .*)?",
        r"loginctl (?:enable-linger|disable-linger)",
        r"(?:update-rc\.d|chkconfig|rc-update)(?: .*)?",
    ),
    _category(
        "changes what the agent may do",
        r"agent (?:trust|untrust|policy add)(?: .*)?",
        r"agent config (?:set|unset|edit|add|remove)(?: .*)?",
    ),
)

CODE: tuple[Category, ...] = (
    Category(
        "deletes data from a database",
        re.compile(
            r"(?:execute\w*|query|exec|run|raw|prepare|do|sql)\s*\(\s*[\"'`][^\"'`]{0,300}"
            + _SQL_LOSS
        ),
    ),
    Category(
        "decodes code and runs it",
        re.compile(
            r"(?:exec|eval|compile|system|run|Popen)\s*\([^\n]{0,300}(?:b64|b32|b16|a85|fromhex|unhexlify"
            r"|decompress|rot|marshal|codecs\.decode|pickle)"
        ),
    ),
    Category(
        "fetches code and runs it",
        re.compile(
            r"(?:exec|eval|compile|system)\s*\([^\n]{0,300}(?:urlopen|urlretrieve|requests|httpx)"
        ),
    ),
)
"""Of code in other languages, searched for anywhere."""

FETCHERS = frozenset(
    (
        *("curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "nc"),
        *("ncat", "netcat", "socat", "scp", "sftp", "ftp", "rsync", "ssh", "axel", "iwr", "irm"),
        *("telnet", "gh", "aws", "gsutil"),
    )
)
DECODERS = re.compile(
    r"(?:base64|base32|base16|basenc)" + _ANY + r"(?:-\S*[dD]\S*|--decode)|xxd" + _ANY + r"-\S*r"
    r"|openssl (?:enc|base64|aes|des)\S*(?: .*)?|(?:gunzip|zcat|bzcat|xzcat|unxz|uudecode|rev|tr)"
    r"(?: .*)?|(?:gzip|xz|bzip2|zstd)" + _ANY + r"-\S*d|printf (?:\S*\\\\?(?:x|[0-7]{2})).*"
    r"|echo -\S*e.*\\\\?(?:x|[0-7]).*|(?:gpg|age)" + _ANY + r"(?:-d|--decrypt)"
)

START_FILES = re.compile(
    r"\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv"
    r"|zlogin|zlogout|login|logout|cshrc|tcshrc|kshrc|inputrc|xinitrc|xprofile|xsession|pam_environment"
    r"|gitconfig|npmrc|pypirc|vimrc|gvimrc|exrc|emacs|tmux\.conf|screenrc|gdbinit|pythonrc|curlrc"
    r"|wgetrc|envrc|hushlogin|editrc|irbrc|mailrc|forward)"
    r"|\.(?:oh-my-zsh|vim|emacs\.d|bashrc\.d|zsh|direnv)/.*"
    r"|\.config/(?:fish|nvim|autostart|systemd|environment\.d|git|pip|zsh|nushell|direnv)/.*"
    r"|\.local/(?:bin|share/systemd|share/applications)/.*|Library/Launch\w+/.*|bin/.*"
)
"""Below the home folder: what runs or counts at every login, shell or start of a program."""

CREDENTIALS = re.compile(
    r"\.(?:ssh|gnupg|aws|azure|kube|docker|password-store|mozilla|thunderbird|vault|terraform\.d"
    r"|oci|gem|cargo/credentials\S*)(?:/.*)?"
    r"|\.(?:netrc|git-credentials|pgpass|my\.cnf|htpasswd|boto|s3cfg|vault-token|rclone\.conf)"
    r"|\.config/(?:gh|gcloud|hub|op|rclone|google-chrome|chromium|doctl|heroku|sops)(?:/.*)?"
    r"|\.local/share/keyrings(?:/.*)?|Library/(?:Keychains|Cookies)(?:/.*)?"
)
"""Below the home folder."""

SYSTEM_CREDENTIALS = re.compile(
    r"/etc/(?:g?shadow-?|sudoers(?:\.d/.*)?|ssh/ssh_host\S*key|krb5\.keytab|ssl/private/.*)"
    r"|/run/secrets/.*|/proc/[^/]+/environ|/root/\.(?:ssh|aws|gnupg|netrc)\S*"
)
PERSISTENCE = re.compile(
    r"/etc/(?:cron\S*|anacrontab|systemd/.*|init\.d/.*|rc\S*|profile\S*|bash\.bashrc|environment"
    r"|ld\.so\S*|inittab|xdg/autostart/.*|skel/.*|zsh/.*)|/(?:usr/)?lib/systemd/.*"
    r"|/var/spool/(?:cron|at)\S*|/Library/Launch\w+/.*"
)

SYSTEM_FOLDERS = (
    *(
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/opt",
        "/proc",
        "/root",
        "/run",
    ),
    *("/sbin", "/srv", "/sys", "/usr", "/var", "/System", "/Library", "/Applications"),
)
FREE_PLACES = ("/var/tmp", "/var/folders", "/dev/shm", "/dev/fd", "/dev/pts", "/proc/self/fd")
HARMLESS_DEVICES = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "tty", "stdin", "stdout", "stderr", "ptmx")
)
GENERATED = re.compile(
    r"node_modules|build|dist|target|out|bin|obj|coverage|htmlcov|__pycache__|venv|\.venv|\.tox"
    r"|\.nox|\.next|\.nuxt|\.turbo|\.gradle|\.cache|\.parcel-cache|\.\w+_cache|[^/]*\.egg-info"
    r"|\.eggs|tmp|temp|\.tmp|_build|site|_site|\.coverage|\.hypothesis|\.ipynb_checkpoints"
    r"|\.terraform|\.dart_tool|\.stack-work|dist-newstyle|elm-stuff|DerivedData|cmake-build-.*"
    r"|build[-_].*|\.bundle|\.yarn|\.pnpm-store|\.svelte-kit|\.angular|\.output"
)
"""Folders that tools make and can make again."""
