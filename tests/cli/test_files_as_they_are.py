"""Files in other forms than UTF-8 with `\\n`, changed by a run of the agent."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.scripted import call, write
from tests.server import Reply


def change(path: str, old: str, new: str, **more: str) -> Reply:
    return call("edit", path=path, old_str=old, new_str=new, **more)


def test_each_file_keeps_its_encoding_and_what_would_break_it_is_refused(agent, serve):
    work = agent.workspace
    (work / "old.py").write_bytes(b"# coding: latin-1\nname = 'plain'\n")
    (work / "brand.txt").write_bytes(b"brand\x99 at \x80 5\n")
    gbk = "# 你好世界\nx = 1\n".encode("gbk")
    (work / "gbk.txt").write_bytes(gbk)
    (work / "told.txt").write_bytes(gbk)
    server = serve(
        [
            change("old.py", "plain", "café"),
            change("brand.txt", "brand™", "Brand™"),
            change("gbk.txt", "x = 1", "x = 'é'"),
            change("told.txt", "x = 1", "x = '你'", encoding="gbk"),
            Reply("Done."),
        ]
    )
    agent.use(server)
    assert agent("run", "x").returncode == 0
    assert (work / "old.py").read_bytes() == b"# coding: latin-1\nname = 'caf\xe9'\n"
    assert (work / "brand.txt").read_bytes() == b"Brand\x99 at \x80 5\n"
    assert (work / "gbk.txt").read_bytes() == gbk
    assert (work / "told.txt").read_text("gbk") == "# 你好世界\nx = '你'\n"
    asked = json.dumps(server.requests[-1].body)
    assert "only guessed" in asked
    assert "encoding=" in asked


def test_new_files_and_second_names(agent, serve):
    work = agent.workspace
    (work / ".editorconfig").write_text("root = true\n[*.bat]\nend_of_line = crlf\n")
    (work / "a.txt").write_text("one\n")
    (work / "b.txt").hardlink_to(work / "a.txt")
    replies = [write("run.bat", "cd x\n"), change("a.txt", "one", "two"), Reply("Done.")]
    server = serve(replies)
    agent.use(server)
    assert agent("run", "x").returncode == 0
    assert (work / "run.bat").read_bytes() == b"cd x\r\n"
    assert (work / "b.txt").read_text() == "two\n"
    asked = json.dumps(server.requests[-1].body)
    assert "CRLF line endings, as .editorconfig says" in asked
    assert "b.txt: hard links to the same file" in asked


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap to mount a file")
def test_a_file_that_is_a_mount_point_is_written(agent, serve, tmp_path):
    real, mounted = tmp_path / "real.ini", agent.workspace / "settings.ini"
    real.write_text("v1\n")
    mounted.write_text("")
    agent.use(serve([change("settings.ini", "v1", "v2"), Reply("Done.")]))
    mount = ["bwrap", "--dev-bind", "/", "/", "--bind", str(real), str(mounted), "--"]
    if subprocess.run([*mount, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    subprocess.run(
        [*mount, *agent.command, "run", "--no-sandbox", "--yolo", "--no-stdin", "x"],
        cwd=agent.workspace,
        env=agent.environment,
        check=True,
        capture_output=True,
    )
    assert real.read_text() == "v2\n"
    assert [path.name for path in agent.workspace.iterdir()] == ["settings.ini"]
