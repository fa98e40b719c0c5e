// Folders of runs for which no folder was named. Each question (model or command, training, strategies, budget) has a
// folder of its own, and a link leads to the newest answer:
//
//   memtune-runs/llama-1b-3f2a9c01/
//   memtune-runs/train-py-77b0c2d4/
//   memtune-run -> memtune-runs/train-py-77b0c2d4
//
// So another question, a failed one or a mistyped one does not replace an answer.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::sweep {

// Folder of a question; the same question has the same folder. `link`: "./memtune-run". `title`: the start of its name.
std::filesystem::path folder_of_question(const std::filesystem::path& link, const std::string& title,
                                         const nlohmann::json& question);

// Makes `link` lead to `folder`, unless the run there has no answer and the link leads to one that has. A run of an
// earlier memtune that is in the link's place moves beside `folder`. Throws UsageError if another folder or file is
// there, IoError.
void set_latest(const std::filesystem::path& link, const std::filesystem::path& folder, bool answered);

// The other folders with a run beside `folder`.
std::vector<std::filesystem::path> runs_beside(const std::filesystem::path& folder);

}  // namespace memtune::sweep
