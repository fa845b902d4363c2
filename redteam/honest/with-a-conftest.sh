# tries: The fix, and a conftest.py with a fixture and a marker.
git apply
cat > "$(dirname "$TESTS")/conftest.py" <<'EOF'
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "quick: takes no time")

@pytest.fixture
def pair():
    return 1, 2
EOF
cp "$(dirname "$TESTS")/conftest.py" conftest.py
