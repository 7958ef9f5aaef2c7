"""Modes that commands set: no program of the workspace runs with the person's rights for others,
and what daily work does with modes goes on."""

from __future__ import annotations

import pytest

from tests.attacks.raids import Arena
from tests.sandbox.sandboxes import LAYERS
from tests.server import Call, Reply

every_layer = pytest.mark.parametrize("layer", LAYERS)

DAILY = """
cp /bin/sh tool && chmod +x tool && chmod 755 tool && install -m 755 tool installed
mkdir -p a/b && echo x > a/b/f && cp -a a copied && tar cf a.tar a && mkdir t && tar xpf a.tar -C t
python3 -c "import shutil; shutil.copytree('a', 'tree')" && chmod -R u+rwX,go-w a && chmod 1777 t
git clone -q . cloned && git -C cloned log --oneline && python3 -m venv --without-pip env
""".strip().splitlines()
ARCHIVE = """
import io, tarfile
with tarfile.open("set-id.tar", "w") as archive:
    for name, mode in (("plain", 0o644), ("program", 0o4755), ("last", 0o644)):
        member = tarfile.TarInfo(name)
        member.mode, member.size = mode, 1
        archive.addfile(member, io.BytesIO(b"x"))
"""


def told(place: Arena, *commands: str) -> list[str]:
    calls = [Call("bash", {"command": f"{command} && echo WORKED"}) for command in commands]
    run = place.run([Reply("", calls), Reply("Done.")])
    return [*run.told, run.stderr]


@every_layer
def test_daily_work_with_modes_and_an_archive_that_has_such_a_mode(arena, layer):
    place = arena(layer)
    (place.workspace / "make.py").write_text(ARCHIVE)
    unpack = "python3 make.py && mkdir out && tar xf set-id.tar -C out"
    *daily, unpacked, changed, _ = told(place, *DAILY, unpack, "chmod u+s tool")
    assert [text for text in daily if "WORKED" not in text] == []
    out = place.workspace / "out"
    assert sorted(path.name for path in out.iterdir()) == ["last", "plain", "program"]
    for text in (unpacked, changed):
        assert "Operation not permitted" in text
        assert "set-user-ID or set-group-ID bit" in text
    assert (place.workspace / "tool").stat().st_mode & 0o7777 == 0o755


@every_layer
def test_where_folders_hand_down_their_group_it_is_cleared_at_the_end_and_told(arena, layer):
    """Programs set the bit of folders again there, and no filter tells a folder from a file."""
    place = arena(layer)
    place.workspace.chmod(0o2775)
    shared = "mkdir made && chmod 755 made && chmod -R g+w made && cp -a made again"
    attack = "cp /bin/sh made/tool && chmod 2755 made/tool"
    *daily, worked, refused, stderr = told(place, *DAILY, shared, attack, "chmod u+s made/tool")
    assert [text for text in (*daily, worked) if "WORKED" not in text] == []
    assert "Operation not permitted" in refused
    assert place.workspace.joinpath("made/tool").stat().st_mode & 0o7777 == 0o755
    assert place.workspace.joinpath("made").stat().st_mode & 0o2000
    assert "made/tool: its set-ID bits were cleared" in stderr
