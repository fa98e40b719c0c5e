#include "core/sweep/directory/run_folders.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/answer/run/run_directory.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTitle = 40, kHashDigits = 8;

fs::path runs_of(const fs::path& link) { return link.parent_path() / (link.filename().string() + "s"); }

bool is_run(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(fs::symlink_status(folder / "journal.jsonl", none));
}

bool has_answer(const fs::path& folder) try {
  const RunDirectory run(folder);
  const SweepJsonSettingsFactsAndTrials record = run.read_record();
  return std::ranges::any_of(record.trials, [&](const SweepTrialEntry& trial) {
    const auto measured = run.read_measurement(trial.folder);
    return measured && measured->outcome == result::TrialOutcome::ok;
  });
} catch (const std::exception&) {
  return false;
}

void move_earlier_run(const fs::path& from, const fs::path& runs) {
  std::error_code error;
  for (int i = 1;; ++i) {
    const fs::path to = runs / ("earlier-" + std::to_string(i));
    if (fs::exists(fs::symlink_status(to, error))) continue;
    fs::rename(from, to, error);
    if (error) throw_io_error("move", from, error.value());
    return;
  }
}

}  // namespace

fs::path folder_of_question(const fs::path& link, const std::string& title, const nlohmann::json& question) {
  std::string name = dashed(title, kTitle);
  if (!name.empty()) name += "-";
  return runs_of(link) /
         (name +
          hash_hex(question.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).substr(0, kHashDigits));
}

void set_latest(const fs::path& link, const fs::path& folder, bool answered) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(link, error);
  if (fs::is_symlink(there)) {
    if (!answered && has_answer(link)) return;
  } else if (fs::exists(there)) {
    if (!is_run(link))
      throw UsageError("'" + link.string() + "' is in the place of the link to the newest answer, which is in " +
                       folder.string());
    if (!answered) return;
    move_earlier_run(link, folder.parent_path());
  }
  const fs::path aside = link.string() + ".tmp." + std::to_string(::getpid());
  fs::remove(aside, error);
  fs::create_directory_symlink(fs::relative(folder, link.parent_path().empty() ? "." : link.parent_path()), aside,
                               error);
  if (error) throw_io_error("make", aside, error.value());
  fs::rename(aside, link, error);
  if (error) throw_io_error("make", link, error.value());
}

std::vector<fs::path> runs_beside(const fs::path& folder) {
  std::error_code none;
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(folder.parent_path(), none))
    if (entry.path().filename() != folder.filename() && entry.is_directory(none) && !entry.is_symlink(none) &&
        is_run(entry.path()))
      runs.push_back(entry.path());
  std::ranges::sort(runs);
  return runs;
}

}  // namespace memtune::sweep
