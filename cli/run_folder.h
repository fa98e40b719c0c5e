// The folder of a run: that of --out, else one for this question alone, to which the default folder is a link once the
// question is answered (core/sweep/directory/run_folders.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/model_flags.h"

namespace memtune::cli {

class RunFolder {
 public:
  RunFolder() = default;
  // `title`: the start of the folder's name. `question`: all that determines the answer.
  RunFolder(const ModelFlags& flags, const std::string& title, const nlohmann::json& question);

  const std::string& path() const { return path_; }
  // Sets the folder and the runs beside it.
  void place(sweep::CommonSweepSettings& settings) const;
  // To be called when a trial starts: if nothing is in the link's place, it leads to this run, which may be killed.
  void begin() const;
  // To be called when the run has ended.
  void finish(const report::Report& report, const ConsoleFlags& console);
  // The path by which the answer is read, once finish() was called with one: the link, or that of --out.
  const std::string& shown() const { return link_.empty() ? path_ : link_; }
  // The argument with which other commands read it: "" if their default is that path, else " DIR".
  std::string argument() const;

 private:
  std::string link_, path_;  // link_ is "" with --out
};

// What determines the answer about a model. `plans`: files with plans of the user.
nlohmann::json question_of(const sweep::EngineSweepSettings& settings, const std::vector<std::string>& plans);
// The name of a command in a folder's name: its script, else its program.
std::string title_of(const std::vector<std::string>& command);

}  // namespace memtune::cli
