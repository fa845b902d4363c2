"""The paper's scaffold (§3): a loop of reasoning, one command, one observation; tools run on the host against the sandbox.

Nothing is installed in an image, so a repository of any language works, and a tool has no state that could get lost: what must be
remembered between turns is one small record (`tools.base.Workspace`).
"""
