#include "core/model/pt2/pt2_tensor_entry.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/model/pt2/pt2_graph.h"

namespace memtune::model {
namespace {

using nlohmann::json;

std::vector<int64_t> whole_sizes(const json& values, const std::string& tensor) {
  std::vector<int64_t> sizes;
  for (const json& value : json_array(values)) {
    const auto [tag, held] = json_union(value);
    if (tag != "as_int") throw UsageError("its tensor '" + tensor + "' has no fixed size");
    sizes.push_back(whole(*held, 0));
  }
  return sizes;
}

Pt2TensorEntry parse_tensor(const std::string& name, const json& payload, const std::string& folder) {
  const std::string shown = printable(name);
  if (payload.at("use_pickle").get<bool>() || payload.at("tensor_meta").is_null())
    throw UsageError("'" + shown + "' is pickled: a tensor of a class of its own, or an object");
  const json& meta = payload.at("tensor_meta");
  if (json_word(meta.at("device").at("type")) == "meta")
    throw UsageError("'" + shown + "' was exported on the meta device: the archive has no weights");
  Pt2TensorEntry tensor{name, folder + json_word(payload.at("path_name")), whole_at(meta, "dtype"), {}, {}, 0, false};
  if (pt2_element_bytes(tensor.dtype) == 0)
    throw UsageError("'" + shown + "' has an unknown dtype, number " + std::to_string(tensor.dtype));
  if (constexpr int64_t kStrided = 7; whole_at(meta, "layout") != kStrided)
    throw UsageError("'" + shown + "' is a sparse tensor");
  tensor.sizes = whole_sizes(meta.at("sizes"), shown);
  tensor.strides = whole_sizes(meta.at("strides"), shown);
  tensor.offset = whole_sizes(json::array({meta.at("storage_offset")}), shown)[0];
  tensor.trained = meta.at("requires_grad").get<bool>();
  return tensor;
}

}  // namespace

int64_t pt2_element_bytes(int64_t dtype) {
  static const std::map<int64_t, int64_t> bytes = {{1, 1},  {2, 1},  {3, 2},  {4, 4},  {5, 8},   {6, 2},
                                                   {7, 4},  {8, 8},  {9, 4},  {10, 8}, {11, 16}, {12, 1},
                                                   {13, 2}, {28, 2}, {29, 1}, {30, 1}, {31, 1},  {32, 1}};
  const auto found = bytes.find(dtype);
  return found == bytes.end() ? 0 : found->second;
}

void check_fits(const Pt2TensorEntry& tensor, int64_t record_bytes) {
  const auto refuse = [&] {
    throw UsageError("it is damaged or cut off: '" + printable(tensor.name) + "' is larger than its record");
  };
  if (tensor.sizes.size() != tensor.strides.size()) refuse();
  const bool is_empty = std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
  int64_t last = tensor.offset, bytes = 0;
  for (size_t i = 0; i < tensor.sizes.size() && !is_empty; ++i) {
    int64_t far = 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &far) ||
        __builtin_add_overflow(last, far, &last))
      refuse();
  }
  const int64_t end = is_empty ? tensor.offset : last == std::numeric_limits<int64_t>::max() ? last : last + 1;
  if (__builtin_mul_overflow(end, pt2_element_bytes(tensor.dtype), &bytes) || bytes > record_bytes) refuse();
}

std::vector<Pt2TensorEntry> parse_pt2_tensors(std::string_view config, const std::string& folder) {
  std::vector<Pt2TensorEntry> tensors;
  const json parsed = parse_json(config);
  for (const auto& [name, payload] : parsed.at("config").items())
    tensors.push_back(parse_tensor(name, payload, folder));
  return tensors;
}

}  // namespace memtune::model
