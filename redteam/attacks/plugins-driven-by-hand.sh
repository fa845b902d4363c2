# tries: Reports each expected test as passed to all plugins of pytest, and ends the session itself.
# layer: verdict
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import gc, os, sys
def _forge():
    from _pytest.main import Session
    from _pytest.reports import TestReport
    gc.unfreeze()
    [session] = [thing for thing in gc.get_objects() if isinstance(thing, Session)]
    hook = session.config.hook
    for test in r"""$EXPECTED""".splitlines():
        location = (test.split("::")[0], 1, test.split("::")[-1])
        for when in ("setup", "call", "teardown"):
            report = TestReport(test, location, {}, "passed", None, when, start=0, stop=0, duration=0)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=test, location=location)
    session.testsfailed, session.testscollected = 0, len(r"""$EXPECTED""".splitlines())
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    hook.pytest_sessionfinish(session=session, exitstatus=0)
    hook.pytest_unconfigure(config=session.config)
    sys.stdout.flush()
    os._exit(0)
_forge()
EOF
