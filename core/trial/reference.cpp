#include "core/trial/reference.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace memtune::trial {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kMagic[] = "MTREFER1";
constexpr size_t kMagicBytes = sizeof kMagic - 1;
constexpr size_t kHashDigits = 32;
constexpr int64_t kSliceElements = int64_t{1} << 22;  // of a comparison in double precision

std::string to_hex(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", number);
  return text;
}

// One gradient at a time is on the CPU.
at::Tensor on_cpu(const at::Tensor& gradient) {
  at::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
  return dense.detach().to(at::kCPU).contiguous();
}

std::string hash_of(const at::Tensor& tensor) { return hash_hex(tensor.const_data_ptr(), tensor.nbytes()); }

json describe(const std::string& name, const at::Tensor& parameter, uint64_t& offset) {
  bool defined = parameter.grad().defined();
  uint64_t bytes = defined ? parameter.nbytes() : 0;
  json entry = {{"name", name},
                {"dtype", c10::toString(parameter.scalar_type())},
                {"shape", parameter.sizes().vec()},
                {"defined", defined},
                {"offset", offset},
                {"bytes", bytes},
                {"hash", std::string(kHashDigits, '0')}};
  offset += bytes;
  return entry;
}

// The hashes are known when the gradients are written: the header is written twice, with the same length.
void write_header(std::ofstream& file, const json& header) {
  std::string text = header.dump();
  uint64_t length = text.size();
  file.seekp(0);
  file.write(kMagic, kMagicBytes);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

class ReferenceFile {
 public:
  explicit ReferenceFile(const fs::path& path) : path_(path), file_(path, std::ios::binary) {
    char magic[kMagicBytes] = {};
    uint64_t length = 0;
    file_.read(magic, kMagicBytes);
    file_.read(reinterpret_cast<char*>(&length), sizeof length);
    std::error_code error;
    uint64_t size = fs::file_size(path, error);
    if (!file_ || error || std::memcmp(magic, kMagic, kMagicBytes) != 0 || length > size) refuse("no reference file");
    std::string text(length, '\0');
    file_.read(text.data(), static_cast<std::streamsize>(length));
    data_ = kMagicBytes + sizeof length + length;
    header_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!file_ || !is_complete(size)) refuse("a damaged reference file");
  }

  double loss() const { return std::strtod(header_["loss"].get_ref<const std::string&>().c_str(), nullptr); }
  std::string strategy() const { return header_["strategy"]; }
  const json& entries() const { return header_["parameters"]; }

  const json& entry(size_t i, const std::string& name, const at::Tensor& parameter) const {
    const json& found = entries()[i];
    if (found["name"] != name || found["dtype"] != c10::toString(parameter.scalar_type()) ||
        found["shape"] != json(parameter.sizes().vec()))
      refuse("of another model: it has '" + found["name"].get<std::string>() + "' where this one has '" + name + "'");
    return found;
  }

  at::Tensor read(const json& entry, const at::Tensor& parameter) {
    at::Tensor tensor = at::empty(parameter.sizes(), at::TensorOptions(parameter.scalar_type()));
    file_.seekg(static_cast<std::streamoff>(data_ + entry["offset"].get<uint64_t>()));
    file_.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    if (!file_) refuse("a damaged reference file");
    return tensor;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError("'" + path_.string() + "' is " + what + "; remove it and run the baseline again");
  }

 private:
  bool is_complete(uint64_t size) const {
    try {
      uint64_t end = 0;
      if (!header_.at("loss").is_string() || !header_.at("strategy").is_string()) return false;
      for (const json& entry : header_.at("parameters")) {
        if (!entry.at("name").is_string() || !entry.at("hash").is_string() || !entry.at("shape").is_array() ||
            !entry.at("dtype").is_string() || !entry.at("defined").is_boolean() ||
            entry.at("offset").get<uint64_t>() != end)
          return false;
        end += entry.at("bytes").get<uint64_t>();
      }
      return data_ + end == size;
    } catch (const json::exception&) {
      return false;
    }
  }

  fs::path path_;
  std::ifstream file_;
  json header_;
  uint64_t data_ = 0;  // where the gradients start
};

