#include "core/measure/trial/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

#include "core/base/device/torch/kernels.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/limits.h"
#include "core/base/median.h"

namespace memtune::trial {
namespace {

namespace fs = std::filesystem;
using plan::ReferenceGradientFileEntry;
using plan::ReferenceGradientFileIndex;

constexpr int64_t kSliceElements = int64_t{1} << 22;  // compared at a time, in double precision
constexpr double kAllowed = 2;                        // times the noise

// Copies one gradient at a time to the CPU. Zeros made by autograd have no memory and get some.
at::Tensor on_cpu(const at::Tensor& gradient) {
  at::Tensor dense = gradient.detach();
  if (dense.layout() != at::kStrided) dense = dense.to_dense();
  if (dense._is_zerotensor()) dense = at::zeros(dense.sizes(), dense.options());
  return dense.to(at::kCPU).resolve_conj().resolve_neg().contiguous();
}

// Complex numbers are compared by both parts.
at::Tensor in_doubles(const at::Tensor& tensor) {
  return (tensor.is_complex() ? at::view_as_real(tensor).flatten() : tensor).to(at::kDouble);
}

std::string hash_of(const at::Tensor& tensor) { return hash_hex(tensor.const_data_ptr(), tensor.nbytes()); }

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// NaN on one side only is the largest difference. It is finite, because JSON has no infinity.
double difference(double a, double b) {
  double d = std::abs(a - b);
  if (std::isnan(a) && std::isnan(b)) return 0;
  return a == b ? 0 : std::isfinite(d) ? d : std::numeric_limits<double>::max();
}

// If a run of the baseline is not finite, its noise does not show how much a trial may differ.
double usable(double noise) { return noise < std::numeric_limits<double>::max() ? noise : 0; }

// The difference of one parameter, or of the loss.
struct Difference {
  double largest = 0;  // absolute
  double size = 0;     // of the reference's largest element
};

Difference difference(const at::Tensor& found, const at::Tensor& expected) {
  at::Tensor left = found.flatten(), right = expected.flatten();
  Difference result;
  for (int64_t i = 0; i < left.numel(); i += kSliceElements) {
    int64_t end = std::min(left.numel(), i + kSliceElements);
    at::Tensor x = in_doubles(left.slice(0, i, end)), y = in_doubles(right.slice(0, i, end));
    const double *p = x.const_data_ptr<double>(), *q = y.const_data_ptr<double>();
    for (int64_t k = 0; k < x.numel(); ++k) {
      result.largest = std::max(result.largest, difference(p[k], q[k]));
      if (std::isfinite(q[k])) result.size = std::max(result.size, std::abs(q[k]));
    }
  }
  return result;
}

std::string hex_of(uint64_t first, uint64_t second) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(second));
  return text;
}

// True if its bytes on the device are those that on_cpu() copies.
bool is_plain(const at::Tensor& gradient) {
  return gradient.defined() && gradient.layout() == at::kStrided && !gradient._is_zerotensor() && !gradient.is_conj() &&
         !gradient.is_neg() && gradient.is_contiguous() && gradient.has_storage();
}

// Of the gradients of all parameters, computed where they are; "" for one that cannot be hashed there.
std::vector<std::string> device_hashes(const NamedParameters& parameters) {
  std::vector<std::string> hashes(parameters.size());
  std::vector<at::Tensor> sums(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].second.grad();
    if (!is_plain(gradient)) continue;
    const device::CudaKernelTable* kernels = device::kernels_for(gradient.device());
    if (kernels == nullptr) continue;
    sums[i] = at::zeros({2}, gradient.options().dtype(at::kLong));
    kernels->hash_memory(gradient.const_data_ptr(), static_cast<int64_t>(gradient.nbytes()),
                         reinterpret_cast<uint64_t*>(sums[i].mutable_data_ptr<int64_t>()), gradient.device().index());
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    const at::Tensor here = sums[i].cpu();
    const int64_t* both = here.const_data_ptr<int64_t>();
    hashes[i] = hex_of(static_cast<uint64_t>(both[0]), static_cast<uint64_t>(both[1]));
  }
  return hashes;
}

