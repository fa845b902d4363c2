"""Logs of test runners, generated from a seed: statuses, parameters, timings, colours, other output, crashed suites."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

BAD = ("failed", "error")


@dataclass(frozen=True)
class RunnerLog:
    """Log, exit code and expected tests."""

    parser: str
    text: str
    exit_code: int
    fail_to_pass: list[str]
    pass_to_pass: list[str]


@dataclass(frozen=True)
class Layout:
    """Output format of one runner."""

    write: Callable[[str, str, Random], str]
    """Function from name, status and random state to the lines of a test."""
    name: Callable[[int, Random], str]
    """Function from an index and a random state to the name of a test."""
    id: Callable[[str], str] = str.strip
    """Function from a name to the id in the data set."""
    statuses: tuple[str, ...] = ("passed", "failed", "skipped")
    before: str = ""
    after: str = ""
    noise: tuple[str, ...] = ("", "warning: something is deprecated", "  File x.py, line 3", "== 3 of 4 ==")


def make_log(parser: str, seed: int) -> RunnerLog:
    """Generate a log for a parser."""
    chance = Random(f"{parser} {seed}")
    layout = LAYOUTS[parser]
    kinds = chance.choice([("passed",), ("passed", "passed", "passed", *layout.statuses), layout.statuses])
    tests = [(layout.name(n, chance), chance.choice(kinds)) for n in range(chance.randint(1, 12))]
    lines = [layout.before]
    for name, status in tests:
        lines += [layout.write(name, status, chance), *chance.sample(layout.noise, chance.choice([0, 0, 1]))]
    is_crash = chance.random() < 0.1
    text = "\n".join([*lines[: len(lines) // 2], "Segmentation fault"] if is_crash else [*lines, layout.after]) + "\n"
    if chance.random() < 0.2:
        text = text.replace("\n", "\r\n")
    exit_code = 139 if is_crash else int(any(status in BAD for _, status in tests))
    ids = [layout.id(name) for name, status in tests if chance.random() < (0.95 if status == "passed" else 0.2)]
    ids += ["nowhere"] if chance.random() < 0.1 else []
    cut = chance.randint(0, len(ids))
    return RunnerLog(parser, text, exit_code, ids[:cut] or [layout.id(tests[0][0])], ids[cut:])


def first_word(name: str) -> str:
    return name.split()[0]


def last_line(name: str) -> str:
    return name.split("\n")[-1]


def pytest_name(n: int, chance: Random) -> str:
    return f"tests/test_{n % 3}.py::test_{n}" + chance.choice(
        ["", f"[{n}]", f"[a {n} - b]", f"[{n}-x y]", "[/tmp/in.txt]"]
    )


PYTEST = {"passed": "PASSED", "failed": "FAILED", "error": "ERROR", "skipped": "SKIPPED", "xfailed": "XFAIL"}


def write_pytest(name: str, status: str, chance: Random) -> str:
    if status == "skipped":
        return f"SKIPPED [1] tests/test_1.py:{chance.randint(1, 99)}: no disk"
    message = chance.choice(["", " - assert 1 == 2", " - ValueError: x - y"]) if status in BAD else ""
    return f"{PYTEST[status]} {name}{message}"


def write_failures_alone_with_messages(name: str, status: str, chance: Random) -> str:
    return f"ERROR {name}" if status == "error" else write_pytest(name, status, chance)


def write_coloured(name: str, status: str, chance: Random) -> str:
    path, _, test = name.partition("::")
    return f"\x1b[32m{PYTEST[status]}\x1b[0m {path}::\x1b[1m{test}\x1b[0m"


def write_seaborn(name: str, status: str, chance: Random) -> str:
    if status == "passed" and chance.random() < 0.5:
        return f"{name} PASSED [ {chance.randint(1, 99)}%]"
    return f"{PYTEST[status]} {name}"


def pytest_layout(**columns: object) -> Layout:
    both = {
        "write": write_pytest, "name": pytest_name, "id": first_word, "statuses": tuple(PYTEST),
        "before": "== test session starts ==\ncollected 9 items\ntests/test_0.py .F  [100%]\n== short test summary info ==",
        "after": "== 3 failed, 2 passed in 0.12s ==",
    }  # fmt: skip
    return Layout(**{**both, **columns})


UNITTEST = {"passed": "ok", "failed": "FAIL", "error": "ERROR", "skipped": "skipped 'no disk'"}


def write_django(name: str, status: str, chance: Random) -> str:
    noise = chance.choice(["", "", "Testing against Django installed in 'x' silenced.\n"]) if status == "passed" else ""
    return f"{name} ... {noise}{UNITTEST[status]}"


def django_name(n: int, chance: Random) -> str:
    name = f"test_{n} (queries.tests.Case{n % 2})"
    return chance.choice([name, name, f"{name}\nDoes {n} things at once."])


def write_sympy(name: str, status: str, chance: Random) -> str:
    heading = f"\n_____ sympy/core/tests/test_x.py:{name} _____" if status == "failed" else ""
    return f"{name} {SYMPY[status]}{heading}"


SYMPY = {"passed": "ok", "failed": "F", "error": "E", "skipped": "s", "xfailed": "f"}
JEST = {"passed": "✓", "failed": "✕", "skipped": "○"}
GO = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}


def time_of(chance: Random) -> str:
    return chance.choice(["", f" ({chance.randint(1, 900)} ms)", f" ({chance.randint(1, 90)}ms)"])


def phrase(n: int, chance: Random) -> str:
    return f"adds {n} numbers" + chance.choice(["", " (twice)", ": x - y", " of its own."])


def word_name(n: int, chance: Random) -> str:
    return f"module::tests::test_{n}"


def of(words: dict[str, str], form: str) -> Callable[[str, str, Random], str]:
    return lambda name, status, chance: form.format(word=words[status], name=name, time=time_of(chance))


PASS_FAIL = ("passed", "failed")
OK = {"passed": "ok", "failed": "FAILED", "skipped": "ignored"}
LAYOUTS = {
    **dict.fromkeys(("parse_log_pytest", "parse_log_flask", "parse_log_xarray", "parse_log_matplotlib"), pytest_layout()),
    **dict.fromkeys(("parse_log_pytest_options", "parse_log_requests", "parse_log_pylint"), pytest_layout()),
    "parse_log_pytest_v2": pytest_layout(id=str.strip, write=write_failures_alone_with_messages),
    "parse_log_scikit": pytest_layout(id=str.strip, write=write_coloured, statuses=("passed", "failed", "error")),
    "parse_log_seaborn": pytest_layout(
        write=write_seaborn, statuses=PASS_FAIL, name=lambda n, chance: f"tests/test_a.py::test_{n}"
    ),
    "parse_log_django": Layout(write_django, django_name, id=last_line, statuses=tuple(UNITTEST), after="FAILED (failures=1)"),
    "parse_log_sympy": Layout(
        write_sympy,
        lambda n, chance: f"test_{n}",
        statuses=tuple(SYMPY),
        before="sympy/core/tests/test_x.py[9]",
        after="== tests finished: 3 passed ==",
        noise=("", "Traceback (most recent call last):"),
    ),
    "parse_log_gotest": Layout(
        of(GO, "=== RUN   {name}\n    --- {word}: {name} (0.01s)"), lambda n, chance: f"TestAll/case_{n}", after="ok  pkg 0.1s"
    ),
    "parse_log_cargo": Layout(of(OK, "test {name} ... {word}"), word_name, after="test result: ok. 3 passed"),
    "parse_log_jest": Layout(of(JEST, "    {word} {name}{time}"), phrase, before="PASS src/a.test.js\n  math"),
    "parse_log_jest_json": Layout(
        of({"passed": "PASSED", "failed": "FAILED"}, "[{word}] {name}"), phrase, statuses=PASS_FAIL
    ),
    "parse_log_vitest": Layout(
        of({"passed": "✓", "failed": "×", "skipped": "↓"}, " {word} src/a.test.ts > {name} 3ms"),
        phrase,
        id=lambda name: f"src/a.test.ts > {name}",
    ),
    "parse_log_tap": Layout(
        of({"passed": "ok 3", "failed": "not ok 4"}, "{word} {name}"), phrase, statuses=PASS_FAIL, before="TAP version 13"
    ),
    "parse_log_carbon": Layout(
        of({"passed": "PASS", "failed": "FAIL"}, "{word} {name} (5.1s)"),
        lambda n, chance: f"src/{n}.test.js",
        statuses=PASS_FAIL,
        after="Tests:       4 passed, 4 total",
    ),
    "parse_log_redis": Layout(
        of({"passed": "[ok]:", "failed": "[err]:", "skipped": "[skip]:"}, "{word} {name}"), lambda n, chance: f"SET {n} keys"
    ),
    "parse_log_jq": Layout(of(GO, "{word}: {name}"), word_name, statuses=PASS_FAIL),
    "parse_log_micropython_test": Layout(
        of({"passed": "pass", "failed": "FAIL", "skipped": "skip"}, "{word}  {name}"), lambda n, chance: f"basics/a{n}.py"
    ),
    "parse_log_googletest": Layout(
        of({"passed": "      OK", "failed": " FAILED "}, "[ RUN      ] {name}\n[ {word} ] {name} (0 ms)"),
        lambda n, chance: f"Suite.Case{n}",
        statuses=PASS_FAIL,
    ),
    "parse_log_ant": Layout(
        of({"passed": "PASS", "failed": "FAIL", "error": "ERR"}, "    [junit] [{word}] {name}"),
        word_name,
        statuses=(*PASS_FAIL, "error"),
    ),
    "parse_log_maven": Layout(
        of({"passed": "SUCCESS", "failed": "FAILURE"}, "+ mvn test -B -Dtest={name}\n[INFO] BUILD {word}"),
        lambda n, chance: f"com.example.ATest#case{n}",
        statuses=PASS_FAIL,
    ),
    "parse_log_gradle_custom": Layout(
        lambda name, status, chance: f"{name}{chance.choice([' ', chr(10)])}{'PASSED' if status == 'passed' else 'FAILED'}",
        lambda n, chance: f"com.example.ATest > case{n}",
        statuses=PASS_FAIL,
        before="> Task :test",
    ),
    "parse_log_phpunit": Layout(
        of({"passed": "✔", "failed": "✘", "skipped": "↩"}, " {word} {name}"),
        lambda n, chance: f"Adds {n} numbers",
        id=lambda name: f"Adder > {name}",
        before="Adder (Tests\\AdderTest)",
    ),
    "parse_log_minitest": Layout(
        of({"passed": ".", "failed": "F", "error": "E"}, "{name}. = 0.02 s = {word}"),
        lambda n, chance: f"TestAdder: should add {n}",
        statuses=(*PASS_FAIL, "error"),
    ),
    "parse_log_cucumber": Layout(
        of({"passed": "....", "failed": "..F."}, "{name} {word}"), lambda n, chance: f"Feature {n}", statuses=PASS_FAIL
    ),
    "parse_log_ruby_unit": Layout(
        of({"passed": ".", "failed": "F", "error": "E", "skipped": "O"}, "  test: {name}:\t{word}: (0.001)"),
        lambda n, chance: f"adds {n}",
        statuses=(*PASS_FAIL, "error", "skipped"),
    ),
    "parse_log_rspec_transformed_json": Layout(
        of({"passed": "passed", "failed": "failed"}, "{name} - {word}"), word_name, statuses=PASS_FAIL
    ),
    "parse_log_karma": Layout(
        of({"passed": "✔", "failed": "✖"}, "    {word} {name}"),
        lambda n, chance: f"adds {n}",
        id=lambda name: f"math > {name}",
        statuses=PASS_FAIL,
        before="INFO: Starting browser Chrome\n  math",
        after="\nSUMMARY:\n✔ 3 tests completed",
        noise=("",),
    ),
    "parse_log_highlightjs": Layout(
        of({"passed": "✓", "failed": "1)"}, "    {word} {name} (12ms)"),
        lambda n, chance: f"adds {n}",
        id=lambda name: f"math.{name}",
        statuses=PASS_FAIL,
        before="  math",
        after="\n  3 passing (1s)\n  1 failing\n\n  1) math\n       adds none:",
        noise=("",),
    ),
    "parse_log_chart_js": Layout(
        lambda name, status, chance: f"Chrome 108.0.0.0 (Linux x86_64) {name} FAILED" if status == "failed" else "",
        lambda n, chance: f"Chart.{n} draws",
        id=lambda name: f"{name} ",
        statuses=PASS_FAIL,
        after="Executed 12 of 12",
    ),
    "parse_log_marked": Layout(
        lambda name, status, chance: f"1) {name}" if status == "failed" else "",
        lambda n, chance: f"parses {n}",
        statuses=PASS_FAIL,
        after="12 specs, 1 failure\n12 specs, 0 failures",
    ),
    "parse_log_eslint": Layout(
        lambda name, status, chance: f"  1) rules\n       {name}:\n     AssertionError: no" if status == "failed" else "",
        lambda n, chance: f"checks {n}",
        id=lambda name: f"rules {name}:",
        statuses=PASS_FAIL,
        after="12 passing (3s)",
        noise=("",),
    ),
}  # fmt: skip
FAIL_ONLY = ("parse_log_chart_js", "parse_log_marked", "parse_log_eslint")
