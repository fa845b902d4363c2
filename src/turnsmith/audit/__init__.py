"""Audits of patches that resolve their tasks: mutated and renamed tests show whether a patch is honest.

`auditor` audits one patch, `screening` selects suspicious patches, `ability` checks if audits can reach a verdict.
`redteam` attacks the grader. Rollouts, qualification and recipes import these modules. The grader's verdict on a patch
does not depend on an audit.
"""
