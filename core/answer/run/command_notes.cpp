#include "core/answer/run/command_notes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"
#include "core/base/json.h"

namespace memtune::sweep {
namespace {

// "" if the request cannot be read.
std::string command_of(const RunDirectory& directory, const result::TrialResultRow& row) try {
  const std::filesystem::path folder = std::filesystem::path(row.measurement.plan).parent_path();
  if (folder.empty()) return "";
  return parse_json(read_file(directory / folder / "request.json", directory.files())).value("command", "");
} catch (const std::exception&) {
  return "";
}

}  // namespace

void add_command_notes(const RunDirectory& directory, report::Report& report) {
  std::map<std::string, size_t> trials;
  for (const result::TrialResultRow& row : report.rows) ++trials[command_of(directory, row)];
  trials.erase("");
  if (trials.empty()) return;
  if (report.origin.command.empty()) {
    report.origin.command = std::ranges::max_element(trials, {}, [](const auto& each) { return each.second; })->first;
    report.origin.written = "";
  }
  for (const auto& [command, count] : trials)
    if (command != report.origin.command)
      report.notes.push_back(std::to_string(count) + " of " + std::to_string(report.rows.size()) +
                             (count == 1 ? " trials was" : " trials were") +
                             " measured by another command: " + command);
}

}  // namespace memtune::sweep
