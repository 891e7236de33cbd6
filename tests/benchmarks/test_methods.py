"""The rows of the tables: the paper's variants as the settings files declare them."""

from repository import ROOT

from benchmarks.methods import AUTO, METHODS, VARIANTS
from benchmarks.published import BALANCED_ACCURACY


def first_comment(name):
    line = (ROOT / f"configs/model/{name}.yaml").read_text().splitlines()[0]
    return line.removeprefix("# ").split(":")[0]


def test_variants_are_those_of_the_papers_table_in_its_order():
    assert list(VARIANTS) == list(BALANCED_ACCURACY)


def test_variants_have_the_labels_of_their_settings_files():
    assert {n: m.label for n, m in VARIANTS.items()} == {n: first_comment(n) for n in VARIANTS}
    assert METHODS["iqs_folds"].label == first_comment("iqs_folds") == "IQS-folds"


def test_every_method_has_a_settings_file():
    files = {path.stem for path in (ROOT / "configs/model").glob("*.yaml")}
    assert {method.file for method in METHODS.values()} <= files | {AUTO}
