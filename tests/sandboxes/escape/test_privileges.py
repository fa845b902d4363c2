"""Privileges: set-uid programs, capabilities, namespaces, mounts, devices."""

import os
import shutil
import subprocess

import pytest

from turnsmith.sandboxes.base import SandboxSpec

ORDINARY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CAP_SYS_ADMIN = 21


@pytest.fixture
def plant(open_folder, provider):
    """Return a sandbox over a folder with a copy of a program that root has changed."""

    async def plant(program, change):
        copy = open_folder / "program"
        shutil.copyfile(program, copy)
        copy.chmod(0o755)
        change(copy)
        return await provider.start(SandboxSpec((open_folder,))), copy

    return plant


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant it")
async def test_a_set_uid_program_planted_by_root_changes_nobody(plant):
    sandbox, program = await plant("/usr/bin/id", lambda copy: copy.chmod(0o6755))
    assert subprocess.run([*ORDINARY, program, "-u"], capture_output=True).stdout == b"0\n"
    assert (await sandbox.exec("./program -u; ./program -g", timeout_s=9)).output == b"1000\n1000\n"
    command = "cp program own; chmod 6777 own; ./own -u; cp program /tmp/own; chmod 6777 /tmp/own; /tmp/own -u"
    assert (await sandbox.exec(command, timeout_s=9)).output == b"1000\n1000\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant it")
async def test_file_capabilities_planted_by_root_give_nothing(plant):
    capability = bytes.fromhex("01000002") + (1 << CAP_SYS_ADMIN).to_bytes(4, "little") + bytes(12)
    sandbox, program = await plant("/bin/cat", lambda copy: os.setxattr(copy, "security.capability", capability))
    outside = subprocess.run([*ORDINARY, program, "/proc/self/status"], capture_output=True, text=True)
    assert "CapEff:\t0000000000200000" in outside.stdout
    status = (await sandbox.exec("./program /proc/self/status", timeout_s=9)).output.decode()
    assert "CapEff:\t0000000000000000" in status and "CapBnd" in status


async def test_no_capability_and_no_other_user_can_be_taken_on(inside):
    code = """
    tell(
        uid=lambda: os.setuid(0),
        gid=lambda: os.setgid(0),
        groups=lambda: os.setgroups([0]),
        label=lambda: os.setxattr("/testbed/run.sh", "security.capability", bytes.fromhex("0100000200002000") + bytes(12)),
        trusted=lambda: os.setxattr("/testbed/run.sh", "trusted.mark", b"x"),
        own=lambda: os.chown("/testbed/run.sh", 0, 0),
        raise_=lambda: libc.capset(struct.pack("II", 0x20080522, 0), b"\\xff" * 24),
        ambient=lambda: libc.prctl(47, 2, 21, 0, 0),
        privileges=lambda: libc.prctl(38, 0, 0, 0, 0),
    )
    print(open("/proc/self/status").read())
    """
    output = await inside(code)
    assert output.startswith("Name:")
    for line in ("CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapAmb:\t0000000000000000"):
        assert line in output
    assert "NoNewPrivs:\t1" in output and "Seccomp:\t2" in output and "Uid:\t1000\t1000\t1000\t1000" in output


NAMESPACES = """
KINDS = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
         "cgroup": 0x2000000, "time": 0x80}
for name, flag in KINDS.items():
    if name != "time":  # which only unshare makes
        pid = libc.syscall(56 if os.uname().machine == "x86_64" else 220, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        tell(**{f"clone_{name}": lambda: pid})
    arguments = struct.pack("11Q", flag, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", arguments, len(arguments))
    if pid == 0:
        os._exit(0)
    tell(**{f"clone3_{name}": lambda: pid})
    tell(**{f"unshare_{name}": lambda: libc.unshare(flag)})
    for process in (1, os.getpid()):
        tell(**{f"setns_{name}": lambda: call("setns", os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY), 0)})
        tell(**{f"setns_{name}": lambda: call("setns", os.pidfd_open(process), flag)})
print(open("/proc/self/uid_map").read().split()[0])
"""


async def test_no_namespace_can_be_made_or_entered(inside, outside):
    assert (await inside(NAMESPACES)).split() == ["1000"]
    assert {"unshare_user", "clone_user", "clone3_user"} <= set(outside(NAMESPACES).split())


MOUNT = """
BIND, REMOUNT, RDONLY, MOVE, SHARED, DETACH = 4096, 32, 1, 8192, 1 << 20, 2
before = open("/proc/self/mountinfo").read()

def mount(source, target, kind, flags=0, options=None):
    return libc.mount(source, target, kind, ctypes.c_ulong(flags), options)

tell(
    tmpfs=lambda: mount(b"x", b"/mnt", b"tmpfs"),
    bind=lambda: mount(b"/usr", b"/mnt", None, BIND),
    rewrite=lambda: mount(None, b"/usr", None, BIND | REMOUNT),
    rewrite_root=lambda: mount(None, b"/", None, BIND | REMOUNT),
    proc=lambda: mount(b"x", b"/mnt", b"proc"),
    sysfs=lambda: mount(b"x", b"/mnt", b"sysfs"),
    cgroup=lambda: mount(b"x", b"/mnt", b"cgroup", 0, b"memory"),
    cgroup2=lambda: mount(b"x", b"/mnt", b"cgroup2"),
    devpts=lambda: mount(b"x", b"/mnt", b"devpts"),
    mqueue=lambda: mount(b"x", b"/mnt", b"mqueue"),
    overlay=lambda: mount(b"x", b"/mnt", b"overlay", 0, b"lowerdir=/usr:/etc,upperdir=/tmp,workdir=/tmp"),
    fuse=lambda: mount(b"x", b"/mnt", b"fuse", 0, b"fd=0,rootmode=40000,user_id=0,group_id=0"),
    move=lambda: mount(b"/tmp", b"/mnt", None, MOVE),
    share=lambda: mount(None, b"/", None, SHARED),
    uncover=lambda: libc.umount2(b"/proc", DETACH),
    uncover_workspace=lambda: libc.umount2(b"/testbed", DETACH),
    uncover_root=lambda: libc.umount2(b"/", DETACH),
)
print("changed" if open("/proc/self/mountinfo").read() != before else "same")
"""


