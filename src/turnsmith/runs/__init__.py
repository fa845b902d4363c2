"""Run folders on disk: names of all files, journals of trajectories, new folders, temporary folders, software versions.

`folder` is the only module that knows file names of a run. `journal` appends and reads trajectories. `new_folders` creates
folders that appear only when they are complete. `temporary` creates folders that are removed at the end, even after a kill. The
package depends on neither recipes nor configuration.
"""
