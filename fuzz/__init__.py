"""Bad input for every public function: each call must end in a result or in a TypeError or ValueError that
names the argument. `python -m fuzz` (or `make fuzz`) runs until told to stop, and resumes where it ended.
"""