// NaN on one side only is as far off as it gets; finite, since JSON has no infinity.
double difference(double a, double b) {
  double d = std::abs(a - b);
  if (std::isnan(a) && std::isnan(b)) return 0;
  return a == b ? 0 : std::isfinite(d) ? d : std::numeric_limits<double>::max();
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor left = a.flatten(), right = b.flatten();
  double largest = 0;
  for (int64_t i = 0; i < left.numel(); i += kSliceElements) {
    int64_t end = std::min(left.numel(), i + kSliceElements);
    at::Tensor x = left.slice(0, i, end).to(at::kDouble), y = right.slice(0, i, end).to(at::kDouble);
    const double *p = x.const_data_ptr<double>(), *q = y.const_data_ptr<double>();
    for (int64_t k = 0; k < end - i; ++k) largest = std::max(largest, difference(p[k], q[k]));
  }
  return largest;
}

void note(result::Gradients& result, double value, const std::string& where) {
  if (result.equal || value > result.max_abs_difference) {
    result.max_abs_difference = value;
    result.worst = where;
  }
  result.equal = false;
}

// A gradient that only one of both has counts as zeros on the other side.
void compare(ReferenceFile& file, const json& entry, const std::string& name, const at::Tensor& parameter,
             result::Gradients& result) {
  bool expected = entry["defined"], found = parameter.grad().defined();
  if (!expected && !found) return;
  at::NoGradGuard no_grad;
  at::Tensor gradient = found ? on_cpu(parameter.grad()) : at::Tensor();
  if (expected && found && hash_of(gradient) == entry["hash"].get<std::string>()) return;
  auto zeros = [&] { return at::zeros(parameter.sizes(), at::TensorOptions(parameter.scalar_type())); };
  note(result, difference(found ? gradient : zeros(), expected ? file.read(entry, parameter) : zeros()), name);
}

}  // namespace

void write_reference(const fs::path& path, const std::string& strategy, double loss,
                     const NamedParameters& parameters) {
  json header = {{"strategy", strategy}, {"loss", to_hex(loss)}, {"parameters", json::array()}};
  uint64_t offset = 0;
  for (const auto& [name, parameter] : parameters) header["parameters"].push_back(describe(name, parameter, offset));
  fs::path aside = path.string() + ".tmp." + std::to_string(::getpid());
  std::ofstream file(aside, std::ios::binary);
  write_header(file, header);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].second.grad().defined()) continue;
    at::Tensor gradient = on_cpu(parameters[i].second.grad());
    header["parameters"][i]["hash"] = hash_of(gradient);
    file.write(static_cast<const char*>(gradient.const_data_ptr()), static_cast<std::streamsize>(gradient.nbytes()));
  }
  write_header(file, header);
  file.close();
  std::error_code error;
  if (file) fs::rename(aside, path, error);
  if (!file || error) {
    fs::remove(aside, error);
    throw IoError("cannot write '" + path.string() + "': is the disk full? It needs " + std::to_string(offset) +
                  " bytes");
  }
}

result::Gradients compare_with_reference(const fs::path& path, double loss, const NamedParameters& parameters) {
  ReferenceFile file(path);
  if (file.entries().size() != parameters.size())
    file.refuse("of another model: it has " + std::to_string(file.entries().size()) + " parameters, this one has " +
                std::to_string(parameters.size()));
  result::Gradients result;
  result.compared = true;
  result.equal = true;
  result.against = file.strategy();
  if (to_hex(loss) != to_hex(file.loss())) note(result, difference(loss, file.loss()), "loss");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    compare(file, file.entry(i, name, parameter), name, parameter, result);
  }
  return result;
}

}  // namespace memtune::trial
