"""Run folders on disk: names of all files, journals of trajectories, new folders, temporary folders, software versions.

`folder` is the only module that knows file names of a run. `journal` appends and reads trajectories. `new_folders` and
`temporary` create folders that survive a kill or are removed after it. The package depends on
neither recipes nor configuration.
"""
