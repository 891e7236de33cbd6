"""Whether the packages beside lit_ios are this program's own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from lit_ios.checks import UserError

BESIDE = {"callbacks": "run_folder.py", "datamodules": "declared.py"}  # with a file of each


def check_packages() -> None:
    """Refuse packages of these names that are somebody else's."""
    for name in BESIDE:
        spec = find_spec(name)
        if spec is None:
            check_package(name, None)
        else:
            place = next(iter(spec.submodule_search_locations or []), spec.origin)
            check_package(name, Path(place or ""))


def check_package(name: str, found: Path | None) -> None:
    """Refuse a package that is not the one beside lit_ios.

    Args:
        name: of the package.
        found: the folder, or file, it would be imported from.
    """
    own = Path(__file__).resolve().parents[2] / name
    if found is None or not (own / BESIDE[name]).is_file():
        where = "" if found is None else f": {found} belongs to another program"
        raise UserError(
            f"the package {name} of lit-ios is not installed{where}: install lit-ios again, in an "
            "environment of its own"
        )
    if found.resolve() != own:
        raise UserError(
            f"{found} is imported in place of the package {name} of lit-ios: run from another "
            "folder, or rename it"
        )
