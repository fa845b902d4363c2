"""Agent: prompts, tools, and the loop of reasoning, command and observation (paper §3).

Tools run on the host against the sandbox, so images need no installation and any language works. The state kept between turns is
one record, `tools.base.Session`.
"""
