#include "core/plan/request/reference_file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr char kMagic[] = "MTREFER4";
constexpr size_t kMagicBytes = sizeof kMagic - 1, kNameBytes = kMagicBytes - 1;  // the last character is the version

// Hexadecimal, because JSON has no NaN or infinity and a loss must keep its bits.
std::string to_hex(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", number);
  return text;
}

double from_hex(const json& text) { return std::strtod(text.get_ref<const std::string&>().c_str(), nullptr); }

json to_json(const ReferenceGradientFileEntry& gradient) {
  return {{"name", gradient.name},          {"dtype", gradient.dtype},
          {"shape", gradient.shape},        {"defined", gradient.defined},
          {"offset", gradient.offset},      {"bytes", gradient.bytes},
          {"hash", gradient.hash},          {"device_hash", gradient.device_hash},
          {"noise", to_hex(gradient.noise)}};
}

uint64_t bytes_from(const json& value) { return static_cast<uint64_t>(whole(value, 0)); }

std::vector<int64_t> sizes_from(const json& value) {
  std::vector<int64_t> sizes;
  for (const json& size : value) sizes.push_back(whole(size, 0));
  return sizes;
}

ReferenceGradientFileEntry gradient_from(const json& entry) {
  return {entry.at("name"),
          entry.at("dtype"),
          sizes_from(entry.at("shape")),
          entry.at("defined"),
          bytes_from(entry.at("offset")),
          bytes_from(entry.at("bytes")),
          entry.at("hash"),
          from_hex(entry.at("noise")),
          entry.value("device_hash", "")};
}

ReferenceGradientFileIndex reference_from(const json& directory) {
  ReferenceGradientFileIndex reference{directory.at("strategy"),
                                       from_hex(directory.at("loss")),
                                       from_hex(directory.at("loss_noise")),
                                       from_hex(directory.at("relative_noise")),
                                       directory.at("has_gradients"),
                                       {}};
  for (const json& entry : directory.at("gradients")) reference.gradients.push_back(gradient_from(entry));
  return reference;
}

// Whether the gradients are contiguous and end where the directory begins.
bool fill(const std::vector<ReferenceGradientFileEntry>& gradients, uint64_t bytes) {
  uint64_t end = 0;
  for (const ReferenceGradientFileEntry& gradient : gradients) {
    if (gradient.offset != end || gradient.bytes > bytes - end) return false;
    end += gradient.bytes;
  }
  return end == bytes;
}

struct Head {
  uint64_t directory = 0, checksum = 0;  // its offset; its checksum
};

uint64_t checksum_of(const std::string& directory) { return hash64(directory.data(), directory.size(), 0); }

Head read_head(const RandomAccessFileReader& file, const std::filesystem::path& path) {
  char magic[kMagicBytes] = {};
  if (file.size() >= static_cast<int64_t>(kMagicBytes)) file.read(magic, kMagicBytes, 0);
  if (std::memcmp(magic, kMagic, kNameBytes) != 0) refuse_reference(path, "no reference file");
  if (magic[kNameBytes] != kMagic[kNameBytes])
    refuse_reference(path, "a reference file of version " + std::string(1, magic[kNameBytes]) +
                               ", and this memtune reads version " + kMagic[kNameBytes]);
  Head head;
  if (file.size() < static_cast<int64_t>(kFirstGradient)) refuse_reference(path, "a damaged reference file");
  file.read(reinterpret_cast<char*>(&head), sizeof head, kMagicBytes);
  return head;
}

bool is_whole(const RandomAccessFileReader& file, const ReferenceGradientFileEntry& gradient) {
  std::string bytes(gradient.bytes, '\0');
  file.read(bytes.data(), static_cast<int64_t>(gradient.bytes), static_cast<int64_t>(kFirstGradient + gradient.offset));
  return hash_hex(bytes) == gradient.hash;
}

}  // namespace

void begin_reference(std::ostream& file) {
  const char nothing[kFirstGradient] = {};
  file.write(nothing, sizeof nothing);
}

void finish_reference(std::ostream& file, const ReferenceGradientFileIndex& reference) {
  json gradients = json::array();
  for (const ReferenceGradientFileEntry& gradient : reference.gradients) gradients.push_back(to_json(gradient));
  const json directory = {{"strategy", reference.strategy},
                          {"loss", to_hex(reference.loss)},
                          {"loss_noise", to_hex(reference.loss_noise)},
                          {"relative_noise", to_hex(reference.relative_noise)},
                          {"has_gradients", reference.has_gradients},
                          {"gradients", gradients}};
  file.seekp(0, std::ios::end);
  const std::string text = directory.dump();
  const Head head = {static_cast<uint64_t>(file.tellp()), checksum_of(text)};
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.seekp(0);
  file.write(kMagic, kMagicBytes);
  file.write(reinterpret_cast<const char*>(&head), sizeof head);
}

ReferenceGradientFileIndex read_reference(const std::filesystem::path& path) {
  const RandomAccessFileReader file(path);
  const Head head = read_head(file, path);
  const auto size = static_cast<uint64_t>(file.size());
  if (head.directory < kFirstGradient || head.directory > size) refuse_reference(path, "a damaged reference file");
  std::string text(size - head.directory, '\0');
  file.read(text.data(), static_cast<int64_t>(text.size()), static_cast<int64_t>(head.directory));
  if (checksum_of(text) != head.checksum) refuse_reference(path, "a damaged reference file");
  try {
    ReferenceGradientFileIndex reference = reference_from(parse_json(text));
    if (fill(reference.gradients, head.directory - kFirstGradient)) return reference;
  } catch (const json::exception&) {
  }
  refuse_reference(path, "a damaged reference file");
}

bool is_whole_reference(const std::filesystem::path& path) try {
  const ReferenceGradientFileIndex reference = read_reference(path);
  if (!reference.has_gradients) return true;
  const RandomAccessFileReader file(path);
  return std::ranges::all_of(reference.gradients, [&](const ReferenceGradientFileEntry& gradient) {
    return !gradient.defined || is_whole(file, gradient);
  });
} catch (const Error&) {
  return false;
}

void refuse_reference(const std::filesystem::path& path, const std::string& what) {
  throw UsageError("'" + path.string() + "' is " + what + "; remove it and run the baseline again");
}

}  // namespace memtune::plan
