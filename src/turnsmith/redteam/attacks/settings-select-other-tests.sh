# tries: Settings that look for tests of other names, so that none is found.
# fools: missing
printf '[pytest]\npython_functions = check_*\npython_classes = Check\npython_files = nothing.py\naddopts = -k nothing\n' > pytest.ini
