"""Is a task fit to be trained on? Nothing leaks, the gold patch passes every time, the untouched tree never does."""
