"""Recipes, each read from top to bottom: evaluate, rejection fine-tuning, reinforcement learning, and the whole run of them."""
