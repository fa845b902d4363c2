"""The audit of a patch that resolves its task: mutation testing of the expected tests, looking for lies. No part of a verdict."""
