// Loads the tensors of a torch.export archive to the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/model/pt2/pt2_archive.h"
#include "core/model/pt2/pt2_tensor_entry.h"

namespace memtune::frontend {

class LoadedPt2Tensors {
 public:
  // Names of one record share its memory; equal views of it become one tensor (tied). Each tensor must fit into its
  // record.
  LoadedPt2Tensors(const model::Pt2Archive& archive, const std::vector<model::Pt2TensorEntry>& tensors,
                   c10::Device device);

  const at::Tensor& find(const std::string& name) const;  // throws UsageError if missing

 private:
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace memtune::frontend
