#include "core/model/safetensors/layout.h"

#include <algorithm>
#include <functional>
#include <set>

namespace memtune::safetensors {

std::vector<Entry> lay_out(std::span<const Spec> tensors) {
  std::vector<Entry> entries;
  std::set<std::string> names{"__metadata__"};
  for (const Spec& spec : tensors) {
    if (!names.insert(spec.name).second) throw Malformed("'" + spec.name + "' is there twice");
    entries.push_back({spec.name, spec.dtype, spec.shape, 0, bytes_of(spec.name, spec.dtype, spec.shape)});
  }
  std::ranges::stable_sort(entries, std::greater<>(), [](const Entry& entry) { return bytes_of(entry.dtype); });
  int64_t end = 0;
  for (Entry& entry : entries) {
    entry.begin = end;
    if (__builtin_add_overflow(end, entry.end, &end))
      throw Malformed("'" + entry.name + "' makes it more bytes than can be counted");
    entry.end = end;
  }
  return entries;
}

}  // namespace memtune::safetensors
