# tries: The fix, and other metadata in pyproject.toml and setup.cfg, settings of pytest among them.
git apply
printf '\n[tool.ruff]\nline-length = 100\n\n[tool.pytest.ini_options]\naddopts = "-q"\n' >> pyproject.toml
printf '\n[flake8]\nmax-line-length = 100\n' >> setup.cfg
