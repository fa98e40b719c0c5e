// Tensors of a torch.export archive: their description in the configs, checked against the records with their data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::model {

struct Pt2TensorEntry {
  std::string name, record;
  int64_t dtype = 0;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in elements
  bool trained = false;
};

// Parses a tensor config (model_weights_config.json); `folder` holds the records. Throws UsageError or
// nlohmann::json::exception.
std::vector<Pt2TensorEntry> parse_pt2_tensors(std::string_view config, const std::string& folder);

// Throws UsageError if the tensor does not fit into a record of `record_bytes`.
void check_fits(const Pt2TensorEntry& tensor, int64_t record_bytes);

// Bytes per element; 0 for a dtype that memtune does not know.
int64_t pt2_element_bytes(int64_t dtype);

}  // namespace memtune::model
