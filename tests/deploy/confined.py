"""Run a command as a systemd unit or a container runs it: with its calls, files and user alone.

    unshare --mount python confined.py '{"command": […], "calls": […], …}'

It is a program of its own: what it gives up is not had back. Only Linux's own means are used: a
mount namespace, an overlay of this machine's files, and a seccomp filter, made by libseccomp.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EQUAL, EPERM, EAFNOSUPPORT = 4, 1, 97
CANNOT = 77
"""Exit code: this machine has no such namespaces."""


class Compared(ctypes.Structure):
    """libseccomp's `scmp_arg_cmp`: an argument, how, and with what."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def library() -> ctypes.CDLL | None:
    """Return libseccomp, which Debian's apt and systemd bring; None where it is not."""
    try:
        found = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    found.seccomp_init.restype = ctypes.c_void_p
    for name in ("seccomp_load", "seccomp_rule_add_array"):
        getattr(found, name).argtypes = [ctypes.c_void_p] + (
            [ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Compared)]
            if name.endswith("array")
            else []
        )
    return found


def allow_only(calls: list[str], families: list[str], kills: bool) -> None:
    """Let this process, and what it becomes, make these system calls alone."""
    seccomp = library()
    assert seccomp is not None
    filter = seccomp.seccomp_init(KILL if kills else ERRNO | EPERM)
    for name in calls:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # of another machine
        if name == "socket" and families:
            for family in families:
                one = Compared(0, EQUAL, getattr(socket, family), 0)
                seccomp.seccomp_rule_add_array(filter, ALLOW, number, 1, ctypes.byref(one))
        else:
            seccomp.seccomp_rule_add_array(filter, ALLOW, number, 0, None)
    if seccomp.seccomp_load(filter) != 0:
        sys.exit("the filter was not taken")


def new_root(kept: list[str], steps: str, volumes: list[str], after: str) -> None:
    """Have another root: this machine's files, which can't be changed, beside folders that can.

    Args:
        kept: Folders that are seen as they are, where they lie on another disk.
        steps: Shell that root runs inside first.
        volumes: Folders that can be written to, in memory, of the owner that they have after it;
            nothing is in them.
        after: Shell that root runs inside when all is fixed.
    """
    above = Path(tempfile.mkdtemp(prefix="confined-"))
    root = above / "root"
    try:
        _mount("--make-rprivate", "/")
        _mount("-t", "tmpfs", "tmpfs", str(above))
        for name in ("up", "work", "root"):
            (above / name).mkdir()
        layers = f"lowerdir=/,upperdir={above}/up,workdir={above}/work"
        _mount("-t", "overlay", "overlay", "-o", layers, str(root))
        for folder in ("/proc", "/dev", *kept):
            if os.stat(folder).st_dev != os.stat("/").st_dev:
                (root / folder[1:]).mkdir(parents=True, exist_ok=True)
                _mount("--rbind", folder, f"{root}{folder}")
    except subprocess.CalledProcessError as error:
        print(error, error.stderr, file=sys.stderr)
        sys.exit(CANNOT)
    os.chroot(root)
    os.chdir("/")
    _run(steps)
    hidden = [folder for folder in kept if any(Path(v) in Path(folder).parents for v in volumes)]
    for i, folder in enumerate(hidden):  # what this test runs from may lie in /tmp
        Path(f"/kept/{i}").mkdir(parents=True)
        _mount("--rbind", folder, f"/kept/{i}")
    for folder in volumes:
        has = os.stat(folder)
        options = f"mode={has.st_mode & 0o7777:o},uid={has.st_uid},gid={has.st_gid}"
        _mount("-t", "tmpfs", "-o", options, "tmpfs", folder)
    for i, folder in enumerate(hidden):
        Path(folder).mkdir(parents=True, exist_ok=True)
        _mount("--rbind", f"/kept/{i}", folder)
    _mount("-o", "remount,ro", "/")
    _run(after)


def _run(steps: str) -> None:
    if subprocess.run(["bash", "-euc", steps]).returncode:
        sys.exit(f"a step failed: {steps}")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True, text=True)


def main(given: dict[str, Any]) -> None:
    """Give up what is not given, and become the command."""
    if "volumes" in given:
        new_root(given["kept"], given["steps"], given["volumes"], given["after"])
        os.setgroups([])
        who = pwd.getpwnam(given["user"])
        os.setgid(who.pw_gid)
        os.setuid(who.pw_uid)
    os.umask(int(given.get("umask", "022"), 8))
    if "calls" in given:
        allow_only(given["calls"], given.get("families", []), given.get("kills", True))
    os.execve(given["command"][0], given["command"], given["environment"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
