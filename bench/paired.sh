#!/usr/bin/env bash
# One strategy against its PyTorch counterpart, taking turns: bench/paired.sh FOLDER TIMES STRATEGY EAGER
# FOLDER holds what bench/run.sh made. Step times drift by a few per cent with clocks and heat; turns cancel that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 paired=$1/paired times=$2 strategy=$3 eager=$4
memtune=${MEMTUNE:-$here/../scripts/memtune} python=${PYTHON:-python3}
median() {  # FILE: of memtune, or of eager.py, which has one line
  "$python" -c "import json; t = json.load(open('$1')); print(round(t.get('trials', [t])[0]['step_ms']['median'], 1))"
}
mkdir -p "$paired"
for ((i = 1; i <= times; i++)); do
  "$memtune" sweep --model "$out/model.pt" --inputs "$out/inputs.safetensors" --loss next_token --device cuda -q \
    --warmup 4 --steps 16 --strategy "$strategy" --out "$paired/run-$i" --json "$paired/memtune.json" >/dev/null
  "$python" "$here/eager.py" --strategy "$eager" --weights "$out/model.pt" --steps 16 --json "$paired/eager.jsonl" \
    >/dev/null
  echo "turn $i: memtune $strategy $(median "$paired/memtune.json") ms, eager $eager $(median "$paired/eager.jsonl") ms"
done
