"""The red team: scripted attacks on the grader, which must be paid nothing, and odd but honest patches, which must be paid."""
