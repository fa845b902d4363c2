"""Import of the package before Ray, which reads its settings when it is imported."""

import turnsmith.cluster  # noqa: F401
