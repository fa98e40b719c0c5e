// The baseline's loss and gradients in a file (core/config/reference_file.h), and the comparison of a trial's with it:
// bit for bit, and where the baseline does not repeat itself, parameter by parameter within what it differs by.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/config/reference_file.h"
#include "core/result/measurement.h"

namespace memtune::trial {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;  // gradients are read from .grad()

// Of a parameter, or of the loss, that differs by more than it may.
struct Deviation {
  std::string where;  // "": nothing does
  double difference = 0, allowed = 0;
};

struct Comparison {
  // equal: the loss and every gradient have the reference's bits. Otherwise the largest absolute difference (over the
  // loss too) and where it is.
  result::Gradients gradients;
  Deviation worst;  // the one furthest beyond what it may differ by
};

// Writes the file from runs of the baseline: the constructor the first one's gradients, aside; each repetition adds to
// the noise; finish() gives the file its name. Without finish() nothing stays. Throws IoError.
class ReferenceWriter {
 public:
  ReferenceWriter(const std::filesystem::path& path, const std::string& strategy, double loss,
                  const NamedParameters& parameters);
  ~ReferenceWriter();
  ReferenceWriter(const ReferenceWriter&) = delete;
  ReferenceWriter& operator=(const ReferenceWriter&) = delete;

  void repeat(double loss, const NamedParameters& parameters);
  // Equal: every repetition had the first run's bits.
  const result::Gradients& noise() const { return noise_; }
  void finish();

 private:
  void check() const;  // that all was written
  double relative_noise() const;

  std::filesystem::path path_, aside_;
  std::ofstream file_;
  config::Reference reference_;
  result::Gradients noise_;
  std::map<int, double> sizes_;  // of what was not repeated: parameter (-1: the loss), its largest element
};

// A parameter may differ by twice its own noise, and by twice the usual noise for its size: of a single number, a few
// runs may be equal by chance. Reads the file's gradients only where a hash differs. UsageError when it is no
// reference, damaged, or of another model.
Comparison compare_with_reference(const std::filesystem::path& path, double loss, const NamedParameters& parameters);

}  // namespace memtune::trial
