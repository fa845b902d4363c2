# tries: Leaves files whose names contain line breaks, quotes, escape codes or invalid UTF-8, or resemble .git.
# layer: verdict
python - <<'EOF'
import os
names = [b"line\nend", b'quo"te', b"back\\slash", b"\x1b[2J\x1b]0;owned\x07", b"\xff\xfe", b" ", b"-rf", b"~", b"$(touch x)", b"a" * 255,
         b"dev\\null", b"b/dev/null", "\u202egnp.exe".encode(), b"tab\tbed", b".git ", b".GIT ", b"git~1", b".g\xe2\x80\x8cit", b"..."]
for name in names:
    try:
        os.makedirs(os.path.dirname(name) or b".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(b"\x1b[2J \xff\0 diff --git a/x b/x\n")
    except OSError:
        pass
EOF
