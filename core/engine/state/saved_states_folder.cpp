#include "core/engine/state/saved_states_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "core/base/file.h"

namespace memtune::state {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr size_t kDigits = 8;

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && folder_name(step) == name ? std::optional(step) : std::nullopt;
}

// While being written, a file is NAME.tmp.PROCESS.NUMBER.
std::string without_aside(const std::string& name) { return name.substr(0, name.find(".tmp.")); }

bool has_digits_at(std::string_view text, size_t begin) {
  return text.size() >= begin + 5 && text.substr(begin, 5).find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_part_file(const std::string& name) {
  constexpr size_t kNumber = 6;  // after "shard-"
  return name.size() == kNumber + 5 + 5 && name.starts_with("shard-") && has_digits_at(name, kNumber) &&
         name.ends_with(".json");
}

bool is_own(const std::string& name) {
  const std::string whole = without_aside(name);
  return whole == kManifest || is_data_file(whole) || is_part_file(whole);
}

std::string five_digits(int number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

// A folder with foreign files in it is kept.
void check_removal(int result, const fs::path& path) {
  if (result < 0 && result != -ENOENT && result != -ENOTEMPTY) throw_io_error("remove", path, -result);
}

}  // namespace

bool is_data_file(const std::string& name) {
  constexpr std::string_view kForm = "shard-00001-model-00001-of-00001.safetensors";
  if (name.size() != kForm.size()) return false;
  std::string form = name;
  for (const size_t begin : {6, 18, 27}) {
    if (!has_digits_at(name, begin)) return false;
    form.replace(begin, 5, kForm.substr(begin, 5));
  }
  return form == kForm;
}

std::string data_file(int rank) { return "shard-" + five_digits(rank + 1) + "-model-00001-of-00001.safetensors"; }

std::string part_file(int rank) { return "shard-" + five_digits(rank + 1) + ".json"; }

std::string folder_name(int64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

SavedStatesFolder::SavedStatesFolder(const fs::path& run, disk::AsyncDirectIoFileSystem& below)
    : root_(run / "states"), disk_(below), files_(run, below) {}

void SavedStatesFolder::make() {
  make_folders(root_, files_);
  sync_folder(root_.parent_path(), files_);
}

std::vector<std::string> SavedStatesFolder::names() const {
  const FileDescriptor there(files_.open(root_, O_RDONLY | O_DIRECTORY, 0));
  if (there.get() == -ENOENT) return {};
  return names_in(root_, files_);
}

// A link or a file in the folder's place counts as a state, so that loading it reports the problem.
bool SavedStatesFolder::has_manifest(const std::string& name) const {
  return FileDescriptor(files_.open(root_ / name / kManifest, O_RDONLY, 0)).get() != -ENOENT;
}

std::vector<int64_t> SavedStatesFolder::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names())
    if (const auto step = step_of(name); step && has_manifest(name)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

void SavedStatesFolder::remove(int64_t step) {
  const fs::path folder = path(step);
  const std::vector<std::string> inside = names_in(folder, files_);  // throws for links
  check_removal(files_.unlink(folder / kManifest), folder / kManifest);
  sync_folder(folder, files_);  // otherwise its data could be gone and its manifest still exist
  for (const std::string& name : inside)
    if (name != kManifest && is_own(name)) check_removal(files_.unlink(folder / name), folder / name);
  check_removal(files_.remove_folder(folder), folder);
}

void SavedStatesFolder::remove_remains(int64_t end) {
  for (const std::string& name : names()) {
    if (const auto step = step_of(name); step && *step < end && !has_manifest(name)) remove(*step);
    if (name != kLatest && without_aside(name) == kLatest) check_removal(files_.unlink(root_ / name), root_ / name);
  }
}

void SavedStatesFolder::keep_last(int64_t count) {
  const std::vector<int64_t> there = steps();
  if (count <= 0) return;
  for (size_t i = 0; i + static_cast<size_t>(count) < there.size(); ++i) remove(there[i]);
}

}  // namespace memtune::state
