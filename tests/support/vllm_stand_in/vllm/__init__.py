"""A package that stands where vLLM is looked for: a small server with the routes that are used, without a model."""
