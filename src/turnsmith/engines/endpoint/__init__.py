"""Engine for OpenAI-compatible servers: messages in, text out, with a record of costs."""
