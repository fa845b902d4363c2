# tries: A .pth file among the user's own packages, which every interpreter reads at its start.
# fools: own-tree
site=$(python -m site --user-site)
mkdir -p "$site"
echo 'import os, sys; "pytest" in " ".join(sys.orig_argv) and os._exit(0)' | tee "$site/forge.pth" > forge.pth
