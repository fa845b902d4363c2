# tries: Writes machine code over the C library's exit, so that every exit code is 0.
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
import ctypes, platform
if platform.machine() == "x86_64":
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.exit, ctypes.c_void_p).value
    page = address & ~4095
    libc.mprotect(ctypes.c_void_p(page), 8192, 7)
    ctypes.memmove(address, bytes.fromhex("31ffb8e70000000f05"), 9)
EOF
