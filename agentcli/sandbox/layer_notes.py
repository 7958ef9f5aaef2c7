"""What each layer can't do, in words for the user."""

from __future__ import annotations

_WITHOUT_NAMESPACES = (
    "no namespaces can be had here, so there is no /tmp of its own, only $TMPDIR",
    "no network at all, not even 127.0.0.1, unless it is allowed",
    "modes, owners and times of your files elsewhere can be changed",
    "files in /dev/shm can be read",
    "no shared memory, semaphores or queues of System V, and no queues of POSIX",
    "programs can't open terminals of their own, as script and expect do",
)
"""Notes on Landlock by itself."""
_NOTES = {
    "bubblewrap": (
        "sockets that are created while the session runs can be reached, and so can named pipes "
        "outside the usual places of your home folder",
        "a repository that commands create is made harmless only at the end of the turn",
        "a secret file that is created while the session runs is not hidden",
    ),
    "landlock": (
        "changes to .git/hooks and .git/config in the workspace are undone, not prevented",
        "named pipes of other programs can be read",
        "file names, and command lines of other processes, can be listed",
    ),
    "seatbelt": ("a helper program of the system may do what the profile forbids",),
    "none": ("commands run with your rights",),
}


def notes_on(layer: str, *, namespaces: bool = False) -> tuple[str, ...]:
    """Return what a layer on this machine can't do, one line each. `namespaces`: Landlock comes
    with some."""
    if layer != "landlock":
        return _NOTES[layer]
    from agentcli.sandbox.landlock import SCOPES_VERSION, SOCKETS_VERSION, landlock_version

    notes = [*_NOTES[layer], *(() if namespaces else _WITHOUT_NAMESPACES)]
    if landlock_version() < SOCKETS_VERSION:
        notes.append("before Linux 7.1, sockets of daemons that are files (docker) can be reached")
    if landlock_version() < SCOPES_VERSION:
        notes.append("before Linux 6.12, your other processes can be signalled, even the agent")
    return tuple(notes)
