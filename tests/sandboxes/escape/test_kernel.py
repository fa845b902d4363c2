"""Kernel state shared by all users: settings, log, clock and rarely used interfaces."""

import os
import secrets
import socket
import time
from pathlib import Path

SETTINGS = """
def rewrite(path):
    with open(path, "rb", 0) as file:
        value = file.read()
    return os.write(os.open(path, os.O_WRONLY), value)

for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        tell(**{f"{folder}/{name}": lambda: rewrite(f"{folder}/{name}")})
for path in ("/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/acpi", "/proc/mtrr", "/proc/irq/default_smp_affinity",
             "/proc/bus/pci/devices", "/proc/fs/ext4", "/proc/1/clear_refs", "/proc/1/timerslack_ns", "/proc/self/loginuid",
             "/proc/self/uid_map", "/proc/self/setgroups"):
    tell(**{path: lambda: os.write(os.open(path, os.O_WRONLY), b"0 0 1")})
"""


async def test_no_setting_of_the_kernel_can_be_written(inside, as_root_outside):
    watched = [Path("/proc/sys/kernel", name) for name in ("core_pattern", "hostname", "pid_max", "threads-max")]
    before = [path.read_text() for path in watched]
    assert (await inside(SETTINGS)).split() == []
    assert [path.read_text() for path in watched] == before
    assert "/proc/sys/user/max_user_namespaces" in as_root_outside(SETTINGS).split()


async def test_the_system_tree_of_the_kernel_is_not_there(inside, outside):
    code = "tell(sys=lambda: os.listdir('/sys/kernel'), cgroup=lambda: os.listdir('/sys/fs/cgroup'))"
    assert await inside(code) == ""
    assert outside(code) == "cgroup sys"


async def test_control_groups_cannot_be_reached(inside, process_one):
    code = """
    for top in ("/sys", "/proc/1/root/sys", "/mnt", "/run", "/dev"):
        for folder, _, names in os.walk(top):
            print(*(name for name in names if name in ("release_agent", "cgroup.procs", "tasks")), end="")
    tell(old=lambda: libc.mount(b"x", b"/mnt", b"cgroup", 0, b"pids"), new=lambda: libc.mount(b"x", b"/mnt", b"cgroup2", 0, None))
    tell(own=lambda: open("/proc/self/cgroup", "w").write("0::/x"))
    """
    before = Path(f"/proc/{process_one}/cgroup").read_text()
    assert await inside(code) == ""
    assert Path(f"/proc/{process_one}/cgroup").read_text() == before


async def test_the_log_of_the_kernel_can_be_neither_read_nor_written(inside, outside):
    code = """
    buffer = ctypes.create_string_buffer(1 << 16)
    tell(
        read=lambda: call("syslog", 3, buffer, len(buffer)),
        size=lambda: call("syslog", 10, None, 0),
        pipe=lambda: open("/proc/kmsg").read(1),
        write=lambda: open("/dev/kmsg", "w").write("escape"),
    )
    """
    assert await inside(code) == ""
    if os.geteuid() == 0:
        assert {"read", "size"} <= set(outside(code.replace("write=", "# write=")).split())


async def test_the_clock_of_the_host_cannot_be_set(inside):
    code = """
    later = time.time() + 86_400
    tell(
        set=lambda: time.clock_settime(time.CLOCK_REALTIME, later),
        raw=lambda: call("clock_settime", 0, struct.pack("qq", int(later), 0)),
        day=lambda: call("settimeofday", struct.pack("qq", int(later), 0), None),
        adjust=lambda: libc.adjtimex(struct.pack("Ixxxxqqq", 0x8000, 10**6, 0, 0) + bytes(200)),
        alarm=lambda: time.clock_settime(time.CLOCK_BOOTTIME, 1),
    )
    """
    before = time.time() - time.monotonic()
    assert await inside(code) == ""
    assert abs(time.time() - time.monotonic() - before) < 60


