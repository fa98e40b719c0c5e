#include "cli/run_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/shell_line.h"
#include "core/sweep/directory/run_folders.h"

namespace memtune::cli {

namespace fs = std::filesystem;
using nlohmann::json;

RunFolder::RunFolder(const ModelFlags& flags, const std::string& title, const json& question)
    : link_(flags.has_out() ? "" : flags.out), path_(flags.out) {
  if (!link_.empty()) path_ = sweep::folder_of_question(link_, title, question).string();
}

void RunFolder::place(sweep::CommonSweepSettings& settings) const {
  settings.directory = path_;
  if (!link_.empty()) settings.other_runs = sweep::runs_beside(path_);
}

std::string RunFolder::argument() const { return link_.empty() ? " " + shell_line({path_}) : ""; }

void RunFolder::begin() const try {
  if (!link_.empty() && !fs::exists(fs::symlink_status(link_))) sweep::set_latest(link_, path_, false);
} catch (const std::exception&) {  // finish() reports it
}

void RunFolder::finish(const report::Report& report, const ConsoleFlags& console) {
  if (link_.empty()) return;
  std::error_code none;
  if (report.rows.empty()) {
    fs::remove(fs::path(path_).parent_path(), none);  // if nothing is in it
    return;
  }
  try {
    sweep::set_latest(link_, path_, !report.recommendation.strategy.empty());
  } catch (const Error& error) {
    say(console, error.what());
    link_.clear();
  }
}

json question_of(const sweep::EngineSweepSettings& settings, const std::vector<std::string>& plans) {
  json texts = json::array();
  for (const std::string& plan : plans) texts.push_back(read_file(plan));
  return {{"model", settings.model},
          {"request", settings.request},
          {"strategies", settings.strategies},
          {"plans", texts},
          {"batches", settings.batches},
          {"sequences", settings.sequences},
          {"finds_batch", settings.finds_batch},
          {"global_batch", settings.global_batch},
          {"budget_bytes", settings.budget_bytes},
          {"goal", to_string(settings.goal)}};
}

std::string title_of(const std::vector<std::string>& command) {
  for (const std::string& word : command)
    if (word.ends_with(".py")) return fs::path(word).filename().string();
  return command.empty() ? "" : fs::path(command.front()).filename().string();
}

}  // namespace memtune::cli
