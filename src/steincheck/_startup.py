"""Ctrl-C during the imports of ``python -m steincheck`` ends it as it ends the console script.

Python imports a package before its ``__main__``: by then nearly all the time of the imports has passed.
"""

import sys

from steincheck_command import end_at_once_when_interrupted

# while ``python -m module`` finds its module, sys.argv is "-m" and what follows the name of the module
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] == "steincheck":
    end_at_once_when_interrupted()
