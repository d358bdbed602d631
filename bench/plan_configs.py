#!/usr/bin/env python3
"""plan_configs.py PROGRAM [--write FILE.md] - what becomes of the config.json files of models people
use (tests/data/plan_configs).

Each is planned by PROGRAM, and the outcome held against the one that its line expects:

    planned   as a whole
    part      its text part, and the first line says so
    pointed   refused, with the type or the field that is in the way and what to do instead
    refused   refused with the field that is in the way, and nothing to do instead
    either    planned or pointed: types that are being added

Ends with 1 if an outcome is another one, or if the parameters are off by more than 0.5 % from those
that the line has: published, or remembered (the README there says which is which). With --write the
table goes to FILE.md.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "plan_configs"
MOST_ERROR = 0.005
# Words of a refusal that has a next step; of one that says what the type has that is not planned.
NEXT_STEPS = ("plan --from FILE", "without quantization_config")
REASON = " is not planned: "


def planned(program, config):
    """The outcome, the parameters or None, and what was said."""
    run = subprocess.run([program, "plan", "--model", "-", "--inference", "--json"],
                         input=json.dumps(config), capture_output=True, text=True, check=False)
    if run.returncode in (0, 1):
        plan = json.loads(run.stdout)
        is_part = (plan["caution"] or "").startswith("planned: the text part alone")
        return "part" if is_part else "planned", plan["parameters"], plan["caution"]
    said = run.stderr.strip()
    is_named = config.get("model_type", "_class_name") in said or ": expected " in said
    if run.returncode != 3 or not is_named:
        return "wrong", None, said
    return "pointed" if any(step in said for step in NEXT_STEPS) else "refused", None, said


def fault_of(line, outcome, parameters):
    """What is wrong with an outcome, or None."""
    expected = line["expect"]
    if outcome != expected and not (expected == "either" and outcome in ("planned", "pointed")):
        return f"{outcome}, and not {expected}"
    for basis in ("published", "remembered"):
        if basis in line and parameters is not None and \
                abs(parameters / line[basis] - 1) > MOST_ERROR:
            return f"{parameters:,} parameters, {basis} are {line[basis]:,}"
    return None


def compared(results, basis):
    """How many counts were held against that basis, how many are exact, and the largest error."""
    pairs = [(parameters, line[basis]) for line, _, parameters in results
             if basis in line and parameters is not None]
    errors = [abs(parameters / known - 1) for parameters, known in pairs]
    return len(pairs), sum(error == 0 for error in errors), max(errors)


def table(results, reasons):
    """The outcomes in Markdown."""
    counts = collections.Counter(outcome for _, outcome, _ in results)
    yield "# What becomes of the files of models people use"
    yield ""
    yield (f"Written by `bench/plan_configs.py` over the {len(results)} files of "
           "`tests/data/plan_configs`.")
    yield ""
    yield "| outcome | files |"
    yield "|---|---|"
    yield f"| planned | {counts['planned']} |"
    yield f"| text part planned, and said so | {counts['part']} |"
    yield f"| refused by name, with the reason and the next step | {reasons} |"
    yield f"| refused as a type that is not listed, with the next step | {counts['pointed'] - reasons} |"
    yield f"| refused with the field that is in the way, without a next step | {counts['refused']} |"
    yield f"| anything else | {counts['wrong']} |"
    yield ""
    yield "| parameters compared with | counts | exact | largest error |"
    yield "|---|---|---|---|"
    for basis in ("published", "remembered"):
        count, exact, error = compared(results, basis)
        yield f"| {basis} | {count} | {exact} | {100 * error:.2f} % |"
    yield ""
    yield "| model | type | outcome | parameters |"
    yield "|---|---|---|---|"
    for line, outcome, parameters in results:
        shown = f"{parameters:,}" if parameters is not None else ""
        yield f"| {line['name']} | {line['config'].get('model_type', '')} | {outcome} | {shown} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--write", type=pathlib.Path)
    given = parser.parse_args()
    results, faults, reasons = [], 0, 0
    for path in sorted(DATA.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            outcome, parameters, said = planned(given.program, line["config"])
            results.append((line, outcome, parameters))
            reasons += outcome == "pointed" and REASON in said
            fault = fault_of(line, outcome, parameters)
            if fault is not None:
                faults += 1
                print(f"{line['name']}: {fault}\n    {said}")
    if given.write is not None:
        given.write.write_text("\n".join(table(results, reasons)) + "\n", encoding="utf-8")
    print(f"{len(results)} files, {faults} faults")
    return 1 if faults > 0 or len(results) < 140 else 0


if __name__ == "__main__":
    sys.exit(main())
