"""What must come before all other imports of ``python -m steincheck``.

Python imports a package before its ``__main__``: by then nearly all the time of the imports has passed. As
for the console script, Ctrl-C ends it, and no module in the working directory comes before an installed one.
"""

import sys

from steincheck_command import end_at_once_when_interrupted

# while ``python -m module`` finds its module, sys.argv is "-m" and what follows the name of the module
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] == "steincheck":
    end_at_once_when_interrupted()
    if not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
