"""Print the oldest versions that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for line in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
    name, bound = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+).*", line).groups()
    print(f"{name}=={bound}")
