"""Reads the objects of scripts/exercise.sh --json, a line for each file, and writes the results.json of Gradescope."""
import json
import sys

tests = []
for line in sys.stdin:
    report = json.loads(line)
    checks = ["{state:8} {name}".format(**check) for check in report["checks"]]
    wrong = [check["sentence"] for check in report["checks"][1:] if check["state"] in ("WRONG", "STOPPED", "ENDLESS")]
    tests.append({
        "name": "exercise {exercise}, {name}: {status}".format(**report),
        "score": report["marks"],
        "max_score": report["max"],
        "output": "\n\n".join(filter(None, [report["summary"], "\n".join(checks), wrong[0] if wrong else ""])),
    })
if tests:
    json.dump({"tests": tests}, sys.stdout)
else:
    json.dump({"score": 0, "output": "The submission has no file of an exercise, such as 4_softmax.c."}, sys.stdout)
