"""Client of OpenAI-compatible servers: messages in, text out, with pace limits, retries and an account of tokens and cost.

`engine` is the chat engine, and `preflight` checks a server before a run. `ask` sends single questions for data
curation. Recipes, task makers and views import them. The package knows neither tokens of a policy nor training.
"""
