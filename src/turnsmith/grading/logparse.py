"""Table of log parsers, by the names that data sets use."""

from collections.abc import Collection

from turnsmith.errors import UsageError
from turnsmith.grading.log_parsers import methods, other_runners, summary
from turnsmith.grading.log_parsers.base import Parser, Results, clean
from turnsmith.grading.log_parsers.listed import PATTERNS, make_parser
from turnsmith.grading.log_parsers.other_runners import make_browser_parser

OURS: dict[str, Parser] = {
    "pytest": summary.parse_pytest,
    "lines": summary.parse_lines,
    "verbose": summary.parse_verbose,
    "options": summary.parse_options,
    "tox": summary.parse_verbose,
    "unittest": methods.parse_unittest,
    "django": methods.parse_unittest,
    "nose": methods.parse_unittest,
    "sympy": other_runners.parse_sympy,
    "mocha": other_runners.parse_mocha,
    "karma": other_runners.parse_karma,
    "phpunit": other_runners.parse_phpunit,
    "maven": other_runners.parse_maven,
    "gradle": other_runners.parse_gradle,
    **{name: make_parser(patterns) for name, patterns in PATTERNS.items()},
}

ALIASES = {
    "ruby_unit": "test-unit",
    "rspec_transformed_json": "rspec",
    "micropython_test": "micropython",
    "jest_json": "jest-json",
    "gradle_custom": "gradle",
    **dict.fromkeys(("carbon", "react_pdf", "grommet"), "jest-files"),
    **{
        name: name
        for name in (
            "ant", "cargo", "cucumber", "googletest", "gotest", "jest", "jq", "karma", "maven", "minitest", "phpunit",
            "redis", "sympy", "tap", "vitest",
        )
    },
}  # fmt: skip
"""Name of a parser in SWE-bench → name of the equivalent parser of Turnsmith."""

BY_REPOSITORY: dict[str, Parser] = {
    **dict.fromkeys(
        ("pytest", "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"), summary.parse_lines
    ),
    **dict.fromkeys(("pytest_options", "pydicom", "requests", "pylint"), summary.parse_options),
    **dict.fromkeys(("pytest_v2", "astropy", "scikit", "sphinx"), summary.parse_v2),
    "django": methods.parse_django,
    "matplotlib": summary.parse_matplotlib,
    "seaborn": summary.parse_seaborn,
    "bpmn_js": make_browser_parser(r"(?:PhantomJS|Headless ?Chrome|Chrome Headless)[^(]{0,40}\([^()]{0,60}\)"),
    "chart_js": make_browser_parser(r"Chrome [\d.]{1,40} \([^()]{1,60}\)"),
    "eslint": other_runners.parse_broken,
    "highlightjs": other_runners.parse_highlightjs,
    "marked": other_runners.parse_numbered,
}
"""Parsers for one repository each: name in SWE-bench and derived data sets → parser of Turnsmith."""

PARSERS: dict[str, Parser] = {
    **OURS,
    **{f"parse_log_{name}": OURS[ours] for name, ours in ALIASES.items()},
    **{f"parse_log_{name}": parser for name, parser in BY_REPOSITORY.items()},
}


def parse_log(log: str, parser: str, known: Collection[str] = ()) -> Results:
    """Read a test log with the named parser. Raises UsageError if no parser has this name.

    `known` test ids show where an id ends and a message begins in a line of the log.
    """
    if parser not in PARSERS:
        raise UsageError(f"unknown log_parser {parser!r}: use one of {', '.join(PARSERS)}")
    return PARSERS[parser](clean(log), known)
