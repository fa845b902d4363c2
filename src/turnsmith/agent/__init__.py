"""What an agent is told and what it may do, and the loop of reasoning, one command, one observation (paper §3).

Tools run on the host against the sandbox. Nothing is installed in an image, so a repository of any language works, and a tool
has no state that could get lost: what must be remembered between turns is one small record (`tools.base.Session`).
"""