ReferenceGradientFileEntry describe(const std::string& name, const at::Tensor& parameter, uint64_t offset) {
  return {
      name, c10::toString(parameter.scalar_type()), parameter.sizes().vec(), parameter.grad().defined(), offset, 0, "",
      0};
}

at::Tensor read(const RandomAccessFileReader& file, const ReferenceGradientFileEntry& entry,
                const at::Tensor& parameter, const fs::path& path) {
  at::Tensor tensor = at::empty(parameter.sizes(), at::TensorOptions(parameter.scalar_type()));
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<int64_t>(tensor.nbytes()),
            static_cast<int64_t>(plan::kFirstGradient + entry.offset));
  if (hash_of(tensor) != entry.hash) plan::refuse_reference(path, "a damaged reference file");
  return tensor;
}

void check_model(const ReferenceGradientFileIndex& reference, const NamedParameters& parameters, const fs::path& path) {
  if (reference.gradients.size() != parameters.size())
    plan::refuse_reference(path, "of another model: it has " + std::to_string(reference.gradients.size()) +
                                     " parameters, this one has " + std::to_string(parameters.size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].first;
    const at::Tensor& parameter = parameters[i].second;
    const ReferenceGradientFileEntry& entry = reference.gradients[i];
    if (entry.name != name || entry.dtype != c10::toString(parameter.scalar_type()) ||
        entry.shape != parameter.sizes().vec() ||
        (entry.defined && reference.has_gradients && entry.bytes != parameter.nbytes()))
      plan::refuse_reference(path, "of another model: it has '" + entry.name + "' where this one has '" + name + "'");
  }
}

// Called for everything whose bits differ from the reference: index of the parameter, -1 for the loss.
using Told = std::function<void(int, const std::string& name, const Difference&)>;

bool same_gradient(const at::Tensor& gradient, const std::string& device_hash,
                   const ReferenceGradientFileEntry& entry) {
  if (!device_hash.empty() && !entry.device_hash.empty() && (device_hash == entry.device_hash || entry.hash.empty()))
    return device_hash == entry.device_hash;
  return !entry.hash.empty() && hash_of(on_cpu(gradient)) == entry.hash;
}

// A gradient that only one side has is compared with zeros. Without gradients in the file the size of a difference is
// unknown, and reported as 0.
void compare(const RandomAccessFileReader& file, const fs::path& path, const ReferenceGradientFileIndex& reference,
             double loss, const NamedParameters& parameters, const Told& told) {
  at::NoGradGuard no_grad;
  const bool both_nan = std::isnan(loss) && std::isnan(reference.loss);
  if (!both_nan && !same_bits(loss, reference.loss))
    told(-1, "loss", {difference(loss, reference.loss), std::abs(reference.loss)});
  const std::vector<std::string> hashes = device_hashes(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].first;
    const at::Tensor& parameter = parameters[i].second;
    const ReferenceGradientFileEntry& entry = reference.gradients[i];
    const bool found = parameter.grad().defined();
    if (!entry.defined && !found) continue;
    if (entry.defined && found && same_gradient(parameter.grad(), hashes[i], entry)) continue;
    if (!reference.has_gradients) {
      told(static_cast<int>(i), name, {});
      continue;
    }
    const at::Tensor gradient = found ? on_cpu(parameter.grad()) : at::Tensor();
    auto zeros = [&] { return at::zeros(parameter.sizes(), at::TensorOptions(parameter.scalar_type())); };
    told(static_cast<int>(i), name,
         difference(found ? gradient : zeros(), entry.defined ? read(file, entry, parameter, path) : zeros()));
  }
}

void note(result::GradientComparison& result, const std::string& where, double largest) {
  if (result.equal || largest > result.max_abs_difference) {
    result.max_abs_difference = largest;
    result.worst = where;
  }
  result.equal = false;
}

}  // namespace

