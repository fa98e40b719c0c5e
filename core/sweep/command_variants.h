// What a sweep of a training command tries: the command once for each combination of values, or once for each
// configuration of its trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::sweep {

inline constexpr const char* kConfigPlaceholder = "config";  // {config}: where its file is
inline constexpr const char* kPlanFile = "memtune_plan.py";
inline constexpr const char* kArgumentsWord = "{args}";  // its arguments, a word each

struct CommandVariant {
  std::string name;
  std::vector<std::string> command;     // program and arguments; of expand(), a mark stands for the path of its file
  std::string file_name, file_text;     // written into the trial's folder; "": it has none
  std::string own = {};                 // of a trainer's: the variant as the user has it, which may be this one
  std::vector<std::string> parts = {};  // of a combination what makes one of its changes each; not all are variants
  std::string like = {};                // memtune's own strategy that does nearly the same; "": none is known
  bool planned = false;                 // it is run under a plan in Python, kPlanFile of its trial's folder
  std::string plan_text = {};           // which is that
};

struct SkippedVariant {
  std::string name, reason;
};

// Of sweep.json.
struct CommandSweep {
  std::vector<std::string> command;      // as it was typed, with its placeholders
  std::string trainer;                   // "": none
  std::vector<CommandVariant> variants;  // first: what the others are compared with
  std::vector<SkippedVariant> skipped;
  int warmup = 2, steps = 5;
  int64_t memory_cap_bytes = 0;  // of the device, PyTorch's own limit; 0: none
  std::string native = {};       // folder of the sweep of memtune's own that chose among them, in this one's; "": none
  std::string no_plan = {};      // why none of them is run under a plan, where one was looked for
  std::vector<std::string> notes = {};  // for people
};
void to_json(nlohmann::json& json, const CommandSweep& sweep);  // without the texts of files
void from_json(const nlohmann::json& json, CommandSweep& sweep);

// "batch=4;8": a placeholder and what it stands for in turn.
struct VariantAxis {
  std::string name;
  std::vector<std::string> values;
};
VariantAxis parse_axis(const std::string& text);  // UsageError

// Each of `variants` with each combination of values, the first of every axis first, named "a=1, b=2" behind its own
// name. A word that is nothing but a placeholder for "" goes. UsageError for a placeholder in the commands without an
// axis, an axis that no command has, two variants of one name, and more of them than anybody waits for. ${NAME} is a
// shell's, and no placeholder.
std::vector<CommandVariant> expand(const std::vector<CommandVariant>& variants, const std::vector<VariantAxis>& axes);

// {NAME} stands in one of its words.
bool has_placeholder(const std::vector<std::string>& command, const std::string& name);

// Where its file lies in a trial's folder: apart from memtune's own, whose names it may have.
std::filesystem::path config_file(const CommandVariant& variant);

// The words of one that expand() made, with its file where it lies in `folder`.
std::vector<std::string> with_config(const CommandVariant& variant, const std::string& folder);

}  // namespace memtune::sweep
