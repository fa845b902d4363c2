"""Log parsers by the names that data sets use."""

from collections.abc import Collection

from turnsmith.errors import UsageError
from turnsmith.grading.log_parsers.base import SEVERITY, STATUSES, Parser, Results, TestResult, clean
from turnsmith.grading.log_parsers.builds import parse_gradle, parse_maven
from turnsmith.grading.log_parsers.failures import make_browser_parser, parse_broken, parse_numbered
from turnsmith.grading.log_parsers.listed import FORMS, make_parser
from turnsmith.grading.log_parsers.methods import parse_django, parse_unittest
from turnsmith.grading.log_parsers.nested import parse_highlightjs, parse_karma, parse_mocha, parse_phpunit
from turnsmith.grading.log_parsers.summary import (
    LINE,
    parse_lines,
    parse_matplotlib,
    parse_options,
    parse_pytest,
    parse_seaborn,
    parse_v2,
    parse_verbose,
    split_message,
)
from turnsmith.grading.log_parsers.sympy import parse_sympy

__all__ = ["LINE", "PARSERS", "SEVERITY", "STATUSES", "TestResult", "parse_log", "split_message"]

OURS: dict[str, Parser] = {
    "pytest": parse_pytest,
    "lines": parse_lines,
    "verbose": parse_verbose,
    "options": parse_options,
    "tox": parse_verbose,
    "unittest": parse_unittest,
    "django": parse_unittest,
    "nose": parse_unittest,
    "sympy": parse_sympy,
    "mocha": parse_mocha,
    "karma": parse_karma,
    "phpunit": parse_phpunit,
    "maven": parse_maven,
    "gradle": parse_gradle,
    **{name: make_parser(forms) for name, forms in FORMS.items()},
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
"""Names of SWE-bench's parsers → equivalent parsers here."""

BY_REPOSITORY: dict[str, Parser] = {
    **dict.fromkeys(
        ("pytest", "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"), parse_lines
    ),
    **dict.fromkeys(("pytest_options", "pydicom", "requests", "pylint"), parse_options),
    **dict.fromkeys(("pytest_v2", "astropy", "scikit", "sphinx"), parse_v2),
    "django": parse_django,
    "matplotlib": parse_matplotlib,
    "seaborn": parse_seaborn,
    "bpmn_js": make_browser_parser(r"(?:PhantomJS|Headless ?Chrome|Chrome Headless)[^(]{0,40}\([^()]{0,60}\)"),
    "chart_js": make_browser_parser(r"Chrome [\d.]{1,40} \([^()]{1,60}\)"),
    "eslint": parse_broken,
    "highlightjs": parse_highlightjs,
    "marked": parse_numbered,
}
"""Parsers specific to single repositories, by the names that SWE-bench and its descendants use."""

PARSERS: dict[str, Parser] = {
    **OURS,
    **{f"parse_log_{name}": OURS[ours] for name, ours in ALIASES.items()},
    **{f"parse_log_{name}": parser for name, parser in BY_REPOSITORY.items()},
}


def parse_log(log: str, parser: str, known: Collection[str] = ()) -> Results:
    """Read a log with the named parser. Raises UsageError for an unknown name.

    `known` test ids decide where an id ends.
    """
    if parser not in PARSERS:
        raise UsageError(f"unknown log_parser {parser!r}: use one of {', '.join(PARSERS)}")
    return PARSERS[parser](clean(log), known)
