#include "core/model/safetensors/layout.h"

#include <algorithm>
#include <functional>
#include <set>

namespace memtune::safetensors {

std::vector<TensorEntry> lay_out(std::span<const TensorNameDtypeAndShape> tensors) {
  std::vector<TensorEntry> entries;
  std::set<std::string> names{"__metadata__"};
  for (const TensorNameDtypeAndShape& spec : tensors) {
    if (!names.insert(spec.name).second) throw MalformedFileError("'" + spec.name + "' is there twice");
    entries.push_back({spec.name, spec.dtype, spec.shape, 0, bytes_of(spec.name, spec.dtype, spec.shape)});
  }
  std::ranges::stable_sort(entries, std::greater<>(), [](const TensorEntry& entry) { return bytes_of(entry.dtype); });
  int64_t end = 0;
  for (TensorEntry& entry : entries) {
    entry.begin = end;
    if (__builtin_add_overflow(end, entry.end, &end))
      throw MalformedFileError("'" + entry.name + "' makes it more bytes than can be counted");
    entry.end = end;
  }
  return entries;
}

}  // namespace memtune::safetensors
