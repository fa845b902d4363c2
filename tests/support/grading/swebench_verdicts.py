"""Script that computes statuses and verdicts with swebench: JSON list of logs in, JSON list out.

The script imports only swebench's graders, because the whole package starts clients of Docker and data hubs.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

package = ModuleType("swebench.harness")
package.__path__ = [str(Path(sys.argv[1], "swebench/harness"))]
sys.modules["swebench.harness"] = package
sys.path.insert(0, sys.argv[1])

from swebench.harness.grading import get_eval_report, get_logs_eval  # noqa: E402


def grade(case, place):
    spec = SimpleNamespace(instance_id="a__b-1", version="", **{name: case[name] for name in SPEC})
    place.write_text(
        f">>>>> Start Test Output\n{case['text']}>>>>> End Test Output\n>>>>> Test Exit Code: {case['exit_code']}\n"
    )
    prediction = {"instance_id": spec.instance_id, "model_patch": "x"}
    with contextlib.redirect_stdout(sys.stderr):
        statuses, _ = get_logs_eval(spec, str(place))
        report = get_eval_report(spec, prediction, str(place), include_tests_status=False)
    return {"statuses": statuses, "resolved": report[spec.instance_id]["resolved"]}


SPEC = ("log_parser", "eval_type", "FAIL_TO_PASS", "PASS_TO_PASS")
with tempfile.TemporaryDirectory() as folder:
    json.dump([grade(case, Path(folder, "log")) for case in json.load(sys.stdin)], sys.stdout)
