// Inspects a model's source before anything is loaded, so that each front end can decide whether it supports it.
#pragma once

#include <string>

#include "core/model/source/detected_model_format.h"
#include "core/plan/request/trial_request.h"

namespace memtune::frontend {

struct DetectedModelSource {
  bool is_profile = false;  // the text of a model profile, not a file
  model::DetectedModelFormat file;

  bool has_config() const { return is_profile || !file.config.empty(); }  // of transformers
};

DetectedModelSource probe(const plan::ModelAndInputSource& source);

}  // namespace memtune::frontend
