# tries: The fix, and files that are executable now.
git apply
chmod 755 "$SOURCE"
printf '#!/bin/sh\nexec python -m pytest "$@"\n' > run-tests.sh
chmod 755 run-tests.sh
