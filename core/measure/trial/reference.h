// Writes the baseline's loss and gradients into a file (core/plan/request/reference_file.h), and compares those of a
// trial with them: bit for bit, or, if the baseline is not reproducible, parameter by parameter within its noise.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/request/reference_file.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::trial {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;  // gradients are read from .grad()

// The parameter, or the loss, that exceeds its allowed difference.
struct ExcessiveGradientDeviation {
  std::string where;  // "": none
  double difference = 0, allowed = 0;
};

struct ReferenceGradientComparisonResult {
  // equal: the loss and all gradients have the reference's bits. Otherwise the largest absolute difference (including
  // the loss) and where it is.
  result::GradientComparison gradients;
  ExcessiveGradientDeviation worst;  // the one that exceeds its allowed difference most
  bool has_size = true;              // false: the file has hashes alone, so the size of a difference is not known
};

enum class ReferenceHashesOrGradients { hashes, gradients };  // gradients: with their hashes

// Writes the file from runs of the baseline. The constructor writes the gradients of the first run, or their hashes,
// into a temporary file, each repetition adds to the noise, and finish() renames the file. Without finish() nothing
// stays. Throws IoError.
class ReferenceGradientFileWriter {
 public:
  ReferenceGradientFileWriter(const std::filesystem::path& path, const std::string& strategy, double loss,
                              const NamedParameters& parameters,
                              ReferenceHashesOrGradients content = ReferenceHashesOrGradients::gradients);
  ~ReferenceGradientFileWriter();
  ReferenceGradientFileWriter(const ReferenceGradientFileWriter&) = delete;
  ReferenceGradientFileWriter& operator=(const ReferenceGradientFileWriter&) = delete;

  void repeat(double loss, const NamedParameters& parameters);
  // equal: every repetition had the bits of the first run.
  const result::GradientComparison& noise() const { return noise_; }
  void finish();

 private:
  void check() const;  // throws unless all was written
  double relative_noise() const;

  std::filesystem::path path_, aside_;
  std::ofstream file_;
  plan::ReferenceGradientFileIndex reference_;
  result::GradientComparison noise_;
  std::map<int, double> sizes_;  // what was not reproduced: parameter (-1: the loss) -> its largest element
};

// A parameter may differ by twice its own noise, or by twice the usual noise for its size. The latter is needed because
// a small parameter may be equal in a few runs by chance. Gradients on a GPU are hashed there; they are copied, and
// those of the file read, only where a hash differs. Throws UsageError if the file is no reference, damaged, or of
// another model.
ReferenceGradientComparisonResult compare_with_reference(const std::filesystem::path& path, double loss,
                                                         const NamedParameters& parameters);

}  // namespace memtune::trial
