"""Any OpenAI-compatible server, through the official client: messages in, text out, and an account of what it costs."""
