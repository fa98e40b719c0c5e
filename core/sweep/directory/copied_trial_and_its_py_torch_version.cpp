#include "core/sweep/directory/copied_trial_and_its_py_torch_version.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/file.h"
#include "core/base/torch_version.h"

namespace memtune::sweep {
namespace {

namespace fs = std::filesystem;

// Regular files only: a run folder may come from another person.
template <class Wanted>
void link_files(const fs::path& from, const fs::path& to, const Wanted& wanted) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path target = to / entry.path().filename();
    if (!fs::is_regular_file(entry.symlink_status()) || !wanted(entry.path().filename().string()) ||
        fs::exists(fs::symlink_status(target)))
      continue;
    std::error_code error;
    fs::create_hard_link(entry.path(), target, error);
    if (error) fs::copy_file(entry.path(), target);
  }
}

// Nothing if the run has no trial with that key. A record is large: it is parsed only if it has the key's text.
std::optional<SweepJsonSettingsFactsAndTrials> record_with(const RunDirectory& run, const std::string& key) try {
  if (read_file(run / "sweep.json", run.files()).find(key) == std::string::npos) return {};
  return run.read_record();
} catch (const std::exception&) {
  return {};
}

}  // namespace

std::optional<CopiedTrialAndItsPyTorchVersion> adopt_trial(const RunDirectory& to, std::span<const fs::path> runs,
                                                           SweepTrialEntry spec, const std::string& torch) try {
  for (const fs::path& root : runs) {
    const RunDirectory run(root);
    const std::optional<SweepJsonSettingsFactsAndTrials> record = record_with(run, spec.key);
    if (!record || other_torch_minor(record->origin.torch, torch)) continue;
    const auto found = std::ranges::find(record->trials, spec.key, &SweepTrialEntry::key);
    if (found == record->trials.end() || found->folder.empty()) continue;
    const std::optional<result::TrialMeasurement> measured = run.read_measurement(found->folder);
    if (!measured || measured->outcome != result::TrialOutcome::ok) continue;
    spec.saves = found->saves;
    spec.notes = found->notes;
    spec.folder = to.new_folder(spec);
    make_folders(to / spec.folder, to.files());
    link_files(root / found->folder, to / spec.folder,
               [](const std::string& name) { return name != "measurement.json"; });
    link_files(root, to.root(), [](const std::string& name) { return name.starts_with("reference-"); });
    to.write_measurement(spec.folder, *measured);
    return CopiedTrialAndItsPyTorchVersion{std::move(spec), record->origin.torch};
  }
  return {};
} catch (const std::exception&) {  // then the trial is measured here
  return {};
}

}  // namespace memtune::sweep
