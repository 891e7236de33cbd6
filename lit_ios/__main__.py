"""`python -m lit_ios` is the program, too.

Python looks for modules in the current folder first, which may be a stranger's: a file yaml.py
there would be run in place of the package. Here it does not look there, until the program itself
does where classes of a package of the user's own are allowed.
"""

import os.path
import sys

own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not sys.flags.safe_path and os.path.abspath(sys.path[0]) != own:
    sys.path.pop(0)

from lit_ios.program import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
