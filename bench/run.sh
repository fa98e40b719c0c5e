#!/usr/bin/env bash
# The whole comparison on one machine: bench/run.sh FOLDER [MODEL [BATCH [LENGTH]]]
# Writes model, both JSON files and the table into FOLDER. MEMTUNE names the tool (default: scripts/memtune),
# PYTHON a Python with torch 2.11 (default: python3).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1 model=${2:-bench} batch=${3:-4} length=${4:-4096}
memtune=${MEMTUNE:-$here/../scripts/memtune} python=${PYTHON:-python3}
mkdir -p "$out"

"$python" "$here/eager.py" --export "$out/model.pt" --model "$model" --batch "$batch" --length "$length"
strategies=()
for s in none checkpoint:full checkpoint:every=2 checkpoint:op checkpoint:full,inputs=host offload:sync offload:stream; do
  strategies+=(--strategy "$s")
done
"$memtune" sweep --model "$out/model.pt" --inputs "$out/inputs.safetensors" --loss next_token --device cuda \
  --warmup 4 --steps 8 --out "$out/run" --json "$out/memtune.json" "${strategies[@]}"
"$python" "$here/eager.py" --model "$model" --batch "$batch" --length "$length" --json "$out/eager.json"
"$python" "$here/compare.py" "$out/memtune.json" "$out/eager.json" | tee "$out/table.md"
