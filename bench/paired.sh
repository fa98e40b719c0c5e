#!/usr/bin/env bash
# One strategy against its PyTorch counterpart, taking turns: bench/paired.sh FOLDER TIMES STRATEGY EAGER
# FOLDER holds what bench/run.sh made. Step times drift by a few per cent with clocks and heat; turns cancel that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 times=$2 strategy=$3 eager=$4
memtune=${MEMTUNE:-$here/../scripts/memtune} python=${PYTHON:-python3}
median() { "$python" -c "import json,sys; t=json.load(open('$1'))['trials'][0]; print(round(t['step_ms']['median'],1))"; }
for ((i = 1; i <= times; i++)); do
  "$memtune" sweep --model "$out/model.pt" --inputs "$out/inputs.safetensors" --loss next_token --device cuda -q \
    --warmup 4 --steps 16 --strategy "$strategy" --out "$out/paired-$i" --json "$out/paired.json" >/dev/null
  "$python" "$here/eager.py" --strategy "$eager" --steps 16 --json "$out/paired-eager.json" >/dev/null
  echo "turn $i: memtune $strategy $(median "$out/paired.json") ms, eager $eager $(median "$out/paired-eager.json") ms"
done
