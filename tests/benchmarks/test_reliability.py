"""A few trials of each check of `make nightly`."""

import pytest

from benchmarks import reliability
from benchmarks.reliability import CHECKS
from benchmarks.reliability_checks import corruption, crashes
from benchmarks.reliability_checks.outcome import Outcome, count
from lit_ios import checkpoints, seals

FEW = {
    "kills": 2, "kills_other_disk": 2, "kills_while_saving": 5, "terminations": 2, "bit_flips": 200,
    "zeroed_blocks": 30, "truncations": 30, "exported_damage": 200, "disk_errors": 4,
    "simultaneous_starts": 20, "stream_steps": 5000, "joining_paths": 1000, "stream_threads": 4,
    "study_kills": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_a_few_trials_hold_what_is_promised(name):
    found = CHECKS[name].run(FEW[name], 1000)
    assert found.bad == 0, found.note


def test_bit_flips_are_taken_for_whole_where_no_checksum_is_compared(monkeypatch):
    class Same:
        def __eq__(self, other):
            return True

        def encode(self):
            return self

    class Never:
        digest_size = 32

        def hexdigest(self):
            return Same()

    corruption.checkpoint()
    exported = [corruption.exported(ending) for ending in (".onnx", ".pt2")]
    monkeypatch.setattr(seals.hashlib, "sha256", lambda *_: Never())
    assert corruption.bit_flips(100, 0).bad > 0
    assert all(exported)
    assert corruption.exported_damage(100, 0).bad > 0


def test_every_failure_prints_the_seed_that_repeats_it(capsys):
    found = count("kills", range(5, 8), lambda seed: "lost" if seed == 6 else None)
    assert found == (3, 1, "lost")
    assert "kills --trials 1 --seed 6" in capsys.readouterr().err


def test_a_file_that_is_copied_over_the_good_one_is_found_out(monkeypatch):
    def copy_over(content, file, *, durable=True):
        data = checkpoints.sealed(content)
        with open(file, "wb") as stream:
            for at in range(0, len(data), 4096):
                stream.write(data[at : at + 4096])
                stream.flush()

    monkeypatch.setattr(crashes, "write_checkpoint", copy_over)
    assert crashes.kills_while_saving(30, 0).bad > 0


def test_checks_that_went_well_are_not_run_again(monkeypatch, tmp_path, capsys):
    ran = []

    def check(name, bad):
        def run(trials, seed):
            ran.append(name)
            return Outcome(trials, bad, "lost" if bad else "")

        return reliability.Check(run, 7)

    monkeypatch.setattr(reliability, "CHECKS", {"good": check("good", 0), "bad": check("bad", 1)})
    for words in ([], ["--go-on"], ["--go-on", "--trials", "2"]):
        monkeypatch.setattr("sys.argv", ["x", "--file", str(tmp_path / "f.json"), *words])
        assert reliability.main() == 1
    assert ran == ["good", "bad", "bad", "good", "bad"]  # with 2 trials both are to be run
    said = capsys.readouterr().out
    assert "| good | 7 | 0 |" in said
    assert "2 checks in 0.0 min, 1 failed" in said
