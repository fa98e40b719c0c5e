// What a model's source is, told from the outside: before anything is loaded, and so that each front end can say
// whether it is its own.
#pragma once

#include <string>
#include <vector>

#include "core/config/trial_request.h"

namespace memtune::frontend {

struct Probe {
  bool is_profile = false;           // the text of a model profile, not a file
  std::vector<std::string> records;  // of the zip archive at the path, without the folder that they are all in

  bool has(const std::string& start) const;  // a record that starts so
};

// UsageError, one line: no such file, a folder, empty, no zip archive, damaged or cut off.
Probe probe(const config::ModelSource& source);

// "cannot use the model 'PATH': WHY"
[[noreturn]] void refuse(const std::string& path, const std::string& why);

extern const char* const kHowToSave;  // "; save the model with ..."

}  // namespace memtune::frontend
