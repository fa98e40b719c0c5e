// The variants that a sweep of a training command tries: one for each combination of values, or one for each
// configuration of its trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::sweep {

inline constexpr const char* kConfigPlaceholder = "config";  // {config}: the path of its file
inline constexpr const char* kFolderPlaceholder = "folder";  // {folder}: an empty folder for each start
inline constexpr const char* kPlanFile = "memtune_plan.py";
inline constexpr const char* kArgumentsWord = "{args}";  // the trainer's settings as arguments, one word each

struct CommandVariant {
  std::string name;
  std::vector<std::string> command;     // program and arguments; after expand(), a mark stands for the path of its file
  std::string file_name, file_text;     // of a file in the trial's folder; "": it has none
  std::string own = {};                 // for trainers: name of the variant with the user's settings, maybe this one
  std::vector<std::string> parts = {};  // for combinations: a variant for each of its changes; some may not exist
  std::string like = {};                // the most similar of memtune's own strategies; "": none is known
  bool planned = false;                 // it runs under a Python plan, kPlanFile in the trial's folder
  std::string plan_text = {};           // content of that file
  std::string training = {};            // its values that may change the training: "seq=512"; "": none
};

struct SkippedCommandVariant {
  std::string name, reason;
};

// Stored in sweep.json.
struct CommandSweepSettingsAndVariants {
  std::vector<std::string> command;      // as typed, with its placeholders
  std::string trainer;                   // "": none
  std::vector<CommandVariant> variants;  // the first is the baseline
  std::vector<SkippedCommandVariant> skipped;
  int warmup = 2, steps = 5;
  int64_t memory_cap_bytes = 0;         // PyTorch's limit on the device; 0: none
  std::string native = {};              // folder, in this sweep's, of the native sweep that chose among them; "": none
  std::string no_plan = {};             // why no variant runs under a plan, if one was looked for
  std::vector<std::string> notes = {};  // for the user
};
void to_json(nlohmann::json& json, const CommandSweepSettingsAndVariants& sweep);  // leaves out the content of files
void from_json(const nlohmann::json& json, CommandSweepSettingsAndVariants& sweep);

// An axis of --try, "batch=4;8": a placeholder and the values for it.
struct CommandPlaceholderSweepAxis {
  std::string name;
  std::vector<std::string> values;
  bool changes_training = false;  // --allow: losses of different values are not compared
};
CommandPlaceholderSweepAxis parse_axis(const std::string& text);  // throws UsageError

// Combines each of `variants` with all combinations of values, the first value of each axis first. "a=1, b=2" is
// appended to the name. A word that becomes empty is dropped. ${NAME} belongs to the shell and is no placeholder.
// {folder} needs no axis. Throws UsageError for a placeholder without an axis, an axis without a placeholder, two
// variants of one name, or too many variants.
std::vector<CommandVariant> expand(const std::vector<CommandVariant>& variants,
                                   const std::vector<CommandPlaceholderSweepAxis>& axes);

// True if one of the words contains {NAME}.
bool has_placeholder(const std::vector<std::string>& command, const std::string& name);

// Path of its file in a trial's folder. A subfolder keeps it apart from memtune's files, which may have the same names.
std::filesystem::path config_file(const CommandVariant& variant);

// Words of a variant that expand() made, with the path of its file in `folder` inserted, and `own_folder` for {folder}.
std::vector<std::string> with_paths(const CommandVariant& variant, const std::string& folder,
                                    const std::string& own_folder = "{folder}");

}  // namespace memtune::sweep
