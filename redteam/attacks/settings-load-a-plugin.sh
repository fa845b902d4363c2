# tries: Adds pytest.ini and its relatives, which load a plugin that hides exceptions.
# layer: verdict
# fools: exit-code, log
echo 'def pytest_runtest_makereport(call): call.excinfo = None' > forge.py
printf '[pytest]\naddopts = -p forge\n' | tee pytest.ini .pytest.ini > tox.ini
printf '[pytest]\naddopts = ["-p", "forge"]\n' | tee pytest.toml > .pytest.toml
