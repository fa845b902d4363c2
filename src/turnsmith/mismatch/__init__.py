"""Diagnosis of engine–policy mismatch: stored rollouts are rescored under one possible fault after another.

Recipes import `examination` and `report`; views import `report`, which needs no torch. This room knows no run folder
and no engine.
"""
