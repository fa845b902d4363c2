"""Client of OpenAI-compatible servers: messages in, text out, with rate limits, retries and an account of tokens and cost.

`engine` is the chat engine, and `preflight` checks a server before a run. `ask` sends single questions for data curation. The
package knows neither token ids nor training.
"""
