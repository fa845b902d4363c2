# tries: The module asks for a skip of the whole test file on import.
# fools: missing
echo 'import pytest; pytest.skip("not here", allow_module_level=True)' >> "$SOURCE"
