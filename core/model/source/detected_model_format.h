// Detects the kind of a model file from its first bytes and its archive directory. Needs no flags and no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memtune::model {

struct DetectedModelFormat {
  std::vector<std::string> records;  // names in a zip archive, without the common top folder
  std::filesystem::path config;      // path of config.json, for a Hugging Face model
  bool exported = false;             // the file is an archive of torch.export
  std::string unusable_reason;  // why the file is no loadable model ("it is a safetensors file, ..."); "" if it is one

  bool has(const std::string& start) const;  // whether a record name begins with `start`
};

// Reads the file's start and, of an archive, the directory at its end. Never throws: for an unreadable, empty or
// truncated file `unusable_reason` holds the reason.
DetectedModelFormat inspect_model_file(const std::filesystem::path& path);

// Throws UsageError with one line: "cannot use the model 'PATH': WHY".
[[noreturn]] void refuse_model(const std::string& path, const std::string& why);

}  // namespace memtune::model
