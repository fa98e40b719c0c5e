#include "core/model/safetensors/header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/json.h"

namespace memtune::safetensors {
namespace {

using nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr size_t kMaxEntries = 100'000, kMaxDimensions = 64;

json parse_text(const std::string& text) try {
  json header = parse_json(text, JsonDuplicateKeyPolicy::refused);
  if (!header.is_object()) throw MalformedFileError("its header is no JSON object");
  return header;
} catch (const json::parse_error&) {
  throw MalformedFileError("its header is no JSON");
} catch (const json::exception& error) {
  throw MalformedFileError(error.what());
}

std::map<std::string, std::string> parse_metadata(const json& value) try {
  return value.get<std::map<std::string, std::string>>();
} catch (const json::exception&) {
  throw MalformedFileError("its __metadata__ holds something else than text");
}

int64_t whole_number(const std::string& name, const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{1} << 62)
    throw MalformedFileError("'" + name + "' has the size or offset " + value.dump());
  return value.get<int64_t>();
}

Dtype dtype_of(const std::string& name, const json& value) {
  const auto dtype = parse_dtype(value.get<std::string>());
  if (!dtype) throw MalformedFileError("'" + name + "' has the unknown dtype " + value.dump());
  return *dtype;
}

void check(const TensorEntry& entry, int64_t data_bytes) {
  if (entry.begin > entry.end || entry.end > data_bytes)
    throw MalformedFileError("'" + entry.name + "' lies outside the file (bytes " + std::to_string(entry.begin) +
                             " to " + std::to_string(entry.end) + " of " + std::to_string(data_bytes) + ")");
  const std::string has = "'" + entry.name + "' has " + std::to_string(entry.bytes()) + " bytes, its shape needs ";
  const int64_t needed = bytes_of(entry.name, entry.dtype, entry.shape);
  if (needed != entry.bytes()) throw MalformedFileError(has + std::to_string(needed));
}

TensorEntry parse_entry(const std::string& name, const json& value, int64_t data_bytes) try {
  TensorEntry entry{name, dtype_of(name, value.at("dtype")), {}, 0, 0};
  if (value.at("shape").size() > kMaxDimensions)
    throw MalformedFileError("'" + name + "' has more than " + std::to_string(kMaxDimensions) + " dimensions");
  for (const json& size : value.at("shape")) entry.shape.push_back(whole_number(name, size));
  const json& offsets = value.at("data_offsets");
  if (offsets.size() != 2) throw MalformedFileError("'" + name + "' has no two data_offsets");
  entry.begin = whole_number(name, offsets[0]);
  entry.end = whole_number(name, offsets[1]);
  check(entry, data_bytes);
  return entry;
} catch (const json::exception&) {
  throw MalformedFileError("'" + name + "' lacks dtype, shape or data_offsets");
}

void check_layout(const std::vector<TensorEntry>& entries, int64_t data_bytes) {
  int64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != end)
      throw MalformedFileError("'" + entry.name + "' overlaps another tensor or leaves a hole before it");
    end = entry.end;
  }
  if (end != data_bytes)
    throw MalformedFileError(std::to_string(data_bytes - end) + " bytes at its end belong to no tensor");
}

}  // namespace

int64_t bytes_of(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = bytes_of(dtype);
  bool overflow = false;
  for (const int64_t size : shape) {
    if (size < 0) throw MalformedFileError("'" + name + "' has the size " + std::to_string(size));
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflow) throw MalformedFileError("'" + name + "' has a shape that needs more bytes than can be counted");
  return bytes;
}

int64_t parse_length(const unsigned char* bytes, int64_t file_bytes) {
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | bytes[i];
  const auto most = static_cast<uint64_t>(std::min(file_bytes - kLengthBytes, kMaxHeaderBytes));
  if (length > kMaxHeaderBytes && length <= static_cast<uint64_t>(file_bytes - kLengthBytes))
    throw MalformedFileError("its header has " + std::to_string(length) + " bytes, and " +
                             std::to_string(kMaxHeaderBytes) + " are the most");
  if (length > most)
    throw MalformedFileError("its header is said to have " + std::to_string(length) + " bytes, the file has " +
                             std::to_string(file_bytes));
  return static_cast<int64_t>(length);
}

Header parse_header(const std::string& text, int64_t data_bytes) {
  Header header;
  const json parsed = parse_text(text);
  for (const auto& [name, value] : parsed.items()) {
    if (header.entries.size() == kMaxEntries)
      throw MalformedFileError("it has more than " + std::to_string(kMaxEntries) + " tensors");
    if (name == kMetadata) {
      header.metadata = parse_metadata(value);
    } else {
      header.entries.push_back(parse_entry(name, value, data_bytes));
    }
  }
  std::ranges::sort(header.entries, {}, [](const TensorEntry& entry) { return std::tie(entry.begin, entry.end); });
  check_layout(header.entries, data_bytes);
  return header;
}

std::string print_header(const Header& header) try {
  json value = json::object();
  if (!header.metadata.empty()) value[kMetadata] = header.metadata;
  for (const TensorEntry& entry : header.entries)
    value[entry.name] = {
        {"dtype", to_string(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  std::string text = value.dump();
  const int64_t begin = kLengthBytes + static_cast<int64_t>(text.size());
  text.append(static_cast<size_t>((kDataAlignment - begin % kDataAlignment) % kDataAlignment), ' ');
  std::string length(kLengthBytes, '\0');
  for (int i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
} catch (const json::exception&) {
  throw MalformedFileError("a name or a text in it is no UTF-8");
}

}  // namespace memtune::safetensors
