#include "core/model/pt2/pt2_sample_input.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/model/pt2/pickle.h"
#include "core/model/pt2/pt2_tensor_entry.h"
#include "core/model/pt2/zip_directory.h"

namespace memtune::model {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxDepth = 32, kMaxTensors = 1024;
constexpr int64_t kMaxElements = 1 << 22;  // over all tensors

// Integer and bool storages, with the schema's dtype number, which gives the element size.
const std::map<std::string, int64_t>& dtypes() {
  static const std::map<std::string, int64_t> table = {{"torch ByteStorage", 1},  {"torch CharStorage", 2},
                                                       {"torch ShortStorage", 3}, {"torch IntStorage", 4},
                                                       {"torch LongStorage", 5},  {"torch BoolStorage", 12}};
  return table;
}

int64_t element(int64_t dtype, const char* at) {
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<int64_t>(value);
  };
  switch (dtype) {
    case 2: return read(int8_t());
    case 3: return read(int16_t());
    case 4: return read(int32_t());
    case 5: return read(int64_t());
    default: return read(uint8_t());
  }
}

class Samples {
 public:
  Samples(const PickleTree& pickle, const std::map<std::string, std::string_view>& records)
      : pickle_(pickle), records_(records) {
    visit(pickle.root, 0);
  }
  std::vector<Pt2SampleInput> take() && { return std::move(samples_); }

 private:
  void visit(size_t at, size_t depth) {
    const PickleValue& value = pickle_.at(at);
    if (depth > kMaxDepth || samples_.size() >= kMaxTensors) return;
    if (value.kind == Kind::call) return add(value);
    if (value.kind != Kind::sequence && value.kind != Kind::dict) return;
    const bool is_dict = value.kind == Kind::dict;
    for (size_t i = is_dict; i < value.parts.size(); i += 1 + is_dict) visit(value.parts[i], depth + 1);
  }

  const PickleValue* part(const PickleValue& value, size_t i, Kind kind) const {
    if (i >= value.parts.size()) return nullptr;
    const PickleValue& found = pickle_.at(value.parts[i]);
    return found.kind == kind ? &found : nullptr;
  }

  std::vector<int64_t> numbers(const PickleValue& sequence) const {
    std::vector<int64_t> found;
    for (size_t i = 0; i < sequence.parts.size(); ++i) {
      const PickleValue* number = part(sequence, i, Kind::integer);
      found.push_back(number ? number->integer : -1);
    }
    return found;
  }

  // Parses _rebuild_tensor_v2(storage, offset, sizes, strides, ...). Exports with dynamic sizes wrap it:
  // _rebuild_from_type_v2(_rebuild_tensor_v2, class, arguments, ...). The storage is ("storage", class, record, device,
  // elements).
  void add(const PickleValue& call) {
    const PickleValue *function = part(call, 0, Kind::global), *arguments = part(call, 1, Kind::sequence);
    if (function && arguments && function->text == "torch._tensor _rebuild_from_type_v2") {
      function = part(*arguments, 0, Kind::global);
      arguments = part(*arguments, 2, Kind::sequence);
    }
    if (!function || !arguments || function->text != "torch._utils _rebuild_tensor_v2") return;
    const PickleValue *storage = part(*arguments, 0, Kind::persistent), *offset = part(*arguments, 1, Kind::integer),
                      *sizes = part(*arguments, 2, Kind::sequence), *strides = part(*arguments, 3, Kind::sequence);
    const PickleValue* id = storage ? part(*storage, 0, Kind::sequence) : nullptr;
    const PickleValue *type = id ? part(*id, 1, Kind::global) : nullptr,
                      *record = id ? part(*id, 2, Kind::text) : nullptr;
    if (!type || !record || !offset || !sizes || !strides) return;
    samples_.push_back({type->text.substr(type->text.find(' ') + 1), numbers(*sizes), {}});
    const auto dtype = dtypes().find(type->text);
    const auto bytes = records_.find("data/" + record->text);
    if (dtype != dtypes().end() && bytes != records_.end())
      read({record->text, "", dtype->second, samples_.back().sizes, numbers(*strides), offset->integer, false},
           bytes->second);
  }

  static bool fits(const Pt2TensorEntry& tensor, std::string_view bytes) try {
    check_fits(tensor, static_cast<int64_t>(bytes.size()));
    return true;
  } catch (const UsageError&) {
    return false;
  }

  void read(const Pt2TensorEntry& tensor, std::string_view bytes) {
    int64_t elements = 1;
    for (const int64_t size : tensor.sizes)
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return;
    for (const int64_t stride : tensor.strides)
      if (stride < 0) return;
    left_ -= std::min(elements, kMaxElements + 1);
    if (left_ < 0 || tensor.offset < 0 || elements == 0 || !fits(tensor, bytes)) return;
    std::vector<int64_t> index(tensor.sizes.size());
    for (int64_t i = 0; i < elements; ++i) {
      int64_t at = tensor.offset, rest = i;
      for (size_t d = index.size(); d-- > 0; rest /= tensor.sizes[d]) at += rest % tensor.sizes[d] * tensor.strides[d];
      samples_.back().values.push_back(element(tensor.dtype, bytes.data() + at * pt2_element_bytes(tensor.dtype)));
    }
  }

  const PickleTree& pickle_;
  const std::map<std::string, std::string_view>& records_;
  std::vector<Pt2SampleInput> samples_;
  int64_t left_ = kMaxElements;
};

// Records by name, without the common top folder.
std::map<std::string, std::string_view> records_of(std::string_view file) {
  std::map<std::string, std::string_view> records;
  const ZipByteSource bytes = zip_bytes(file);
  const auto found = read_zip_directory(bytes);
  for (const ZipDirectoryEntry& record : found.value_or(std::vector<ZipDirectoryEntry>()))
    if (const auto begin = content_begin(bytes, record); begin && !record.packed)
      records[record.name.substr(record.name.find('/') + 1)] = file.substr(*begin, record.stored_bytes);
  return records;
}

}  // namespace

std::vector<Pt2SampleInput> parse_pt2_samples(std::string_view file) {
  const auto records = records_of(file);
  const auto pickled = records.find("data.pkl");
  if (pickled == records.end()) return {};
  const std::optional<PickleTree> pickle = parse_pickle(pickled->second);
  return pickle ? Samples(*pickle, records).take() : std::vector<Pt2SampleInput>();
}

}  // namespace memtune::model
