// Inspects a model's source before anything is loaded, so that each front end can decide whether it supports it.
#pragma once

#include <string>

#include "core/model/source/model_file_info.h"
#include "core/plan/request/trial_request.h"

namespace memtune::frontend {

struct ModelProbe {
  bool is_profile = false;  // the text of a model profile, not a file
  model::ModelFileInfo file;

  bool has_config() const { return is_profile || !file.config.empty(); }  // of transformers
};

ModelProbe probe(const plan::ModelSource& source);

}  // namespace memtune::frontend
