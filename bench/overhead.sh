#!/usr/bin/env bash
# What measuring costs: `none` without hooks and profiler against the same with both, in one process, many steps.
# bench/overhead.sh FOLDER [STEPS]; FOLDER holds what bench/run.sh made.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 steps=${2:-40}
memtune=${MEMTUNE:-$here/../build/release/bin/memtune} python=${PYTHON:-python3}
mkdir -p "$out/overhead"
for strategy in none checkpoint:full,inputs=host; do
  "$memtune" sweep --model "$out/model.pt" --inputs "$out/inputs.safetensors" --loss next_token --device cuda -q \
    --steps 1 --strategy $strategy --out "$out/overhead/run" --json "$out/overhead/answer.json" >/dev/null
  request=$(ls -t "$out"/overhead/run/trials/*/request.json | head -1)
  "$python" - "$request" "$steps" <<'P' >"$out/overhead/request.json"
import json, sys
request = json.load(open(sys.argv[1]))
request["training"].update(steps=int(sys.argv[2]), warmup=4, traced_steps=int(sys.argv[2]))
json.dump(request, sys.stdout)
P
  "$(dirname "$memtune")/memtune-trial" run "$out/overhead/request.json" 3>"$out/overhead/frames" >/dev/null
  "$python" - "$out/overhead/frames" <<'P'
import json, sys
m = [json.loads(line) for line in open(sys.argv[1])][-1]["measurement"]
print(f"{m['strategy']}: {len(m['step_ms']['samples'])} steps of {m['step_ms']['median']:.1f} ms; "
      f"with hooks and profiler {100 * m['profiler_overhead']:+.2f} %")
P
done
