#!/bin/bash
# Applies the hidden tests, runs the expected tests once, and writes 1 or 0 as the reward.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
logs="${VERIFIER_LOGS:-/logs/verifier}"
mkdir -p "$logs" && echo 0 > "$logs/reward.txt" || exit 1
rm -f "$logs/statuses.json"
cd @WORKDIR@ || exit 1
if [ -e "$here/test.patch" ]; then
    GIT_DIR=/nonexistent git apply --whitespace=nowarn "$here/test.patch" || exit 1
fi
export @VARIABLES@
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTEST_PLUGINS=turnsmith_statuses TURNSMITH_STATUSES="$logs/statuses.json"
@COMMAND@ > "$logs/tests.log" 2>&1
code=$?
python="$(command -v python3 || command -v python)"
"$python" "$here/judge.py" "$here/turnsmith.json" "$logs/statuses.json" "$code" && echo 1 > "$logs/reward.txt"