async def test_nothing_can_be_mounted_remounted_or_unmounted(inside, as_root_outside):
    assert await inside(MOUNT) == "same"
    outside = as_root_outside(MOUNT).split()
    assert {"tmpfs", "bind", "changed"} <= set(outside)


NEW_MOUNT = """
HERE, CLOEXEC, CLONE, RECURSIVE = -100, 0o2000000, 1, 0x8000
clear = struct.pack("4Q", 0, 1, 0, 0)
tell(
    clone=lambda: call("open_tree", HERE, b"/usr", CLONE | CLOEXEC),
    clone_all=lambda: call("open_tree", HERE, b"/", CLONE | CLOEXEC | RECURSIVE),
    look=lambda: call("open_tree", HERE, b"/usr", CLOEXEC),
    open=lambda: call("fsopen", b"tmpfs", 1),
    pick=lambda: call("fspick", HERE, b"/tmp", 1),
    attributes=lambda: call("mount_setattr", HERE, b"/tmp", 0, struct.pack("4Q", 1, 0, 0, 0), 32),
    rewrite=lambda: call("mount_setattr", HERE, b"/usr", 0, clear, 32),
    move=lambda: call("move_mount", HERE, b"/tmp", HERE, b"/mnt", 0),
    make=lambda: call("fsmount", call("fsopen", b"tmpfs", 1), 1, 0),
)
"""


async def test_the_new_ways_to_mount_are_closed_too(inside, as_root_outside):
    assert await inside(NEW_MOUNT) == ""
    assert {"clone", "look", "open"} <= set(as_root_outside(NEW_MOUNT).split())


CHROOT = """
before = os.stat("/").st_ino, os.stat("/").st_dev
os.makedirs("/tmp/cell", exist_ok=True)
above = os.open("/", os.O_RDONLY)
tell(chroot=lambda: os.chroot("/tmp/cell"), pivot=lambda: call("pivot_root", b"/tmp", b"/tmp/cell"))
os.fchdir(above)
for _ in range(20):
    os.chdir("..")
tell(again=lambda: os.chroot("."))
print("same" if (os.stat("/").st_ino, os.stat("/").st_dev) == before else "left")
"""


async def test_the_root_directory_can_be_neither_changed_nor_left(inside, as_root_outside):
    assert await inside(CHROOT) == "same"
    assert "chroot" in as_root_outside(CHROOT).split()


HANDLE = """
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
mount_id = ctypes.c_int()
tell(name=lambda: call("name_to_handle_at", -100, b"/usr/bin/env", handle, ctypes.byref(mount_id), 0))
for inode in (2, 1, 128, 256):  # the root directories of the usual file systems
    guess = struct.pack("IiII", 8, 1, inode, 0)
    for path in ("/usr", "/testbed", "/tmp", "/"):
        tell(open=lambda: call("open_by_handle_at", os.open(path, os.O_RDONLY), guess, os.O_RDONLY))
"""


async def test_no_file_can_be_opened_by_its_number(inside, outside):
    assert (await inside(HANDLE)).split() == []
    assert "name" in outside(HANDLE).split()


DEVICES = """
for folder in ("/tmp", "/testbed", "/dev/shm", folder):
    for name, kind, major, minor in (("disk", stat.S_IFBLK, 254, 0), ("memory", stat.S_IFCHR, 1, 1),
                                     ("log", stat.S_IFCHR, 1, 11), ("tty", stat.S_IFCHR, 5, 0)):
        tell(**{name: lambda: os.mknod(f"{folder}/{name}", kind | 0o666, os.makedev(major, minor))})
        tell(opened=lambda: os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK))
"""


async def test_no_device_can_be_made(inside, outside, open_folder):
    assert (await inside(DEVICES, folder=str(open_folder))).split() == []
    if os.geteuid() == 0:
        made = outside(
            DEVICES.replace('"/tmp", "/testbed", "/dev/shm", folder', "folder,"), folder=str(open_folder)
        ).split()
        assert {"disk", "memory", "log"} <= set(made)


async def test_no_device_of_the_host_is_there(inside, outside):
    code = """
    for name in ("mem", "kmsg", "port", "loop-control", "loop0", "fuse", "kvm", "vda", "sda", "nvme0n1", "net/tun", "tty", "tty0",
                 "console", "ptmx", "pts/ptmx", "vsock", "vhost-vsock", "uinput", "hwrng", "btrfs-control", "cpu_dma_latency"):
        tell(**{name: lambda: os.open("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)})
    """
    assert (await inside(code)).split() == []
    assert {"ptmx"} <= set(outside(code).split())
    devices = "fd full null random shm stderr stdin stdout urandom zero"
    assert await inside("print(*sorted(os.listdir('/dev')))") == devices
