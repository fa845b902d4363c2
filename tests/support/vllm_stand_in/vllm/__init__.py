"""Stand-in for vLLM: a small server with the routes that Turnsmith uses, without a model."""
