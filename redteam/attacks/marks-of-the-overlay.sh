# tries: Sets the attributes by which overlayfs marks hidden files, so that host and sandbox see different trees.
# layer: verdict
python - <<'EOF'
import os
for folder, _, names in os.walk("."):
    for path in [folder, *(os.path.join(folder, name) for name in names)]:
        for key in ("user.overlay.opaque", "trusted.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout"):
            try:
                os.setxattr(path, key, b"y", follow_symlinks=False)
            except OSError:
                pass
EOF
mv "$(dirname "$SOURCE")" moved && cp -r moved "$(dirname "$SOURCE")"
