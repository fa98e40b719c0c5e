#include "core/frontend/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"

namespace memtune::frontend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMostHeaderBytes = 100'000'000;

struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;  // within the data section
};

class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code error;
    size_ = fs::file_size(path, error);
    if (error || !file_) throw UsageError("cannot read '" + path.string() + "': no such file");
  }

  std::vector<std::pair<std::string, at::Tensor>> read() {
    auto entries = read_header();
    std::vector<std::pair<std::string, at::Tensor>> result;
    for (const Entry& entry : entries) {
      at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.dtype));
      file_.seekg(static_cast<std::streamoff>(data_ + entry.begin));
      file_.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(entry.end - entry.begin));
      if (!file_) refuse("cannot read the bytes of '" + entry.name + "'");
      result.emplace_back(entry.name, tensor);
    }
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UsageError("'" + path_.string() + "' is not a safetensors file memtune can read: " + why);
  }

  std::vector<Entry> read_header() {
    unsigned char length_bytes[8] = {};
    if (size_ < sizeof length_bytes) refuse("it has only " + std::to_string(size_) + " bytes");
    file_.read(reinterpret_cast<char*>(length_bytes), sizeof length_bytes);
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
    if (length > size_ - sizeof length_bytes || length > kMostHeaderBytes)
      refuse("its header is said to have " + std::to_string(length) + " bytes, the file has " + std::to_string(size_));
    std::string text(length, '\0');
    file_.read(text.data(), static_cast<std::streamsize>(length));
    data_ = sizeof length_bytes + length;
    return parse_header(text);
  }

  std::vector<Entry> parse_header(const std::string& text) const {
    json header = parse_json(text);
    if (!header.is_object()) refuse("its header is no JSON object");
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") entries.push_back(parse_entry(name, value));
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    check_layout(entries);
    return entries;
  }

  // The parser keeps the last of equal names; here they are an error.
  json parse_json(const std::string& text) const {
    std::set<std::string> names;
    auto check = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
        refuse("'" + parsed.get<std::string>() + "' is there twice");
      return true;
    };
    try {
      return json::parse(text, check);
    } catch (const json::exception&) {
      refuse("its header is no JSON");
    }
  }

  Entry parse_entry(const std::string& name, const json& value) const {
    static const std::map<std::string, at::ScalarType> dtypes = {
        {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
        {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};
    Entry entry{name, at::kFloat, {}, 0, 0};
    try {
      auto found = dtypes.find(value.at("dtype").get<std::string>());
      if (found == dtypes.end()) refuse("'" + name + "' has the unknown dtype " + value.at("dtype").dump());
      entry.dtype = found->second;
      for (const json& size : value.at("shape")) entry.shape.push_back(whole_number(name, size));
      if (value.at("data_offsets").size() != 2) refuse("'" + name + "' has no two data_offsets");
      entry.begin = static_cast<uint64_t>(whole_number(name, value.at("data_offsets")[0]));
      entry.end = static_cast<uint64_t>(whole_number(name, value.at("data_offsets")[1]));
    } catch (const json::exception&) {
      refuse("'" + name + "' lacks dtype, shape or data_offsets");
    }
    check_entry(entry);
    return entry;
  }

  int64_t whole_number(const std::string& name, const json& value) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{1} << 62)
      refuse("'" + name + "' has the size or offset " + value.dump());
    return value.get<int64_t>();
  }

  void check_entry(const Entry& entry) const {
    if (entry.begin > entry.end || entry.end > size_ - data_)
      refuse("'" + entry.name + "' lies outside the file (bytes " + std::to_string(entry.begin) + " to " +
             std::to_string(entry.end) + " of " + std::to_string(size_ - data_) + ")");
    int64_t bytes = static_cast<int64_t>(c10::elementSize(entry.dtype));
    bool overflow = false;
    for (int64_t size : entry.shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
    if (overflow || static_cast<uint64_t>(bytes) != entry.end - entry.begin)
      refuse("'" + entry.name + "' has " + std::to_string(entry.end - entry.begin) + " bytes, its shape needs " +
             (overflow ? std::string("more than can be counted") : std::to_string(bytes)));
  }

  void check_layout(const std::vector<Entry>& entries) const {
    uint64_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != end) refuse("'" + entry.name + "' overlaps another tensor or leaves a hole before it");
      end = entry.end;
    }
    if (end != size_ - data_) refuse(std::to_string(size_ - data_ - end) + " bytes at its end belong to no tensor");
  }

  fs::path path_;
  std::ifstream file_;
  uint64_t size_ = 0;
  uint64_t data_ = 0;  // where the data section starts
};

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const fs::path& path) { return Reader(path).read(); }

}  // namespace memtune::frontend
