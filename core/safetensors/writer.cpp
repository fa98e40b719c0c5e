#include "core/safetensors/writer.h"

#include <algorithm>
#include <functional>
#include <set>

namespace memtune::safetensors {
namespace {

Header lay_out(std::span<const Spec> tensors, std::map<std::string, std::string> metadata) {
  Header header{{}, std::move(metadata)};
  std::set<std::string> names{"__metadata__"};
  for (const Spec& spec : tensors) {
    if (!names.insert(spec.name).second) throw Malformed("'" + spec.name + "' is there twice");
    header.entries.push_back({spec.name, spec.dtype, spec.shape, 0, bytes_of(spec.name, spec.dtype, spec.shape)});
  }
  std::ranges::stable_sort(header.entries, std::greater<>(), [](const Entry& entry) { return bytes_of(entry.dtype); });
  int64_t end = 0;
  for (Entry& entry : header.entries) {
    entry.begin = end;
    if (__builtin_add_overflow(end, entry.end, &end))
      throw Malformed("'" + entry.name + "' makes it more bytes than can be counted");
    entry.end = end;
  }
  return header;
}

template <class Make>
auto checked(const std::filesystem::path& path, Make make) try {
  return make();
} catch (const Malformed& why) {
  throw UsageError("'" + path.string() + "' cannot be written as a safetensors file: " + why.what());
}

}  // namespace

Writer::Writer(const std::filesystem::path& path, std::span<const Spec> tensors,
               std::map<std::string, std::string> metadata, FileSystem& system)
    : header_(checked(path, [&] { return lay_out(tensors, std::move(metadata)); })),
      left_(header_.entries.empty() ? 0 : header_.entries.back().end),
      file_(path, system) {
  put(checked(path, [&] { return print_header(header_); }));
}

void Writer::write(const char* data, int64_t bytes) {
  if (bytes > left_) throw Error("a safetensors file is given " + std::to_string(bytes - left_) + " bytes too many");
  put({data, static_cast<size_t>(bytes)});
  left_ -= bytes;
}

void Writer::put(std::string_view bytes) {
  file_.write(bytes);
  hash_.add(bytes.data(), bytes.size());
  bytes_ += static_cast<int64_t>(bytes.size());
}

void Writer::finish() {
  if (left_ > 0) throw Error("a safetensors file lacks " + std::to_string(left_) + " bytes");
  file_.finish();
}

}  // namespace memtune::safetensors
