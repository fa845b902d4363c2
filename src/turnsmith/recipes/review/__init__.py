"""Reviews of a finished run: audits of its patches, provenance of its samples, and mismatch of engine and trainer.

Each module is one review, and each is one command. Commands and other recipes import these modules. A review reads a
run folder and adds its result to it. It never trains.
"""
