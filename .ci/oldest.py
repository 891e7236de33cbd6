"""Print the oldest versions that pyproject.toml allows, as constraints for pip.

python .ci/oldest.py torch==2.13.0    but this version of this one
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
given = dict(words.split("==") for words in sys.argv[1:])
for line in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
    name, bound = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+).*", line).groups()
    print(f"{name}=={given.pop(name, bound)}")
if given:
    sys.exit(f"pyproject.toml does not name {', '.join(given)}")
