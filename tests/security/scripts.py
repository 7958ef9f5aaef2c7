"""Random scripts of harmless commands, to compare what bash runs with what was found in them."""

from __future__ import annotations

from random import Random

MARKERS = ("m1", "m2", "m3")
_COMMANDS = r"""
m1
m2 a
m3 'a b'
m1 "a"
m\2 x
'm1'
m"2" c
$'m\x31' \$
m1 a\ b
m2 "a\"b"
m1 -c x
m1 é
m1 {a}
m2 [x
m3 a=b
m2 $(m3 q)
m1 `m2`
m1 "$(m3)"
m2 <(m3)
m1 *
m2 {a,b}
m1 ${x:-$(m2)}
m3 $((1+$(m2; echo 1)))
m1 #c
m1 a#b
m1 \# b
m2 ''
m1 ~
m1 "#"
m1 'it'\''s'
m1 2>&1
m2 >f 3>g
m3 <<<"$(m1)"
m1 !
m1 \;m2
m2 ";m3"
m1 $'a\'b'
m1 -- - --
[ a = a ]
[[ -n a ]]
x=1 m1
x=$(m2)
x=1 y='2;' m3 q
m1 a}
m1 }
m1 =a
m1 a[0]=1
m2 %1 ^ , . : / ?
""".strip().split("\n")
_WRAPPERS = """
time {}
time x=1 {}
command {}
env A=1 {}
nice -n 5 {}
timeout 5 {}
exec {}
! {}
nohup {}
setsid -w {}
builtin command {}
xargs {} </dev/null
find . -maxdepth 0 -exec {} \\;
""".strip().split("\n")
_QUOTING_WRAPPERS = [
    "eval '{}'",
    "bash -c '{}'",
    "sh -c '{}'",
    "env bash -c '{}'",
    "trap '{}' EXIT",
]
_STATEMENTS = [
    "{a}; {b}",
    "{a} && {b}",
    "{a} || {b}",
    "{a} | {b}",
    "{a} |& {b}",
    "{a}\n{b}",
    "({a}; {b})",
    "{{ {a}; {b}; }}",
    "if {a}; then {b}; fi",
    "if {a}\nthen\n{b}\nelse {a}\nfi",
    "for x in a b; do {a}; done",
    "while {a}; do {b}; break; done",
    "until {a}; do {b}; break; done",
    "case a in a) {a};; *) {b};; esac",
    "case x in (x) {a};; esac\n{b}",
    "cat <<E\n$({a})\nE\n{b}",
    "cat <<'E' | {a}\n{b}\nE\n",
    "cat <<E && {a}\nq\nE\n{b}",
    "cat <<-E\n\t$({a})\n\tE\n{b}",
    "cat <<\\E\n$({a})\nE\n{b}",
    "cat <<E <<F\n{a}\nE\n`{b}`\nF\n",
    "({a})>f",
    "{a} # {b}",
    "{a};{b}",
    "{a}&&{b}",
    "for ((i=0;i<1;i++)); do {a}; done",
    "cat < <({a})",
    'echo "`{a}`"',
]
_DAMAGE = [*"'\"\\$`(){}[];|<>!#~ \t\n=*?^%@,-+01", "\\\n", "$'", "$(", "${", "<<", "m1", "m2 "]
_DAMAGE += [";;", "\r", "\u00a0", "\f", "do", "done", "fi", "then", "in", "E", "'m1'", "\\'"]


def make_script(choices: Random) -> str:
    """A script; every other one is damaged in one or two places."""
    text = _statement(choices, 0)
    for _ in range(choices.choice([0, 0, 1, 1, 2])):
        at = choices.randint(0, len(text))
        if choices.random() < 0.7:
            text = text[:at] + choices.choice(_DAMAGE) + text[at:]
        else:
            text = text[:at] + text[at + 1 :]
    return text


def _statement(choices: Random, depth: int) -> str:
    kind = choices.random()
    if depth > 2 or kind < 0.35:
        return choices.choice(_COMMANDS)
    if kind < 0.5:
        inner = choices.choice(_COMMANDS)
        if choices.random() < 0.4:
            quoted = inner.replace("'", "'\\''")
            return choices.choice(_QUOTING_WRAPPERS).replace("{}", quoted)
        return choices.choice(_WRAPPERS).replace("{}", inner, 1)
    form = choices.choice(_STATEMENTS)
    return form.format(a=_statement(choices, depth + 1), b=_statement(choices, depth + 1))
