#include "core/engine/state/load.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/engine/state/streaming_tensor_and_file_checksums.h"
#include "core/model/safetensors/reader.h"

namespace memtune::state {
namespace {

using safetensors::TensorEntry;

StateManifest read_manifest(const SavedStatesFolder& folder, int64_t step) {
  StateManifest manifest = parse_manifest(read_file(folder.path(step) / kManifest, folder.files()));
  if (manifest.step != step) throw DamagedSavedStateError("its manifest is of step " + std::to_string(manifest.step));
  check_whole(manifest);
  return manifest;
}

safetensors::Reader open(const std::filesystem::path& path, FileSystem& system) try {
  return safetensors::Reader(path, system);
} catch (const UsageError& why) {
  throw DamagedSavedStateError(why.what());
}

// One file of a state, and its description in the manifest.
class DataFile {
 public:
  DataFile(const SavedStatesFolder& folder, const StateManifest& manifest, size_t index)
      : said_(manifest.files[index]), reader_(open(folder.path(manifest.step) / said_.name, folder.files())) {
    if (reader_.bytes() != said_.bytes)
      throw DamagedSavedStateError(said_.name + " has " + std::to_string(reader_.bytes()) + " bytes, not " +
                                   std::to_string(said_.bytes));
    std::map<std::string_view, const ManifestTensorEntry*> said;
    for (const ManifestTensorEntry& tensor : manifest.tensors)
      if (tensor.file == index) said[tensor.name] = &tensor;
    for (const TensorEntry& entry : reader_.entries()) tensors_.push_back(said[entry.name]);
    if (said.size() != tensors_.size() || !std::ranges::equal(reader_.entries(), tensors_, is_same))
      throw DamagedSavedStateError(said_.name + " has other tensors");
  }

  void read(const SavedStateLoadCallbacks& receiver, std::vector<char>& bytes) const {
    StreamingTensorAndFileChecksums checksums(reader_.entries(), reader_.head());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      bytes.resize(static_cast<size_t>(reader_.entries()[i].bytes()));
      reader_.read(reader_.entries()[i], bytes.data());
      checksums.add(bytes.data(), reader_.entries()[i].bytes());
      if (checksums.tensors().at(i) != tensors_[i]->hash)
        throw DamagedSavedStateError("'" + tensors_[i]->name + "' in " + said_.name + " was changed");
      if (receiver.take) receiver.take(*tensors_[i], bytes);
    }
    if (checksums.file() != said_.hash) throw DamagedSavedStateError(said_.name + " was changed");
  }

 private:
  static bool is_same(const TensorEntry& entry, const ManifestTensorEntry* tensor) {
    return tensor && entry.dtype == tensor->dtype && entry.shape == tensor->shape;
  }

  const ManifestFileEntry& said_;
  safetensors::Reader reader_;
  std::vector<const ManifestTensorEntry*>
      tensors_;  // in the order of the file, which is arbitrary for tensors without bytes
};

void read(const SavedStatesFolder& folder, int64_t step, const SavedStateLoadCallbacks& receiver) {
  const StateManifest manifest = read_manifest(folder, step);
  std::vector<DataFile> files;
  files.reserve(manifest.files.size());
  for (size_t i = 0; i < manifest.files.size(); ++i) files.emplace_back(folder, manifest, i);
  if (receiver.begin) receiver.begin(manifest);
  std::vector<char> bytes;
  for (const DataFile& file : files) file.read(receiver, bytes);
}

// Why it cannot be used; "" if it is intact.
std::string fault_of(const SavedStatesFolder& folder, int64_t step) try {
  read(folder, step, {});
  return "";
} catch (const DamagedSavedStateError& why) {
  return why.what();
} catch (const IoError& why) {
  return why.what();
}

// "; the newest that is whole is of step 2"
std::string way_out(const SavedStatesFolder& folder, int64_t refused) {
  std::vector<int64_t> steps = folder.steps();
  std::ranges::reverse(steps);
  for (const int64_t step : steps)
    if (step != refused && fault_of(folder, step).empty())
      return "; the newest that is whole is of step " + std::to_string(step);
  return "; no other is whole";
}

[[noreturn]] void refuse(const SavedStatesFolder& folder, int64_t step, const std::string& why) {
  throw DamagedSavedStateError("'" + folder.path(step).string() + "' cannot be used: " + why + way_out(folder, step));
}

int64_t choose(const SavedStatesFolder& folder, std::optional<int64_t> step) {
  const std::vector<int64_t> steps = folder.steps();
  if (steps.empty()) throw UsageError("there is no saved state in '" + folder.root().string() + "'");
  if (!step) return steps.back();
  if (std::ranges::find(steps, *step) != steps.end()) return *step;
  std::vector<std::string> known;
  for (const int64_t there : steps) known.push_back(std::to_string(there));
  throw UsageError("there is no saved state of step " + std::to_string(*step) + " in '" + folder.root().string() +
                   "'; there are those of " + join(known, ", "));
}

}  // namespace

int64_t load(const SavedStatesFolder& folder, std::optional<int64_t> step, const SavedStateLoadCallbacks& receiver) {
  const int64_t chosen = choose(folder, step);
  try {
    read(folder, chosen, receiver);
  } catch (const DamagedSavedStateError& why) {
    refuse(folder, chosen, why.what());
  } catch (const IoError& why) {
    refuse(folder, chosen, why.what());
  }
  return chosen;
}

}  // namespace memtune::state
