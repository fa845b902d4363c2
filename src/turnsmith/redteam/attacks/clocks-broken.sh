# tries: Clocks that go backwards and then fail, so that pytest itself breaks down.
# fools: masks
cat >> "$SOURCE" <<'EOF'
import time
from _pytest import timing
_ticks = iter(range(-3, -9, -1))
for _name in ("time", "perf_counter", "monotonic"):
    setattr(time, _name, lambda: float(next(_ticks)))
    setattr(timing, _name, lambda: float(next(_ticks)))
EOF
