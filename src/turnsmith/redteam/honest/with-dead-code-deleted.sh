# tries: The fix, and files and functions deleted that nobody uses.
git apply
rm -rf README* CHANGELOG* docs LICENSE*
python - <<'EOF'
import os, re
source = os.environ["SOURCE"]
text = open(source).read()
open(source, "w").write(re.sub(r"\n\ndef _unused\(.*?(?=\n\n|\Z)", "", text, flags=re.S))
EOF
