// Tensors of a torch.export archive: what its configs say of them, checked against the records that hold them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

struct Pt2Tensor {
  std::string name, record;
  int64_t dtype = 0;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // elements
  bool trained = false;
};

// Of a config (model_weights_config.json) and the folder of its records. UsageError or nlohmann::json::exception.
std::vector<Pt2Tensor> parse_pt2_tensors(std::string_view config, const std::string& folder);

// UsageError where the tensor does not lie within a record of so many bytes.
void check_fits(const Pt2Tensor& tensor, int64_t record_bytes);

// Bytes of an element; 0: a dtype that memtune does not know.
int64_t pt2_element_bytes(int64_t dtype);

}  // namespace memtune::config
