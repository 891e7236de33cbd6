"""YAML is read as plain values, and no more of them than settings can need."""

import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from repository import ROOT

from lit_ios.yaml_text import DEEPEST, MOST_VALUES, UnreasonableError, check_yaml, load_yaml

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text("abcäß :#-[]{}'\"", max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
@settings(max_examples=200, deadline=None)
def test_what_was_written_is_read_again(value):
    assert load_yaml(yaml.safe_dump(value)) == value


def test_aliases_and_merges_are_obeyed():
    text = "a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: *x"
    assert load_yaml(text) == {"a": {"b": 1}, "c": {"b": 1, "d": 2}, "e": {"b": 1}}


def expanded(node):
    """Count the values of plain ones, shared ones as often as they stand there."""
    if isinstance(node, dict):
        return 1 + sum(expanded(key) + expanded(value) for key, value in node.items())
    return 1 + sum(map(expanded, node)) if isinstance(node, list) else 1


@pytest.mark.parametrize("levels", [3, 5, 6, 7, 8])
def test_values_are_counted_as_often_as_aliases_use_them(levels):
    lines = ["a0: &a0 [x, y]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 6)}]" for i in range(1, levels)]
    text = "\n".join(lines)
    if expanded(yaml.safe_load(text)) > MOST_VALUES:
        with pytest.raises(UnreasonableError, match="more than 50,000 values"):
            check_yaml(text)
    else:
        check_yaml(text)


def test_depth_is_limited_before_it_ends_the_process():
    assert load_yaml("[" * DEEPEST + "]" * DEEPEST) is not None
    with pytest.raises(UnreasonableError, match="more than 50 levels"):
        load_yaml("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000])
def test_process_survives_deep_nesting(text, tmp_path):
    (tmp_path / "deep.yaml").write_text(text)
    code = "from lit_ios.settings import read_settings; read_settings('deep.yaml')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "more than 50 levels" in done.stderr


@pytest.mark.parametrize(
    "text",
    ["a: 2026-02-30", "a: !!int abc", "a: 1" + ":59" * 500, "a: &a [*a]", "? [b]\n: c", "a: *b"],
)
def test_what_cannot_be_read_is_an_error_of_yaml(text):
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
