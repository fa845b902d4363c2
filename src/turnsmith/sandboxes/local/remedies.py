"""What on this machine forbids local sandboxes, and the very setting that would allow them."""

from pathlib import Path

_SETTINGS = {
    "sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "AppArmor keeps ordinary users from making namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    "sys/kernel/unprivileged_userns_clone": (
        "0",
        "ordinary users may not make user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`",
    ),
    "sys/user/max_user_namespaces": (
        "0",
        "no user namespace may be made: `sysctl -w user.max_user_namespaces=15000`",
    ),
}
"""Setting below /proc → the value that forbids, and what to do."""

_CONTAINER = (
    "a seccomp profile filters system calls, as in a container: start it with `--security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined`, or `--privileged`"
)
_KERNEL = "the kernel lacks something: Linux 6.6 or newer with user namespaces and overlayfs has all of it"


def name_remedy(proc: Path = Path("/proc")) -> str:
    """What most likely forbids them, and its remedy, in half a sentence."""
    for name, (forbidding, remedy) in _SETTINGS.items():
        if (proc / name).exists() and (proc / name).read_text().strip() == forbidding:
            return remedy
    if "\nSeccomp:\t2" in (proc / "self" / "status").read_text():
        return _CONTAINER
    return _KERNEL
