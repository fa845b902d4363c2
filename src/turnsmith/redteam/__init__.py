"""The red team: scripted attackers that want a reward without a fix, and honest patches that look odd."""
