"""What is said in an episode: as tokens, which train, or as messages, where a server gives no tokens."""