ReferenceGradientFileWriter::ReferenceGradientFileWriter(const fs::path& path, const std::string& strategy, double loss,
                                                         const NamedParameters& parameters,
                                                         ReferenceHashesOrGradients content)
    : path_(path), aside_(path.string() + ".tmp." + std::to_string(::getpid())) {
  remove_file(aside_);  // otherwise a link there would be followed
  file_.open(aside_, std::ios::binary | std::ios::trunc);
  const bool with_gradients = content == ReferenceHashesOrGradients::gradients;
  reference_ = {strategy, loss, 0, 0, with_gradients, {}};
  noise_ = {true, true, 0, "", strategy};
  at::NoGradGuard no_grad;
  plan::begin_reference(file_);
  uint64_t offset = 0;
  const std::vector<std::string> hashes = device_hashes(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    ReferenceGradientFileEntry& entry = reference_.gradients.emplace_back(describe(name, parameter, offset));
    entry.device_hash = hashes[i];
    if (!entry.defined || (!with_gradients && !entry.device_hash.empty())) continue;
    const at::Tensor gradient = on_cpu(parameter.grad());
    entry.hash = hash_of(gradient);
    if (!with_gradients) continue;
    entry.bytes = gradient.nbytes();
    file_.write(static_cast<const char*>(gradient.const_data_ptr()), static_cast<std::streamsize>(gradient.nbytes()));
    offset += entry.bytes;
  }
  file_.flush();
  check();
}

ReferenceGradientFileWriter::~ReferenceGradientFileWriter() {
  std::error_code error;
  fs::remove(aside_, error);
}

void ReferenceGradientFileWriter::check() const {
  if (file_) return;
  uint64_t bytes = 0;
  for (const ReferenceGradientFileEntry& entry : reference_.gradients) bytes += entry.bytes;
  std::error_code error;
  fs::remove(aside_, error);  // no destructor runs if the constructor throws
  std::string message = "cannot write '" + path_.string() + "'";
  if (bytes > 0) message += ", which needs " + std::to_string(bytes) + " bytes";
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    throw DiskFullError(message + ": " + file_size_limit());
  const fs::space_info space = fs::space(path_.parent_path(), error);
  if (!error && space.available < bytes)
    throw DiskFullError(message + ": the disk has " + std::to_string(space.available) + " free");
  throw IoError(message);
}

void ReferenceGradientFileWriter::repeat(double loss, const NamedParameters& parameters) {
  compare(RandomAccessFileReader(aside_), aside_, reference_, loss, parameters,
          [&](int index, const std::string& name, const Difference& by) {
            double& noise = index < 0 ? reference_.loss_noise : reference_.gradients[static_cast<size_t>(index)].noise;
            noise = std::max(noise, by.largest);
            sizes_[index] = by.size;
            note(noise_, name, by.largest);
          });
}

// Median noise relative to the size, of everything that was not reproduced.
double ReferenceGradientFileWriter::relative_noise() const {
  std::vector<double> relative;
  for (const auto& [index, size] : sizes_) {
    const double noise = index < 0 ? reference_.loss_noise : reference_.gradients[static_cast<size_t>(index)].noise;
    if (size > 0) relative.push_back(usable(noise) / size);
  }
  return median(std::move(relative));
}

void ReferenceGradientFileWriter::finish() {
  reference_.relative_noise = relative_noise();
  plan::finish_reference(file_, reference_);
  file_.close();
  check();
  publish_file(aside_, path_);
}

ReferenceGradientComparisonResult compare_with_reference(const fs::path& path, double loss,
                                                         const NamedParameters& parameters) {
  const ReferenceGradientFileIndex reference = plan::read_reference(path);
  check_model(reference, parameters, path);
  const RandomAccessFileReader file(path);
  ReferenceGradientComparisonResult comparison;
  comparison.gradients = {true, true, 0, "", reference.strategy};
  comparison.has_size = reference.has_gradients;
  compare(file, path, reference, loss, parameters, [&](int index, const std::string& name, const Difference& by) {
    note(comparison.gradients, name, by.largest);
    const double own = index < 0 ? reference.loss_noise : reference.gradients[static_cast<size_t>(index)].noise;
    const double allowed = kAllowed * std::max(usable(own), usable(reference.relative_noise * by.size));
    ExcessiveGradientDeviation& worst = comparison.worst;
    if (by.largest > allowed && by.largest - allowed > worst.difference - worst.allowed)
      worst = {name, by.largest, allowed};
  });
  return comparison;
}

}  // namespace memtune::trial
