// What a file that is given as the model is, told from the outside: before any flag is asked for, and without LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memtune::config {

struct ModelFile {
  std::vector<std::string> records;  // of a zip archive, without the folder that they are all in
  std::filesystem::path config;      // of a Hugging Face model: its config.json
  bool exported = false;             // an archive of torch.export
  std::string instead;               // "it is a safetensors file, ...": why it is no model to load; "" where it is one

  bool has(const std::string& start) const;  // a record that starts so
};

// Reads the start, and of an archive the directory at its end. A file that cannot be read, is empty or cut off has the
// reason in `instead`; nothing is thrown.
ModelFile look_at_model(const std::filesystem::path& path);

// UsageError, one line: "cannot use the model 'PATH': WHY"
[[noreturn]] void refuse_model(const std::string& path, const std::string& why);

}  // namespace memtune::config
