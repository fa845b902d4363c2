# tries: A process of its own waits for report files and overwrites them after pytest has ended.
# fools: report-file
cat >> "$SOURCE" <<EOF
import glob, os, time
if os.fork() == 0:
    os.setsid()
    _cases = "".join(f'<testcase name="{i}"/>' for i, _ in enumerate(r"""$EXPECTED""".splitlines()))
    for _ in range(200):
        for path in [*glob.glob("/tmp/**/*.xml", recursive=True), *glob.glob(os.path.expanduser("~/*.xml"))]:
            with open(path, "w") as file:
                file.write(f'<testsuites><testsuite tests="9" failures="0" errors="0">{_cases}</testsuite></testsuites>')
        time.sleep(0.02)
    os._exit(0)
EOF
