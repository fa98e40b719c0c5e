// Records in the format of the shim, for tests without Python.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/run_program.h"

namespace memtune::tests {

inline constexpr const char* kProcess =
    R"({"record": "process", "pid": 7, "rank": 1, "world": 2, "cuda": false, "device": "", "torch": "2.11", "python": "3.11"})";

inline void add_line(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

// A shell function `train PID RANK WORLD STEPS` with 2 warm-up steps. Step number N takes RANK + N ms.
inline constexpr const char* kTrain = R"(
train() {
  file=$MEMTUNE_ATTACH/$1.jsonl
  echo '{"record": "process", "pid": '$1', "rank": '$2', "world": '$3', "cuda": false, "device": "", "torch": "'${RECORDED_TORCH:-2.11}'", "python": "3.11"}' >$file
  step=1
  while [ $step -le $4 ]; do
    phase=warmup; [ $step -le 2 ] || phase=measured
    echo '{"record": "step", "step": '$step', "phase": "'$phase'", "ms": '$(($2 + $step))', "optimizer_ms": 0.5, "save_ms": 0, "loss": ['$step'.5], "allocated": '$((1000 + $2))', "reserved": '$((2000 + $2))'}' >>$file
    step=$((step + 1))
  done
}
finished() { echo '{"record": "done"}' >>$MEMTUNE_ATTACH/$1.jsonl; }
)";

}  // namespace memtune::tests