async def test_the_name_of_the_host_cannot_be_set(inside, as_root_outside):
    code = """
    tell(host=lambda: socket.sethostname("escaped"), domain=lambda: libc.setdomainname(b"escaped", 7))
    print(socket.gethostname())
    """
    before = socket.gethostname()
    assert await inside(code) == "sandbox"
    assert as_root_outside(code).split() == ["domain", "host", "escaped"]
    assert socket.gethostname() == before


async def test_the_machine_cannot_be_switched_off_swapped_or_given_other_code(inside, run):
    code = """
    tell(
        reboot=lambda: call("reboot", 0xFEE1DEAD, 672274793, 0, None),
        load=lambda: call("kexec_load", 0, 0, None, 0),
        file=lambda: call("kexec_file_load", 0, 0, 0, None, 0),
        module=lambda: call("init_module", b"x", 1, b""),
        remove=lambda: call("delete_module", b"loop", 0),
        swap=lambda: call("swapon", b"/tmp/swap", 0),
        off=lambda: call("swapoff", b"/dev/vda"),
        account=lambda: call("acct", b"/tmp/account"),
        quota=lambda: call("quotactl", 0x800007 << 8, b"/dev/vda", 0, ctypes.create_string_buffer(256)),
        ports=lambda: call("iopl", 3),
        port=lambda: call("ioperm", 0x80, 1, 1),
        hang=lambda: call("vhangup"),
    )
    """
    boot, swaps = (Path(path).read_text() for path in ("/proc/sys/kernel/random/boot_id", "/proc/swaps"))
    await run("truncate -s 1M /tmp/swap; touch /tmp/account; /sbin/mkswap /tmp/swap")
    assert await inside(code) == ""
    assert (boot, swaps) == tuple(Path(path).read_text() for path in ("/proc/sys/kernel/random/boot_id", "/proc/swaps"))


CORNERS = """
zeros = ctypes.create_string_buffer(256)
attributes = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 112, 0, 0, 0, 0, 0x60), 128)
context = ctypes.c_ulong(0)
tell(
    io_uring=lambda: call("io_uring_setup", 4, zeros),
    aio=lambda: call("io_setup", 100, ctypes.byref(context)),
    bpf=lambda: call("bpf", 0, struct.pack("5I", 2, 4, 4, 1, 0), 20),
    userfaultfd=lambda: call("userfaultfd", 1),
    perf=lambda: call("perf_event_open", attributes, 0, -1, -1, 0),
    fanotify=lambda: call("fanotify_init", 0x200, 0),
    key=lambda: call("add_key", b"user", b"escape", b"x", 1, -3),
    keyring=lambda: call("keyctl", 0, -4, 1),
    segment=lambda: call("shmget", 0, 4096, 0o1600),
    semaphore=lambda: call("semget", 0, 1, 0o1600),
    messages=lambda: call("msgget", 0, 0o1600),
    file=lambda: call("memfd_create", b"x", 0),
    secret=lambda: call("memfd_secret", 0),
)
"""


async def test_calls_that_lie_deep_or_count_nowhere_are_unknown(inside, outside):
    assert await inside(CORNERS) == ""
    assert {"aio", "file", "key", "messages", "segment", "semaphore"} <= set(outside(CORNERS).split())


async def test_keys_of_the_host_can_be_neither_found_nor_left(inside, outside):
    name = secrets.token_hex().encode()
    leave = 'print(call("add_key", b"user", name, b"secret", 6, -4))'
    find = 'print(call("keyctl", 10, -4, b"user", name, 0))'
    number = int(outside(leave, name=name))
    try:
        assert int(outside(find, name=name)) == number > 0
        assert await inside(find, name=name) == "-1"
    finally:
        outside('call("keyctl", 9, number, -4)', number=number)
    assert await inside(leave, name=name) == "-1"
    assert outside(find, name=name) == "-1"
