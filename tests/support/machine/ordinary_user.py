"""Commands run by an ordinary user, in a mount namespace that opens closed folders to them."""

import os
import stat
from pathlib import Path

NOBODY = 65534
CONTAINERS = Path(__file__).parents[3] / ".ci" / "containers.conf"
SUBORDINATE_IDS = "3000000:65536"
"""Subordinate ids for containers: the first id and their number."""


def closed_ancestor(path):
    """Return the topmost folder of a path that other users cannot enter, or None."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH), None)


def open_to_all(paths):
    """Return shell commands that replace closed folders by open ones with only these paths, in a private mount namespace."""
    closed = {path: closed_ancestor(path) for path in paths}
    lines = ["set -e", "mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for number, (path, folder) in enumerate(closed.items()):
        if folder:
            lines += [f"mkdir /mnt/{number}", f"mount --bind {path} /mnt/{number}"]
    lines += [
        f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in {folder for folder in closed.values() if folder}
    ]
    for number, (path, folder) in enumerate(closed.items()):
        if folder:
            lines += [f"mkdir -p {path}", f"mount --bind /mnt/{number} {path}"]
    return lines


def become_user(home, paths):
    """Return the prefix of a command that an ordinary user runs, with rootless podman and access to these paths."""
    (home / "run").mkdir(parents=True, mode=0o700)
    entry = f"nobody:x:{NOBODY}:{NOBODY}:nobody:{home}:/bin/sh"
    others = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("nobody:")]
    (home / "passwd").write_text("\n".join([*others, entry, ""]))
    (home / "subids").write_text(f"nobody:{SUBORDINATE_IDS}\n")
    (home / "containers.conf").write_text(CONTAINERS.read_text())
    for path in (home, home / "run"):
        os.chown(path, NOBODY, NOBODY)
    lines = [
        *open_to_all(paths),
        "touch /etc/subuid /etc/subgid",
        f"mount --bind {home}/passwd /etc/passwd",
        f"mount --bind {home}/subids /etc/subuid",
        f"mount --bind {home}/subids /etc/subgid",
        "mount -t tmpfs -o mode=755 none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup",
        f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"',
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "XDG_RUNTIME_DIR": home / "run",
        "STORAGE_DRIVER": "overlay",  # podman would choose to copy whole images, lest an old kernel refuse
        "CONTAINERS_CONF": home / "containers.conf",
    }
    settings = [f"{name}={value}" for name, value in environment.items()]
    script = ["sh", "-c", "\n".join(lines), "sh", "env", "-i", *settings]
    return ["unshare", "--mount", "--propagation=private", *script]
