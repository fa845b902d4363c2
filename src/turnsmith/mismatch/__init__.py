"""Why do the engine's log-probs differ from the policy's? Stored rollouts are scored again under one fault after the other."""
