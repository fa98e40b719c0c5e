#include "core/sweep/directory/sweep_trial_journal.h"

#include <nlohmann/json.hpp>

#include "core/answer/run/run_directory.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

constexpr size_t kCheckDigits = 16;

constexpr const char* kFile = "memtune journal";
constexpr int kVersion = 1;

std::string check_of(std::string_view record) { return hash_hex(record).substr(0, kCheckDigits); }

// True if the text can be the start of a journal whose first line was truncated or damaged behind its checksum.
bool may_be_ours(const std::string& text) {
  const size_t digits = text.find_first_not_of("0123456789abcdef");
  return digits == std::string::npos ? text.size() <= kCheckDigits : digits == kCheckDigits && text[digits] == ' ';
}

}  // namespace

SweepTrialJournal::SweepTrialJournal(std::filesystem::path path, FileSystem& system)
    : path_(std::move(path)), system_(system) {
  if (std::filesystem::exists(std::filesystem::symlink_status(path_))) read();
}

void SweepTrialJournal::read() {
  const std::string text = read_file(path_, system_);
  size_t good_end = 0;               // end of the last valid line
  std::vector<std::string> damaged;  // numbers of invalid lines since then
  size_t start = 0;
  for (int number = 1; start < text.size(); ++number) {
    const size_t end = text.find('\n', start);
    if (end != std::string::npos && apply(text.substr(start, end - start))) {
      good_end = end + 1;
      for (const std::string& line : damaged)
        notes_.push_back(path_.string() + ": line " + line + " is damaged; skipped");
      damaged.clear();
    } else {
      damaged.push_back(std::to_string(number));
    }
    if (end == std::string::npos) break;
    start = end + 1;
  }
  empty_ = good_end == 0;
  if (empty_ && !text.empty() && !may_be_ours(text))
    throw UsageError("'" + path_.string() +
                     "' is there and no journal of memtune; sweep into another folder with --out");
  if (good_end == text.size()) return;
  cut_file(path_, static_cast<int64_t>(good_end), system_);
  notes_.push_back(path_.string() + ": the end was damaged or cut off; dropped " +
                   std::to_string(text.size() - good_end) + " bytes");
}

bool SweepTrialJournal::apply(const std::string& line) try {
  if (line.size() <= kCheckDigits + 1 || line[kCheckDigits] != ' ') return false;
  const std::string record = line.substr(kCheckDigits + 1);
  if (check_of(record) != line.substr(0, kCheckDigits)) return false;
  const json entry = parse_json(record);
  if (entry.contains("file")) return check_version(entry), true;
  const std::string key = entry.at("key");
  const bool starts = entry.at("event") == "start";
  if (starts && !is_trial_folder(entry.at("folder"))) return false;
  const std::string outcome = starts ? "" : entry.at("outcome").get<std::string>();
  JournaledTrialState known = find(key) ? *find(key) : JournaledTrialState{key, "", "", ""};
  if (starts) known = {key, entry.at("folder"), entry.at("strategy"), ""};
  known.outcome = outcome;
  entries_[key] = known;  // only once the whole line is valid
  return true;
} catch (const json::exception&) {
  return false;
}

void SweepTrialJournal::check_version(const json& first) const {
  const int version = whole_int_at(first, "version");
  if (version <= kVersion) return;
  throw UsageError(path_.string() + " has version " + std::to_string(version) + ", this memtune reads version " +
                   std::to_string(kVersion) +
                   ": go on with the memtune that wrote it, or sweep into another folder with --out");
}

void SweepTrialJournal::append(const std::string& record) {
  const auto line = [](const std::string& text) { return check_of(text) + " " + text + "\n"; };
  const std::string first = empty_ ? line(json{{"file", kFile}, {"version", kVersion}}.dump()) : "";
  append_file(path_, first + line(record), system_);
  empty_ = false;
}

void SweepTrialJournal::start(const std::string& key, const std::string& folder, const std::string& strategy) {
  append(json{{"event", "start"}, {"key", key}, {"folder", folder}, {"strategy", strategy}}.dump());
  entries_[key] = {key, folder, strategy, ""};
}

void SweepTrialJournal::end(const std::string& key, const std::string& outcome) {
  append(json{{"event", "end"}, {"key", key}, {"outcome", outcome}}.dump());
  entries_[key].outcome = outcome;
}

const JournaledTrialState* SweepTrialJournal::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace memtune::sweep
