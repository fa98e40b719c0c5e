#!/usr/bin/env bash
# memtune beside PyTorch and the trainers' engines on one machine: bench/run.sh PART FOLDER
#
#   memtune   strategies and the plans of plans/            1.1 B decoder, B4 T4096         FOLDER/bench
#   peers     PyTorch, compiled and eager, and trainers     the same                        FOLDER/bench
#   disk      block inputs on disk, beside DISCO            the same                        FOLDER/bench
#   long      one long sequence                             the same decoder, B1 T16384     FOLDER/long
#   second    another kind of model                         vision transformer, 0.63 B      FOLDER/vit
#   experts   and a third                                   mixture of experts, 0.91 B      FOLDER/moe
#   scaling   sequence and depth                            smaller decoders                FOLDER/scaling
#   states    saving the training state                     the first decoder               FOLDER/states
#   qlora     an adapter over 4 bits, on 24 GiB             Llama 3.1 8B, B1 T4096          FOLDER/qlora
#   context   logits whole, in chunks, or never             Llama 3.2 1B, B1 T32768         FOLDER/context
#   commands  training scripts beside their own clocks      commands/*.py, 0.9 B            FOLDER/commands
#   ranks     two GPUs under FSDP2, likewise                commands/fsdp2.py               FOLDER/commands
#   readme    what README quotes of one GPU, in one call    the first decoder               FOLDER/bench
#   all       memtune, peers and disk
#
# A part writes JSON into its folder and prints the table of all that lies there. MEMTUNE names the tool (default:
# scripts/memtune), PYTHON a Python with torch 2.11 (default: python3), SCRATCH where disks are tried (default: FOLDER).
# STEPS is how many are timed (default: 8). The trainers' packages are found on PYTHONPATH (peers.py says which); those
# that are missing are said to be. DEVICE=cpu runs a part with a tiny model, to see that it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
part=${1:?"which part?"} out=${2:?"which folder?"}
memtune=${MEMTUNE:-$here/../scripts/memtune} python=${PYTHON:-python3} scratch=${SCRATCH:-$out} device=${DEVICE:-cuda}
common=(none checkpoint:cheap checkpoint:op checkpoint:full 'checkpoint:full,inputs=host' offload:stream)
plans=()
declare -A tiny=([bench]=tiny [vit]=vit_tiny [moe]=moe_tiny)
for plan in "$here"/plans/*.json; do plans+=(--plan "$plan"); done
trainers=(torchtune torchtune+full trl trl+full axolotl-sac axolotl-hidden axolotl-alst swift swift+full)

setting() {  # CASE MODEL BATCH LENGTH LOSS
  folder=$out/$1 loss=$5
  size=(--model "$2" --batch "$3" --length "$4")
  if [[ $device == cpu ]]; then size=(--model "${tiny[$2]}" --device cpu --dtype fp32) plans=(); fi
  mkdir -p "$folder"
  [[ -e $folder/model.pt ]] || "$python" "$here/eager.py" --export "$folder/model.pt" "${size[@]}"
}

sweep() {  # NAME FLAGS... -- STRATEGY...
  local name=$1 flags=() strategies=()
  shift
  while [[ $1 != -- ]]; do flags+=("$1"); shift; done
  for strategy in "${@:2}"; do strategies+=(--strategy "$strategy"); done
  "$memtune" sweep --model "$folder/model.pt" --inputs "$folder/inputs.safetensors" --loss "$loss" --device "$device" \
    --warmup 4 --steps "${STEPS:-8}" --out "$folder/run-$name" --json "$folder/$name.json" "${flags[@]}" "${strategies[@]}"
}

eager() {  # NAME FLAGS... ; what fails is in the table
  "$python" "$here/eager.py" --weights "$folder/model.pt" "${size[@]}" --json "$folder/$1.jsonl" "${@:2}" || :
}

table() { "$python" "$here/compare.py" "$folder" | tee "$folder/table.md"; }
decoder() { setting bench bench 4 4096 next_token; }

memtune_part() {
  decoder
  sweep memtune "${plans[@]}" -- "${common[@]}" checkpoint:every=2
  table
}

peers_part() {
  decoder
  eager peers --strategy none full every2 op op-matmul compile compile-0.5 compile-0.1
  eager trainers --gradients --strategy "${trainers[@]}"
  table
}

# One sweep as README shows it, plans and every fixed strategy at four budgets, and the others' engines.
readme_part() {
  decoder
  (cd "$folder" && "$memtune" sweep --model model.pt --inputs inputs.safetensors --loss next_token --budget 16GiB \
    --out run-sweep --json sweep.json >sweep.txt) || :
  "$python" "$here/budgets.py" "$out" bench --memtune "$memtune" --device "$device" --warmup 3 --steps "${STEPS:-6}" \
    --budgets 30 24 20 16
  STEPS=${STEPS:-6} eager peers --strategy none full every2 op op-matmul torchtune+full trl+full axolotl-sac axolotl-hidden \
    swift+full compile compile-0.5 compile-0.1
}

disk_part() {
  decoder
  "$memtune" doctor --device "$device" --scratch "$scratch" | tee "$folder/doctor.txt"  # what the disk does by itself
  for budget in 2GiB 64MiB; do
    sweep "disk-$budget" --host-budget $budget --scratch "$scratch" -- none 'checkpoint:full,inputs=disk'
  done
  eager disk --scratch "$scratch" --strategy axolotl-disco
  table
}

long_part() {
  setting long bench 1 16384 next_token
  sweep memtune "${plans[@]}" -- "${common[@]}"
  eager peers --strategy none full op op-matmul compile-0.1 torchtune+full trl+full axolotl-sac swift+full
  table
}

other_part() {  # CASE MODEL BATCH LENGTH LOSS
  setting "$@"
  sweep memtune -- "${common[@]}"
  eager peers --strategy none full op op-matmul compile-0.1 torchtune+full trl+full axolotl-sac swift+full
  table
}

config() {  # CASE NAME ; from its config alone: memtune draws the weights
  folder=$out/$1
  mkdir -p "$folder"
  model=(--model "$here/configs/$2" --device "$device" --steps "${STEPS:-4}" --warmup 3 --rounds 1)
}

qlora_part() {  # the whole card first, then what is left of it
  config qlora llama-3.1-8b
  size=(--batch 1 --seq "${LENGTH:-4096}" --autocast bf16 --load-in 4bit --lora 'r=16,alpha=32,dropout=0.05')
  "$memtune" sweep "${model[@]}" "${size[@]}" --strategy none --strategy checkpoint:full \
    --out "$folder/run-whole" --json "$folder/whole.json"
  "$memtune" sweep "${model[@]}" "${size[@]}" --memory-cap 24GiB --out "$folder/run-24GiB" --json "$folder/24GiB.json"
}

context_part() {
  config context llama-3.2-1b
  for how in plain chunked=8 fused; do
    "$memtune" sweep "${model[@]}" --batch 1 --seq "${LENGTH:-32768}" --loss-impl $how --strategy checkpoint:full \
      --strategy 'checkpoint:full,inputs=host' --out "$folder/run-$how" --json "$folder/$how.json"
  done
}

commands_part() {  # every memory setting of a trainer, beside the scripts' own clocks; then the best one by hand
  local name trainer script
  for name in ${COMMANDS:-hf_trainer.yaml trl_sft.yaml trl_sft_lora.yaml torchtune_loop.yaml axolotl_sft.yml}; do
    case $name in
      hf_trainer.*) trainer=transformers script=hf_trainer ;;
      trl_sft*) trainer=trl script=trl_sft ;;
      torchtune_loop.*) trainer=torchtune script=torchtune_loop ;;
      axolotl_sft.*) trainer=axolotl script=axolotl_sft ;;
    esac
    command_sweep "${name%.*}" --trainer $trainer --config "$here/commands/$name" -- \
      "$python" "$here/commands/$script.py" '{config}'
  done
}

ranks_part() {
  command_sweep fsdp2 --try 'how=;--checkpoint;--no-reshard' -- "$python" -m torch.distributed.run --nproc-per-node 2 \
    "$here/commands/fsdp2.py" '{how}'
}

command_sweep() {  # NAME FLAGS... -- COMMAND...
  folder=$out/commands/$1
  mkdir -p "$folder"
  (cd "$folder" && "$memtune" sweep --steps "${STEPS:-5}" --warmup 3 --rounds 1 ${LIMIT:+--time-limit $LIMIT} --out sweep \
    --json sweep.json "${@:2}" && "$python" "$here/commands/check.py" sweep sweep.json --hand | tee table.md)
}

case $part in
  memtune | peers | readme | disk | long | qlora | context | commands | ranks) "${part}_part" ;;
  second) other_part vit vit 128 224 cross_entropy ;;
  experts) other_part moe moe 4 4096 next_token ;;
  scaling) MEMTUNE=$memtune "$python" "$here/scaling.py" "$out/scaling" | tee "$out/scaling.md" ;;
  states) MEMTUNE=$memtune "$python" "$here/training_state.py" "$out/states" --device "$device" ;;
  all) for part in memtune peers disk; do "$0" "$part" "$out"; done ;;
  *) echo "bench/run.sh: no part '$part': memtune, peers, readme, disk, long, second, experts, scaling, states, qlora, context, commands, ranks or all" >&2; exit 2 ;;
esac
