"""Reviews of a finished run: audits of patches, provenance of samples, and mismatch of engine and trainer.

Each module implements one review and one command. Commands and other recipes import these modules. A review reads a
run folder, and may store its result there. It never trains.
"""
